package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func initCommand() *cobra.Command {
	v := &smokeInit{}
	cmd := &cobra.Command{
		Use:   "init [SERVER...] | init NAME -- COMMAND [ARG...] | init NAME URL",
		Short: "Write a first file of checks for the configured servers, or for one server",
		Long: `Write a first file of checks. It is shown, and you are asked.

The file uses the configuration, with all of its servers or those that are named, and its
saved tools. For a server that is not configured, give a name and the command that starts
it, or its address: the file then starts it itself.

The servers are started and asked what they offer; that each offers it becomes a check.
So does a call of each tool that says that it only reads (readOnlyHint), if it needs no
arguments or its schema has values for them. Where only you know the arguments, the check
is skipped until you give them. Other tools are named in a comment. No tool is called,
unless you give --call.`,
		Example: `  mcp-metatool smoke init
  mcp-metatool smoke init github --call -o github.toml
  mcp-metatool smoke init mine -- node server.js
  mcp-metatool smoke checks.toml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd.Context(), args, cmd.ArgsLenAtDash())
		},
	}
	v.Settings.AddFlags(cmd, cli.Silent)
	v.Consent.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&v.output, "output", "o", "checks.toml", "write this `FILE`")
	f.BoolVar(&v.replace, "replace", false, "replace the file if there is one, and keep the old one as a backup")
	f.BoolVar(&v.call, "call", false, "call the tools that only read, once: the check of one that fails is skipped")
	f.BoolVar(&v.all, "all", false, "also write checks, which are skipped, for tools that may change something")
	f.BoolVar(&v.lock, "lock", false, "compare the definitions with a lock, which smoke --record has to write first")
	f.StringArrayVarP(&v.Env, "env", "e", nil, "set an environment variable of the COMMAND: `NAME=VALUE`, or NAME for ${NAME}")
	f.StringArrayVarP(&v.Headers, "header", "H", nil, "send a header to the URL: `'NAME: VALUE'`")
	f.StringVar(&v.Transport, "transport", "", "transport of the URL: `http or sse` (default: http)")
	cmd.ValidArgsFunction = cli.Choices(v.Servers).Complete(0)
	cli.CompleteFlag(cmd, "transport", cli.OneOf("http", "sse"))
	_ = cmd.RegisterFlagCompletionFunc("output", cli.FilesOf("toml")) // the flag exists
	return cmd
}

// smokeInit is a run of smoke init.
type smokeInit struct {
	cli.Settings
	cli.Consent
	cli.Target // a server outside the configuration
	output     string
	replace    bool
	call       bool
	all        bool
	lock       bool

	cfg   *config.Config
	draft smoke.Draft
}

func (v *smokeInit) run(ctx context.Context, args []string, dash int) error {
	v.Consent.Begin(v.Cmd)
	before, err := v.existing()
	if err == nil {
		err = v.source(args, dash)
	}
	if err != nil {
		var exit *cli.ExitError
		if errors.As(err, &exit) {
			return err
		}
		return cli.Usage(fmt.Errorf("smoke init: %w", err))
	}
	v.draft.Path, v.draft.All, v.draft.Lock = v.output, v.all, v.lock
	if err := v.ask(ctx); err != nil {
		return err
	}
	text, summary := v.draft.Text()
	options := smoke.LoadOptions{Load: config.LoadOptions{Policies: compile.Policy, Context: ctx}}
	if _, err := smoke.Parse(v.output, text, options); err != nil {
		return fmt.Errorf("nothing was written: the checks of these servers cannot be written as a file: %w", err)
	}
	v.Masked = v.Masker.Mask
	file := change.File{Path: v.output, Before: before, After: text, Perm: 0o644, Backup: true}
	written, err := v.Apply(ctx, v.Cmd, fmt.Sprintf("Write this to %s?", v.output), file)
	if err != nil || !written {
		return err
	}
	v.explain(summary)
	return nil
}

// existing returns the existing file; nil for none.
func (v *smokeInit) existing() ([]byte, error) {
	if !strings.EqualFold(filepath.Ext(v.output), ".toml") {
		return nil, fmt.Errorf("--output %q: the name of a file of checks ends in .toml", v.output)
	}
	if _, err := os.Lstat(v.output); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if !v.replace {
		return nil, fmt.Errorf("%s exists already (choose another --output, or --replace it)", v.output)
	}
	return config.ReadFile(config.LoadOptions{Policies: compile.Policy, Context: v.Cmd.Context()}, v.output)
}

// source finds out which servers the file is for.
func (v *smokeInit) source(args []string, dash int) error {
	switch {
	case dash >= 0 && (dash != 1 || len(args) < 2):
		return errors.New("want NAME -- COMMAND [ARG...]")
	case dash == 1:
		return v.unconfigured(args[0], func() error { return v.Program(args[1:]) })
	case len(args) == 2 && strings.Contains(args[1], "://"):
		return v.unconfigured(args[0], func() error { return v.Address(args[1]) })
	case len(v.Env) > 0 || len(v.Headers) > 0 || v.Transport != "":
		return errors.New("--env, --header and --transport are for a server that is not configured: NAME -- COMMAND, or NAME URL")
	}
	return v.configured(args)
}

// unconfigured makes the file start a server itself.
func (v *smokeInit) unconfigured(name string, understand func() error) error {
	if v.Config != "" {
		return errors.New("--config is for servers that are configured")
	}
	v.Name, v.Given, v.Notes = name, map[string]string{}, v.Cmd.ErrOrStderr()
	if err := understand(); err != nil {
		return err
	}
	if filepath.IsAbs(v.Server.Command) {
		v.Server.Command = v.relative(v.Server.Command)
	}
	file := edit.New(v.output, nil)
	if err := file.Put(v.Name, v.Server); err != nil {
		return err
	}
	cfg, err := file.Parse(config.LoadOptions{
		Policies: compile.Policy, Context: v.Cmd.Context(), Getenv: v.Getenv, Unset: func(string, *config.Problem) {},
	})
	if err != nil {
		return err
	}
	v.cfg, v.draft.Upstreams = cfg, string(file.Text())
	return nil
}

// relative returns a path for the file of checks: relative to the folder of the file, if the path is
// below the folder.
func (v *smokeInit) relative(path string) string {
	folder, err := filepath.Abs(filepath.Dir(v.output))
	if err != nil {
		return path
	}
	if name, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(name) {
		return "./" + filepath.ToSlash(name)
	}
	return path
}

// configured makes the file use the configuration.
func (v *smokeInit) configured(only []string) error {
	unset := map[string]error{}
	options := config.LoadOptions{Policies: compile.Policy, Context: v.Cmd.Context(), Flag: v.Config, Unset: func(server string, p *config.Problem) {
		unset[server] = cmp.Or[error](unset[server], p)
	}}
	file, err := edit.Open(options)
	if err != nil {
		return cli.Usage(err)
	}
	cfg, err := file.Parse(options)
	if err != nil {
		return cli.Usage(err)
	}
	var names []string
	chosen := cfg.Upstreams[:0:0]
	for _, u := range cfg.Upstreams {
		names = append(names, u.Name)
		if len(only) > 0 && !slices.Contains(only, u.Name) {
			continue
		}
		switch {
		case u.Disabled:
			v.leaveOut(u.Name, "it is disabled")
		case unset[u.Name] != nil:
			v.leaveOut(u.Name, unset[u.Name].Error())
		default:
			u.Start = config.Eager
			chosen = append(chosen, u)
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return cli.UnknownServer(name, names)
		}
	}
	if len(names) == 0 {
		return errors.New("no server is configured (give one: mcp-metatool smoke init NAME -- COMMAND)")
	}
	cfg.Upstreams, v.cfg = chosen, cfg
	v.draft.Config = v.reference(file.Path())
	if len(only) == 0 {
		v.draft.Saved, err = host.ListTools(v.Cmd.Context(), cfg, slog.New(slog.DiscardHandler))
	}
	return err
}

// reference returns the path of the configuration for the file.
func (v *smokeInit) reference(path string) string {
	folder, err := filepath.Abs(filepath.Dir(v.output))
	if err == nil {
		if absolute, bad := filepath.Abs(path); bad == nil {
			path = absolute
		}
		if name, bad := filepath.Rel(folder, path); bad == nil {
			path = name
		}
	}
	return filepath.ToSlash(path)
}

// leaveOut says that the file has no checks of a server.
func (v *smokeInit) leaveOut(name, why string) {
	fmt.Fprintf(v.Cmd.ErrOrStderr(), "note: %s is left out: %s\n", name, display.Text(why))
	v.draft.LeftOut = append(v.draft.LeftOut, name)
}

// explain names the written file and the next steps.
func (v *smokeInit) explain(s smoke.DraftSummary) {
	out, file := v.Cmd.OutOrStdout(), display.EscapeLine(v.output)
	fmt.Fprintf(out, "wrote %s: %s", file, cli.Plural(s.Checks, "check"))
	if s.Skipped > 0 {
		fmt.Fprintf(out, ", %d of them skipped until you complete them", s.Skipped)
	}
	fmt.Fprintln(out)
	if v.lock {
		fmt.Fprintf(out, "Write the lock: mcp-metatool smoke %s --record\n", file)
	}
	fmt.Fprintf(out, "Run the checks: mcp-metatool smoke %s\n", file)
}

// ask starts the servers and asks for their offers.
func (v *smokeInit) ask(ctx context.Context) error {
	log := v.Logger(v.cfg)
	for _, value := range v.Given {
		v.Masker.Add(value)
	}
	if len(v.cfg.Upstreams) > 0 {
		done := cli.StartingServers(v.Cmd, v.cfg)
		defer done()
		err := cli.WithServers(ctx, v.cfg, log, func(ctx context.Context, h *host.Host) error {
			for _, st := range h.Upstreams(ctx) {
				if err := v.offered(ctx, h, st); err != nil {
					return err
				}
			}
			done()
			return cmp.Or(v.tryTools(ctx, h), context.Cause(ctx))
		})
		if err != nil {
			return err
		}
	}
	if len(v.draft.Servers) == 0 {
		return cli.Failed(errors.New("nothing was written: no server has started"))
	}
	return nil
}

// offered adds a server to the draft.
func (v *smokeInit) offered(ctx context.Context, h *host.Host, st servers.Status) error {
	snapshot, err := h.Snapshot(ctx, st.Name)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		why := cmp.Or(strings.TrimPrefix(st.Err, fmt.Sprintf("upstream %q: ", st.Name)), err.Error())
		v.leaveOut(st.Name, "it did not start: "+v.Masker.Mask(why))
		return nil
	}
	server := smoke.DraftServer{Name: st.Name, Names: map[wire.Surface][]string{}}
	definitions := map[string][]byte{}
	for surface, list := range snapshot.Lists {
		for _, item := range list.Items {
			item = []byte(v.Masker.Mask(string(item)))
			name, ok := wire.GetString(item, surface.Key())
			if !ok {
				continue
			}
			server.Names[surface] = append(server.Names[surface], name)
			if surface == wire.Tools {
				definitions[name] = item
			}
		}
	}
	for _, n := range h.Names() {
		if n.Server == st.Name && n.Surface == wire.Tools && definitions[n.Own] != nil {
			server.Tools = append(server.Tools, smoke.DraftTool{Name: n.Public, Definition: definitions[n.Own]})
		}
	}
	v.draft.Servers = append(v.draft.Servers, server)
	return nil
}

// callTime bounds a call of --call.
const callTime = 30 * time.Second

// tryTools calls the read-only tools with --call.
func (v *smokeInit) tryTools(ctx context.Context, h *host.Host) error {
	if !v.call {
		return nil
	}
	return cli.WithClient(ctx, h, func(c *host.Client) error {
		for i := range v.draft.Servers {
			for j := range v.draft.Servers[i].Tools {
				t := &v.draft.Servers[i].Tools[j]
				if args, ok := t.Arguments(); ok && t.ReadOnly() {
					t.Refused = v.tryTool(ctx, c, t.Name, args)
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
			}
		}
		return nil
	})
}

// tryTool calls a tool and returns why a check of the call would fail, "" if the check would pass.
func (v *smokeInit) tryTool(ctx context.Context, c *host.Client, name string, args []byte) string {
	defer cli.Busy(v.Cmd, "calling "+name)()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	result, err := cli.CallTool(ctx, c, name, args, nil)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("it did not answer within %s", callTime)
	case err != nil:
		return "it failed: " + display.Line(v.Masker.Mask(err.Error()), 150)
	}
	if r := cli.ReadResult(result); r.IsError {
		return "it failed: " + display.Line(v.Masker.Mask(r.Text), 150)
	}
	return ""
}
