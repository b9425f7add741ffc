package main

import (
	"context"
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/setup/serverjson"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func addCommand() *cobra.Command {
	a := &addition{}
	cmd := &cobra.Command{
		Use:   "add NAME -- COMMAND [ARG...] | add NAME URL | add [NAME] registry:SERVER[@VERSION] | add [NAME] FILE.json",
		Short: "Add an upstream server to the configuration",
		Long: `Add an upstream server to the configuration, whose comments and order are kept. The
server is started once, and its tools are shown; then the change is shown, and you are
asked.

The server is one of these:
  -- COMMAND [ARG...]         a program that is started
  URL                         a server at an address (streamable HTTP, or HTTP with SSE)
  registry:SERVER[@VERSION]   a server of the MCP registry, by its full name
  FILE.json                   a server described by a server.json, also at an https address

What a server.json would run is shown in full before it is run. Values that it asks for
are asked for here, or given with --set NAME=VALUE.

Texts are in the language of the configuration: ${VAR} is an environment variable. A
secret is never written as plain text: a reference to a variable takes its place, or to
the keyring of the system. While that variable is not set, the server is added as
disabled.`,
		Example: `  mcp-metatool add files -- npx -y @modelcontextprotocol/server-filesystem ~/Documents
  mcp-metatool add github https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'
  mcp-metatool add registry:io.github.user/weather --dry-run`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), args, cmd.ArgsLenAtDash())
		},
	}
	a.settings.addFlags(cmd, silent)
	a.consent.addFlags(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&a.env, "env", "e", nil, "set an environment variable of the program: `NAME=VALUE`, or NAME for ${NAME}")
	f.StringArrayVarP(&a.headers, "header", "H", nil, "send a header to the address: `'NAME: VALUE'`")
	f.StringVar(&a.transport, "transport", "", "transport of the address: `http or sse` (default: detected automatically)")
	f.BoolVar(&a.oauth, "oauth", false, "the server requires a login (see: mcp-metatool auth)")
	f.StringVar(&a.cwd, "cwd", "", "start the program in this `FOLDER`")
	f.BoolVar(&a.disabled, "disabled", false, "add the server as disabled, and do not start it")
	f.BoolVar(&a.noStart, "no-start", false, "do not start the server to see whether it works")
	f.BoolVar(&a.keyring, "keyring", false, "keep secrets that are given here in the keyring of the system")
	f.BoolVar(&a.replace, "replace", false, "replace a server that has the name already")
	f.StringArrayVar(&a.set, "set", nil, "a value that a server.json asks for: `NAME=VALUE`")
	f.StringVar(&a.use, "use", "", "which package or address of a server.json to use: its `KIND` (npm, pypi, oci, nuget, http, sse) or number")
	f.StringVar(&a.registry, "registry", "", "address of the `REGISTRY` (default: $MCP_METATOOL_REGISTRY, then "+serverjson.DefaultRegistry+")")
	completeFlag(cmd, "transport", oneOf("http", "sse"))
	completeFlag(cmd, "use", oneOf("npm", "pypi", "oci", "nuget", "http", "sse"))
	return cmd
}

// envRegistry is the environment variable with the address of the registry.
const envRegistry = "MCP_METATOOL_REGISTRY"

// addition is one run of add.
type addition struct {
	settings
	consent
	env, headers, set        []string
	transport, cwd           string
	use, registry            string
	oauth, disabled, keyring bool
	noStart, replace         bool
	name                     string
	server                   edit.Server
	document                 *serverjson.Document // nil unless it is described by one
	declared                 map[string]bool      // variables and headers that the document says are secret
	consumed                 map[string]bool      // names in env that were values for the document
	file                     *edit.File
	given                    map[string]string // values of variables for this run, which are not kept
	unset                    []string          // variables that are not set in the environment
	kept                     []keptSecret      // those that go into the keyring
	interactive              bool              // somebody can be asked
}

// run adds the server. dash is the number of arguments before --, -1 if there is none.
func (a *addition) run(ctx context.Context, args []string, dash int) error {
	a.consent.begin(a.cmd)
	a.interactive = a.asker != nil && !a.dryRun && !a.yes
	a.given = map[string]string{}
	usage := func(err error) error {
		var exit *exitError
		var fetch *serverjson.FetchError
		switch {
		case err == nil, errors.As(err, &exit), ctx.Err() != nil:
			return err
		case errors.As(err, &fetch):
			return fmt.Errorf("add: %w", err)
		}
		return &exitError{exitUsage, fmt.Errorf("add: %w", err)}
	}
	if err := a.understand(ctx, args, dash); err != nil {
		return usage(err)
	}
	if err := a.open(); err != nil {
		return usage(err)
	}
	if err := a.askForVariables(ctx); err != nil {
		return usage(err)
	}
	if err := a.agree(ctx); err != nil {
		return usage(err)
	}
	if err := a.try(ctx); err != nil {
		return err
	}
	if err := a.chooseKeyring(ctx); err != nil {
		return err
	}
	if err := a.chooseEnabled(ctx); err != nil {
		return err
	}
	if err := a.put(); err != nil {
		return usage(err)
	}
	masker := a.file.Masker(a.loadOptions())
	masker.Add(slices.Collect(maps.Values(a.given))...)
	a.masked = masker.Mask
	written, err := a.apply(ctx, a.cmd, fmt.Sprintf("Write this to %s?", a.file.Path()), a.file.Change())
	if err != nil || !written {
		return err
	}
	a.explain()
	return a.keep(ctx)
}

var registryPrefix = "registry:"

// understand finds out what is to be added.
func (a *addition) understand(ctx context.Context, args []string, dash int) error {
	if dash >= 0 {
		if dash != 1 || len(args) < 2 {
			return errors.New("want NAME -- COMMAND [ARG...]")
		}
		a.name = args[0]
		return a.program(args[1:])
	}
	source := args[len(args)-1]
	switch {
	case len(args) > 2:
		return errors.New("unexpected arguments after the server (a command comes after --: mcp-metatool add NAME -- COMMAND ARG...)")
	case len(args) == 2:
		a.name = args[0]
	}
	if name, ok := strings.CutPrefix(source, registryPrefix); ok {
		return a.fromRegistry(ctx, name)
	}
	u, err := url.Parse(source)
	isURL := err == nil && (u.Scheme == "http" || u.Scheme == "https")
	switch {
	case strings.Contains(source, "://") && !isURL:
		return fmt.Errorf("%q is not an http or https address", source)
	case isURL && a.transport == "" && strings.EqualFold(path.Ext(u.Path), ".json"):
		return a.fromAddress(ctx, source)
	case isURL && a.name == "":
		return fmt.Errorf("a name is required (mcp-metatool add NAME %s)", source)
	case isURL:
		return a.address(source)
	case strings.EqualFold(path.Ext(source), ".json"):
		return a.fromFile(ctx, source)
	}
	return fmt.Errorf("%q is neither an address nor a server.json (a command comes after --: mcp-metatool add NAME -- %s)", source, display.EscapeLine(source))
}

// open opens the configuration and checks that the server can be added.
func (a *addition) open() (err error) {
	if a.file, err = edit.Open(a.loadOptions()); err != nil {
		return err
	}
	if _, err := a.file.Names(); err != nil {
		return err
	}
	if a.file.Has(a.name) && !a.replace {
		return fmt.Errorf("%s: there is an upstream %q already (choose another name, or --replace it)", a.file.Path(), a.name)
	}
	a.server.Disabled = a.disabled
	return a.put()
}

// put puts the server into the text of the configuration, which must be valid then.
func (a *addition) put() error {
	a.file.Reset()
	if err := a.file.Put(a.name, a.server); err != nil {
		return err
	}
	_, err := a.file.Parse(a.loadOptions())
	return err
}

// loadOptions are those for the configuration with the server. Variables of this run have
// values. Those that have none are not errors.
func (a *addition) loadOptions() config.LoadOptions {
	return config.LoadOptions{
		Policies: compile.Policy,
		Context:  a.cmd.Context(), Flag: a.config, Getenv: a.getenv, Unset: func(string, *config.Problem) {},
	}
}

func (a *addition) getenv(name string) (string, bool) {
	if v, ok := a.given[name]; ok {
		return v, true
	}
	return lookupEnv(name)
}

// agree shows what a server.json would run, and asks whether it may be run.
func (a *addition) agree(ctx context.Context) error {
	if a.document == nil {
		return nil
	}
	a.show()
	if a.yes || !a.starts() {
		return nil
	}
	question := "Start this, to see whether it works?"
	if a.server.URL != "" {
		question = "Connect to this, to see whether it works?"
	}
	yes, err := a.asker.confirm(ctx, question)
	if err == nil && !yes {
		a.noStart = true
	}
	return err
}

// starts reports whether the server is to be started.
func (a *addition) starts() bool {
	consented := a.yes || a.interactive
	return consented && !a.dryRun && !a.noStart && !a.disabled && !a.oauth && !slices.ContainsFunc(a.unset, func(name string) bool {
		_, ok := a.given[name]
		return !ok
	})
}

// explain says what there is to do after the server was added.
func (a *addition) explain() {
	out := a.cmd.OutOrStdout()
	fmt.Fprintf(out, "added %s\n", a.name)
	because := ", because"
	if a.disabled {
		because = ", and"
	}
	switch {
	case len(a.unset) > 0 && !a.server.Disabled:
		fmt.Fprintf(out, "These environment variables are not set: %s\nThe server works only where they are set.\n", strings.Join(a.unset, ", "))
	case len(a.unset) > 0:
		fmt.Fprintf(out, "It is disabled%s these environment variables are not set: %s\nSet them where mcp-metatool is started. Then: mcp-metatool enable %s\n",
			because, strings.Join(a.unset, ", "), a.name)
	}
	if a.oauth {
		fmt.Fprintf(out, "Log in with: mcp-metatool auth %s\n", a.name)
	}
}

// serverName makes a name of a server out of one of the registry.
func serverName(full string) string {
	name := full[strings.LastIndexByte(full, '/')+1:]
	name = strings.Trim(notInName.ReplaceAllString(name, "-"), "-")
	for _, affix := range []string{"mcp-server-", "mcp-"} {
		if short := strings.TrimPrefix(name, affix); short != "" {
			name = short
		}
	}
	for _, affix := range []string{"-mcp-server", "-mcp"} {
		if short := strings.TrimSuffix(name, affix); short != "" {
			name = short
		}
	}
	return name[:min(len(name), 32)]
}

var notInName = lazyregexp.New(`[^A-Za-z0-9_-]+`)
