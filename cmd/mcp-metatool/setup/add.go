// Package setup has the verbs that change the configuration and the files of MCP hosts: add, remove,
// enable, disable, import, connect and disconnect. Each change is shown before the user is asked.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/host/setup/serverjson"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Commands returns the verbs that set up servers and hosts.
func Commands() []*cobra.Command {
	return []*cobra.Command{addCommand(), removeCommand(), enableCommand(), disableCommand(), importServersCommand(), connectCommand(), disconnectCommand()}
}

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
	a.Settings.AddFlags(cmd, cli.Silent)
	a.Consent.AddFlags(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&a.Env, "env", "e", nil, "set an environment variable of the program: `NAME=VALUE`, or NAME for ${NAME}")
	f.StringArrayVarP(&a.Headers, "header", "H", nil, "send a header to the address: `'NAME: VALUE'`")
	f.StringVar(&a.Transport, "transport", "", "transport of the address: `http or sse` (default: detected automatically)")
	f.BoolVar(&a.OAuth, "oauth", false, "the server requires a login (see: mcp-metatool auth)")
	f.StringVar(&a.Dir, "cwd", "", "start the program in this `FOLDER`")
	f.BoolVar(&a.disabled, "disabled", false, "add the server as disabled, and do not start it")
	f.BoolVar(&a.noStart, "no-start", false, "do not start the server to see whether it works")
	f.BoolVar(&a.keyring, "keyring", false, "keep secrets that are given here in the keyring of the system")
	f.BoolVar(&a.replace, "replace", false, "replace a server that has the name already")
	f.StringArrayVar(&a.Set, "set", nil, "a value that a server.json asks for: `NAME=VALUE`")
	f.StringVar(&a.Use, "use", "", "which package or address of a server.json to use: its `KIND` (npm, pypi, oci, nuget, http, sse) or number")
	f.StringVar(&a.registry, "registry", "", "address of the `REGISTRY` (default: $MCP_METATOOL_REGISTRY, then "+serverjson.DefaultRegistry+")")
	cli.CompleteFlag(cmd, "transport", cli.OneOf("http", "sse"))
	cli.CompleteFlag(cmd, "use", cli.OneOf("npm", "pypi", "oci", "nuget", "http", "sse"))
	return cmd
}

// envRegistry is the environment variable with the address of the registry.
const envRegistry = "MCP_METATOOL_REGISTRY"

// addition is a run of add.
type addition struct {
	cli.Settings
	cli.Consent
	cli.Target
	registry          string
	disabled, keyring bool
	noStart, replace  bool
	document          *serverjson.Document // nil for a server without a document
	file              *edit.File
	unset             []string     // variables missing in the environment
	kept              []keptSecret // secrets for the keyring
	interactive       bool         // a person can be asked
}

// run adds the server. dash is the number of arguments before --, -1 without --.
func (a *addition) run(ctx context.Context, args []string, dash int) error {
	a.Consent.Begin(a.Cmd)
	a.interactive = a.Asker != nil && !a.DryRun && !a.Yes
	a.Given, a.Notes = map[string]string{}, a.Cmd.ErrOrStderr()
	usage := func(err error) error {
		var exit *cli.ExitError
		var fetch *serverjson.FetchError
		switch {
		case err == nil, errors.As(err, &exit), ctx.Err() != nil:
			return err
		case errors.As(err, &fetch):
			return fmt.Errorf("add: %w", err)
		}
		return cli.Usage(fmt.Errorf("add: %w", err))
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
	masker.Add(slices.Collect(maps.Values(a.Given))...)
	a.Masked = masker.Mask
	written, err := a.Apply(ctx, a.Cmd, fmt.Sprintf("Write this to %s?", a.file.Path()), a.file.Change())
	if err != nil || !written {
		return err
	}
	a.explain()
	return a.keep(ctx)
}

var registryPrefix = "registry:"

// understand finds out which server to add.
func (a *addition) understand(ctx context.Context, args []string, dash int) error {
	if dash >= 0 {
		if dash != 1 || len(args) < 2 {
			return errors.New("want NAME -- COMMAND [ARG...]")
		}
		a.Name = args[0]
		return a.Program(args[1:])
	}
	source := args[len(args)-1]
	switch {
	case len(args) > 2:
		return errors.New("unexpected arguments after the server (a command comes after --: mcp-metatool add NAME -- COMMAND ARG...)")
	case len(args) == 2:
		a.Name = args[0]
	}
	if name, ok := strings.CutPrefix(source, registryPrefix); ok {
		return a.fromRegistry(ctx, name)
	}
	u, err := url.Parse(source)
	isURL := err == nil && (u.Scheme == "http" || u.Scheme == "https")
	switch {
	case strings.Contains(source, "://") && !isURL:
		return fmt.Errorf("%q is not an http or https address", source)
	case isURL && a.Transport == "" && strings.EqualFold(path.Ext(u.Path), ".json"):
		return a.fromAddress(ctx, source)
	case isURL && a.Name == "":
		return fmt.Errorf("a name is required (mcp-metatool add NAME %s)", source)
	case isURL:
		return a.Address(source)
	case strings.EqualFold(path.Ext(source), ".json"):
		return a.fromFile(ctx, source)
	}
	return fmt.Errorf("%q is neither an address nor a server.json (a command comes after --: mcp-metatool add NAME -- %s)", source, display.EscapeLine(source))
}

// open opens the configuration and checks whether the server can be added.
func (a *addition) open() (err error) {
	if a.file, err = edit.Open(a.loadOptions()); err != nil {
		return err
	}
	if _, err := a.file.Names(); err != nil {
		return err
	}
	if a.file.Has(a.Name) && !a.replace {
		return fmt.Errorf("%s: there is an upstream %q already (choose another name, or --replace it)", a.file.Path(), a.Name)
	}
	a.Server.Disabled = a.disabled
	return a.put()
}

// put puts the server into the text of the configuration, which must be valid then.
func (a *addition) put() error {
	a.file.Reset()
	if err := a.file.Put(a.Name, a.Server); err != nil {
		return err
	}
	_, err := a.file.Parse(a.loadOptions())
	return err
}

// loadOptions returns the options for the configuration with the server. Variables of this run have
// values. Variables without values are not errors.
func (a *addition) loadOptions() config.LoadOptions {
	return config.LoadOptions{
		Policies: compile.Policy,
		Context:  a.Cmd.Context(), Flag: a.Config, Getenv: a.Getenv, Unset: func(string, *config.Problem) {},
	}
}

// agree shows the command of a server.json, and asks whether the command may be run.
func (a *addition) agree(ctx context.Context) error {
	if a.document == nil {
		return nil
	}
	a.show()
	if a.Yes || !a.starts() {
		return nil
	}
	question := "Start this, to see whether it works?"
	if a.Server.URL != "" {
		question = "Connect to this, to see whether it works?"
	}
	yes, err := a.Asker.Confirm(ctx, question)
	if err == nil && !yes {
		a.noStart = true
	}
	return err
}

// starts reports whether the server is to be started.
func (a *addition) starts() bool {
	consented := a.Yes || a.interactive
	return consented && !a.DryRun && !a.noStart && !a.disabled && !a.OAuth && !slices.ContainsFunc(a.unset, func(name string) bool {
		_, ok := a.Given[name]
		return !ok
	})
}

// explain says how to go on after the addition.
func (a *addition) explain() {
	out := a.Cmd.OutOrStdout()
	fmt.Fprintf(out, "added %s\n", a.Name)
	because := ", because"
	if a.disabled {
		because = ", and"
	}
	switch {
	case len(a.unset) > 0 && !a.Server.Disabled:
		fmt.Fprintf(out, "These environment variables are not set: %s\nThe server works only where they are set.\n", strings.Join(a.unset, ", "))
	case len(a.unset) > 0:
		fmt.Fprintf(out, "It is disabled%s these environment variables are not set: %s\nSet them where mcp-metatool is started. Then: mcp-metatool enable %s\n",
			because, strings.Join(a.unset, ", "), a.Name)
	}
	if a.OAuth {
		fmt.Fprintf(out, "Log in with: mcp-metatool auth %s\n", a.Name)
	}
}

// serverName makes a name of a server out of a name in the registry.
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

// askForVariables asks for the values of variables without values. A server with variables missing
// in the environment is added as disabled: the server would only fail.
func (a *addition) askForVariables(ctx context.Context) error {
	a.Server.Disabled = false // the variables of a disabled server are not looked at
	if err := a.put(); err != nil {
		return err
	}
	opts := a.loadOptions()
	opts.Getenv = nil
	opts.Unset = func(upstream string, p *config.Problem) {
		unset := new(config.UnsetError)
		if upstream == a.Name && errors.As(p.Err, &unset) && !slices.Contains(a.unset, unset.Var) {
			a.unset = append(a.unset, unset.Var)
		}
	}
	if _, err := a.file.Parse(opts); err != nil {
		return err
	}
	for _, name := range a.unset {
		if _, ok := a.Given[name]; ok || !a.interactive || a.noStart || a.disabled {
			continue
		}
		value, err := a.Asker.Secret(ctx, fmt.Sprintf("%s is not set. Its value, for this start only (not shown, Enter for none): ", name))
		if err != nil {
			return err
		}
		if value != "" {
			a.Given[name] = value
		}
	}
	a.Server.Disabled = a.disabled || len(a.unset) > 0
	return a.put()
}

// try starts the server once and shows its tools. A server that does not work is added only with
// the consent of the person.
func (a *addition) try(ctx context.Context) error {
	if !a.starts() {
		return nil
	}
	var failed string
	for _, transport := range a.transports() {
		a.Server.Transport = transport
		message, err := a.start(ctx)
		if err != nil {
			return err
		}
		if message == "" {
			return nil
		}
		failed = cmp.Or(failed, message)
	}
	if a.document == nil {
		a.Server.Transport = config.Transport(a.Transport)
	}
	out := a.Cmd.ErrOrStderr()
	fmt.Fprintf(out, "%s does not work: %s\n", a.Name, display.Text(failed))
	if !a.interactive {
		hint := "--no-start adds it anyway"
		if a.Server.URL != "" {
			hint += ", --oauth if it requires a login"
		}
		return cli.Failed(fmt.Errorf("nothing was written: %s does not work (%s)", a.Name, hint))
	}
	yes, err := a.Asker.Confirm(ctx, "Add it anyway?")
	if err == nil && !yes {
		err = cli.Failed(nil)
		fmt.Fprintln(out, "nothing was written")
	}
	return err
}

// transports returns the transports to try, in order: both, if nothing is known about a
// server with an address.
func (a *addition) transports() []config.Transport {
	if a.Server.URL == "" || a.Transport != "" || a.document != nil {
		return []config.Transport{a.Server.Transport}
	}
	if u, err := url.Parse(a.Server.URL); err == nil && path.Base(u.Path) == "sse" {
		return []config.Transport{config.LegacySSE, config.StreamableHTTP}
	}
	return []config.Transport{config.StreamableHTTP, config.LegacySSE}
}

// start starts the server and shows its tools. start returns why the server does not work, "" for a
// working server.
func (a *addition) start(ctx context.Context) (string, error) {
	disabled := a.Server.Disabled
	a.Server.Disabled = false // here all variables have values
	err := a.put()
	a.Server.Disabled = disabled
	if err != nil {
		return "", cli.Usage(err)
	}
	cfg, err := a.file.Parse(a.loadOptions())
	if err != nil {
		return "", cli.Usage(err)
	}
	if cfg, err = cli.OnlyServer(cfg, a.Name); err != nil {
		return "", err
	}
	cfg.Upstreams[0].Detect = false // each transport is tried separately
	done := cli.Busy(a.Cmd, "starting "+a.Name)
	defer done()
	failed := ""
	err = cli.WithServers(ctx, cfg, a.Logger(cfg), func(ctx context.Context, h *host.Host) error {
		st := h.Upstreams(ctx)[0] // the only upstream
		if st.State != servers.Ready {
			failed = a.Masker.Mask(cmp.Or(strings.TrimPrefix(st.Err, fmt.Sprintf("upstream %q: ", st.Name)), "it has not become ready"))
			return context.Cause(ctx)
		}
		snapshot, err := h.Snapshot(ctx, st.Name)
		if err != nil {
			return err
		}
		done()
		return a.showTools(a.Cmd.OutOrStdout(), st, snapshot.Lists[wire.Tools].Items)
	})
	return failed, err
}

// maxShownTools is how many tools are listed.
const maxShownTools = 100

// showTools lists the tools of the server.
func (a *addition) showTools(w io.Writer, st servers.Status, tools [][]byte) error {
	mask := func(text string) string { return display.EscapeLine(a.Masker.Mask(text)) }
	fmt.Fprintf(w, "%s works: %s, protocol %s, started in %s, tools: %d\n\n", a.Name,
		strings.TrimSpace(mask(st.ServerName+" "+st.ServerVersion)), mask(st.ProtocolVersion), st.StartTime.Round(time.Millisecond), len(tools))
	t := cli.NewTable(w)
	t.Head("TOOL", "DESCRIPTION")
	for _, tool := range tools[:min(len(tools), maxShownTools)] {
		name, _ := wire.GetString(tool, "name")
		description, _ := wire.GetString(tool, "description")
		t.Add(mask(name), display.Line(a.Masker.Mask(description), 200))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	more := ""
	if n := len(tools) - maxShownTools; n > 0 {
		more = fmt.Sprintf("and %d more\n", n)
	}
	_, err := fmt.Fprintln(w, more)
	return err
}

// chooseKeyring moves secrets that are known in this run, but not in the environment, to the
// system's keyring, if a flag or the person says so. The secrets are kept after the configuration
// is written.
func (a *addition) chooseKeyring(ctx context.Context) error {
	var names []string
	for _, name := range a.unset {
		if _, ok := a.Given[name]; ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if !a.keyring && a.interactive {
		var err error
		a.keyring, err = a.Asker.Confirm(ctx, fmt.Sprintf("Keep %s in the keyring of this system?", strings.Join(names, ", ")))
		if err != nil {
			return err
		}
	}
	if !a.keyring {
		return nil
	}
	for _, name := range names {
		as, err := a.keyringName(ctx, name)
		if err != nil {
			return err
		}
		a.replaceVariable(name, "${keyring:"+as+"}")
		a.kept = append(a.kept, keptSecret{as, a.Given[name]})
	}
	a.unset = slices.DeleteFunc(a.unset, func(name string) bool { return slices.Contains(names, name) })
	a.Server.Disabled = a.disabled || len(a.unset) > 0
	return nil
}

// chooseEnabled asks whether to enable a server with missing variables.
func (a *addition) chooseEnabled(ctx context.Context) error {
	if len(a.unset) == 0 || a.disabled {
		return nil
	}
	enabled, err := enableUnset(ctx, &a.Consent, []string{a.Name}, a.unset)
	a.Server.Disabled = !enabled
	return err
}

// keptSecret is a secret for the keyring.
type keptSecret struct{ name, value string }

// keyringName returns a name for a secret in the keyring: the name of its variable. If the keyring
// has another secret under the name, the result has the name of the server, and a number.
func (a *addition) keyringName(ctx context.Context, variable string) (string, error) {
	if a.DryRun {
		return variable, nil // the keyring may have to be unlocked
	}
	base := variable
	if prefix := clientconfig.VariableName(a.Name) + "_"; !strings.HasPrefix(variable, prefix) {
		base = prefix + variable
	}
	for n, name := 2, variable; ; {
		other, err := keyringHasOther(ctx, name, a.Given[variable])
		if err != nil {
			return "", fmt.Errorf("add: %w (nothing was written; without --keyring no keyring is needed)", err)
		}
		chosen := slices.ContainsFunc(a.kept, func(k keptSecret) bool { return k.name == name })
		switch {
		case !other && !chosen:
			return name, nil
		case name == variable && base != variable:
			name = base
		default:
			name = fmt.Sprintf("%s_%d", base, n)
			n++
		}
	}
}

// replaceVariable puts a reference in place of a variable in all texts of the server.
func (a *addition) replaceVariable(name, reference string) {
	s := &a.Server
	texts := []*string{&s.Command, &s.URL, &s.Dir}
	for i := range s.Args {
		texts = append(texts, &s.Args[i])
	}
	for i := range s.Env {
		texts = append(texts, &s.Env[i].Value)
	}
	for i := range s.Headers {
		texts = append(texts, &s.Headers[i].Value)
	}
	for _, text := range texts {
		*text = replaceVariable(*text, "${"+name+"}", reference)
	}
}

// replaceVariable replaces an unescaped variable in a text of the configuration.
func replaceVariable(text, variable, reference string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, variable)
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case strings.HasSuffix(before, "$"):
			b.WriteString(variable)
		default:
			b.WriteString(reference)
		}
		text = after
	}
}

// keep puts the secrets into the keyring.
func (a *addition) keep(ctx context.Context) error {
	for _, kept := range a.kept {
		name := kept.name
		err := secret.Set(ctx, name, kept.value)
		if err == nil {
			err = a.SecretNames().Add(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("%s is added, but %s is not in the keyring: %w (try: mcp-metatool secret set %s)", a.Name, name, err, name)
		}
		fmt.Fprintf(a.Cmd.OutOrStdout(), "%s is in the keyring\n", name)
	}
	return nil
}
