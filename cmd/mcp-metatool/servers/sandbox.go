package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/trace"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	reports "github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

func sandboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Find out what a confined server is refused, or what it needs",
		Long: `Find out what a confined server is refused, or what it needs: see docs/confined.md.
Both start the server once, under a tracer, which makes it slower.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sandboxTryCommand(), sandboxLearnCommand())
	return cmd
}

func sandboxTryCommand() *cobra.Command {
	v := &sandboxTry{}
	cmd := &cobra.Command{
		Use:   "try NAME [FILE.toml...]",
		Short: "Start a server in its sandbox, and say what it is refused; exit code 1 if it does not work",
		Long: `Start the server NAME in its sandbox ([servers.NAME.sandbox]), ask for its lists, and
make the call of its [servers.NAME.probe] if it has one. With FILEs, run their checks
(see docs/smoke.md) with the servers of the configuration, too. Then say what the server
was refused, and which setting would allow it.

A server may well be refused something that it can do without. The exit code is 1 if the
server does not start, does not pass its probe, or fails a check.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd.Context(), cmd.OutOrStdout(), args[0], args[1:])
		},
	}
	v.AddFlags(cmd, cli.Silent)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.ValidArgsFunction = cli.Choices(v.Servers).Complete(1)
	return cmd
}

// sandboxTry is a run of sandbox try.
type sandboxTry struct {
	traced
	asJSON bool
}

// tryReport is the output of sandbox try --json.
type tryReport struct {
	Server  string          `json:"server"`
	Works   bool            `json:"works"`
	Error   string          `json:"error,omitempty"`
	Missing []string        `json:"missing,omitempty"` // rules that this machine cannot enforce (best_effort)
	Refused []trace.Refusal `json:"refused"`
}

func (v *sandboxTry) run(ctx context.Context, w io.Writer, name string, files []string) error {
	cfg, err := v.open(name)
	if err != nil {
		return err
	}
	u := &cfg.Upstreams[0]
	if u.Sandbox == nil {
		return cli.Usage(fmt.Errorf("sandbox try: %s has no sandbox (add [upstream.%s.sandbox]; \"mcp-metatool sandbox learn %s\" proposes one)", name, name, name))
	}
	report := tryReport{Server: name, Missing: confine.Lacks(u.Sandbox)}
	settings := *u.Sandbox
	events, failed, err := v.observe(ctx, cfg, &settings, files)
	if err != nil {
		return err
	}
	report.Works, report.Error = failed == "", failed
	place, err := v.place(cfg, u)
	if err != nil {
		return err
	}
	if report.Refused, err = trace.Refusals(events, &settings, place); err != nil {
		return err
	}
	if v.asJSON {
		err = cli.WriteJSON(w, report)
	} else {
		err = report.write(w)
	}
	if err == nil && !report.Works {
		err = cli.Failed(nil)
	}
	return err
}

func (r tryReport) write(w io.Writer) error {
	if r.Works {
		fmt.Fprintf(w, "%s works in its sandbox\n", display.EscapeLine(r.Server))
	} else {
		fmt.Fprintf(w, "%s does not work in its sandbox: %s\n", display.EscapeLine(r.Server), display.Text(r.Error))
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "not enforced (best_effort): %s\n", display.EscapeLine(m))
	}
	if len(r.Refused) == 0 {
		_, err := fmt.Fprintln(w, "nothing was refused")
		return err
	}
	fmt.Fprintln(w)
	t := cli.NewTable(w)
	t.Head("REFUSED", "WHAT", "PROGRAM", "ERROR", "ALLOWED BY")
	for _, refusal := range r.Refused {
		by := refusal.Setting
		if refusal.Reason != "" {
			by = strings.TrimSpace(by + " (" + refusal.Reason + ")")
		}
		t.Add(string(refusal.Kind), refusal.Object, refusal.Program, refusal.Errno, by)
	}
	return t.Flush()
}

// traced is a start of a server under a tracer.
type traced struct{ cli.Settings }

// open reads the configuration and returns it with only the named server.
func (v *traced) open(name string) (*config.Config, error) {
	cfg, err := v.Load()
	if err != nil {
		return nil, err
	}
	if cfg, err = cli.OnlyServer(cfg, name); err != nil {
		return nil, cli.Usage(err)
	}
	u := &cfg.Upstreams[0]
	switch {
	case u.Invalid != nil:
		return nil, cli.Usage(u.Invalid)
	case u.Transport != config.Stdio:
		return nil, cli.Usage(fmt.Errorf("sandbox: %s is reached at a URL: only servers that mcp-metatool starts can be confined", name))
	}
	u.Disabled, u.Restart = false, config.RestartNever
	if runtime.GOOS != "linux" {
		return nil, cli.Failed(errors.New("sandbox: " + strings.Join(confine.Lacks(&confine.Settings{}), "; ")))
	}
	return cfg, nil
}

// observe starts the server with settings under a tracer, uses the server, and stops the server.
// failed describes the failure.
func (v *traced) observe(ctx context.Context, cfg *config.Config, settings *confine.Settings, files []string) (events []trace.Event, failed string, err error) {
	dir, err := os.MkdirTemp("", "mcp-metatool-trace-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	settings.Trace = dir
	name := cfg.Upstreams[0].Name
	cfg.Upstreams[0].Sandbox = settings
	done := cli.Busy(v.Cmd, "starting "+name)
	defer done()
	failed, err = v.use(ctx, cfg)
	if err == nil && failed == "" && len(files) > 0 {
		failed, err = v.check(ctx, cfg, files)
	}
	if err != nil {
		return nil, "", err
	}
	events, err = trace.Read(ctx, dir)
	return events, failed, err
}

// use waits for the server, and makes the probe of the configuration.
func (v *traced) use(ctx context.Context, cfg *config.Config) (failed string, err error) {
	log := v.Logger(cfg)
	err = cli.WithServers(ctx, cfg, log, func(ctx context.Context, h *host.Host) error {
		st := h.Upstreams(ctx)[0]
		if st.State != servers.Ready {
			failed = cmp.Or(strings.TrimPrefix(st.Err, fmt.Sprintf("upstream %q: ", st.Name)), "it has not become ready")
			return context.Cause(ctx)
		}
		for _, r := range h.Checkup(ctx) {
			switch {
			case r.Check == health.Failed:
				failed = cmp.Or(r.Error, r.LastError, "its check has failed")
			case r.Probe != nil && r.Probe.Check == health.Failed:
				failed = "its probe: " + r.Probe.Error
			}
		}
		return context.Cause(ctx)
	})
	return v.Masker.Mask(failed), err
}

// check runs the checks in files with the traced server.
func (v *traced) check(ctx context.Context, cfg *config.Config, files []string) (failed string, err error) {
	found, err := smoke.Files(files)
	if err != nil {
		return "", cli.Usage(err)
	}
	traced := cfg.Upstreams[0]
	log := v.Logger(cfg)
	runner := smoke.NewRunner(smoke.Options{
		Version: cli.CurrentVersion(), CacheDir: cli.CacheDir(log), Load: smoke.LoadOptions{Config: cfg.Path},
		Adjust: func(c *config.Config) {
			for i := range c.Upstreams {
				if c.Upstreams[i].Name == traced.Name {
					c.Upstreams[i].Sandbox = traced.Sandbox
				}
			}
		},
	})
	defer runner.Close()
	out, err := reports.New(reports.Formats[0], v.Cmd.ErrOrStderr(), reports.Options{})
	if err != nil {
		return "", err
	}
	summary, err := runner.Run(ctx, found, out)
	summary.Duration = summary.Duration.Round(time.Microsecond)
	if bad := out.Close(summary); err == nil {
		err = bad
	}
	if err == nil && summary.ExitCode() != 0 {
		failed = "a check has failed"
	}
	return failed, err
}

// place returns where the server is started.
func (v *traced) place(cfg *config.Config, u *config.Upstream) (confine.Place, error) {
	var env []string
	for name, value := range u.Env {
		env = append(env, name+"="+value)
	}
	return process.Place(process.Command{Name: u.Command, Env: env, Dir: u.Dir, Own: cfg.OwnFiles(u)})
}

func sandboxLearnCommand() *cobra.Command {
	v := &sandboxLearn{}
	cmd := &cobra.Command{
		Use:   "learn NAME [FILE.toml...]",
		Short: "Start a server without a sandbox, watch what it uses, and propose a sandbox",
		Long: `Start the server NAME without a sandbox, ask for its lists, make the call of its
[upstream.NAME.probe] if it has one, and run the checks in FILEs (see docs/smoke.md) with
the servers of the configuration. Then propose a sandbox of what the server has used:
files, programs, ports. With --add, add it to the configuration; the change is shown, and
you are asked.

What the server does not do in this run is not in the proposal, and what it should not do
is: read it before you use it. "mcp-metatool sandbox try NAME" shows whether it is enough.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd.Context(), cmd.OutOrStdout(), args[0], args[1:])
		},
	}
	v.Settings.AddFlags(cmd, cli.Silent)
	v.Consent.AddFlags(cmd)
	cmd.Flags().BoolVar(&v.add, "add", false, "add the proposal to the configuration")
	cmd.Flags().StringVar(&v.preset, "preset", "", "begin with the preset `NAME`, and not with the one that fits the command")
	cmd.ValidArgsFunction = cli.Choices(v.Servers).Complete(1)
	return cmd
}

// sandboxLearn is a run of sandbox learn.
type sandboxLearn struct {
	traced
	cli.Consent
	add    bool
	preset string
}

func (v *sandboxLearn) run(ctx context.Context, w io.Writer, name string, files []string) error {
	v.Consent.Begin(v.Cmd)
	cfg, err := v.open(name)
	if err != nil {
		return err
	}
	u := cfg.Upstreams[0]
	preset, err := v.presetFor(u.Command)
	if err != nil {
		return cli.Usage(err)
	}
	events, failed, err := v.observe(ctx, cfg, &confine.Settings{Learn: true}, files)
	if err != nil {
		return err
	}
	if failed != "" {
		fmt.Fprintf(v.Cmd.ErrOrStderr(), "%s does not work without a sandbox either: %s\n", display.EscapeLine(name), display.Text(failed))
		return cli.Failed(nil)
	}
	place, err := v.place(cfg, &u)
	if err != nil {
		return err
	}
	proposal, err := trace.Propose(events, preset, place)
	if err != nil {
		return err
	}
	for _, note := range proposal.Notes {
		fmt.Fprintf(v.Cmd.ErrOrStderr(), "note: %s\n", display.EscapeLine(note))
	}
	table := trace.Table(&proposal.Settings)
	if v.add {
		return v.write(ctx, name, table)
	}
	text, err := sandboxSection(name, table)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(w, text)
	return err
}

// sandboxSection returns the table as a section of the configuration.
func sandboxSection(name string, table tomldoc.InlineTable) (string, error) {
	text, err := "", error(nil)
	for _, e := range table {
		if text, err = tomldoc.Set(text, []string{e.Key}, e.Value); err != nil {
			return "", err
		}
	}
	return "[upstream." + tomldoc.QuoteKey(name) + ".sandbox]\n" + text, nil
}

// presetFor returns the preset of --preset, or the preset for the command.
func (v *sandboxLearn) presetFor(command string) (confine.Preset, error) {
	if v.preset == "" {
		return trace.PresetOf(command), nil
	}
	var names []string
	for _, p := range []confine.Preset{confine.Node, confine.Python, confine.Go} {
		if string(p) == v.preset {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", fmt.Errorf("--preset: %q is not one of %s", v.preset, strings.Join(names, ", "))
}

// write adds the table to the configuration.
func (v *sandboxLearn) write(ctx context.Context, name string, table tomldoc.InlineTable) error {
	opts := config.LoadOptions{Policies: compile.Policy, Context: ctx, Flag: v.Config, Unset: func(string, *config.Problem) {}}
	f, err := edit.Open(opts)
	if err != nil {
		return cli.Usage(err)
	}
	if err := f.Set(name, "sandbox", table); err != nil {
		return cli.Usage(err)
	}
	if _, err := f.Parse(opts); err != nil {
		return cli.Usage(fmt.Errorf("nothing was written: %w", err))
	}
	v.Masked = f.Masker(opts).Mask
	written, err := v.Apply(ctx, v.Cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err == nil && written {
		fmt.Fprintf(v.Cmd.OutOrStdout(), "%s is confined from its next start on\n", display.EscapeLine(name))
	}
	return err
}
