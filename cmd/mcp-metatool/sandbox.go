package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/trace"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	reports "github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
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
	v.addFlags(cmd, silent)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.ValidArgsFunction = choices(v.servers).complete(1)
	return cmd
}

// sandboxTry is one run of sandbox try.
type sandboxTry struct {
	traced
	asJSON bool
}

// tryReport is the output of sandbox try --json.
type tryReport struct {
	Server  string          `json:"server"`
	Works   bool            `json:"works"`
	Error   string          `json:"error,omitempty"`
	Missing []string        `json:"missing,omitempty"` // what this machine cannot enforce (best_effort)
	Refused []trace.Refusal `json:"refused"`
}

func (v *sandboxTry) run(ctx context.Context, w io.Writer, name string, files []string) error {
	cfg, err := v.open(name)
	if err != nil {
		return err
	}
	u := &cfg.Upstreams[0]
	if u.Sandbox == nil {
		return &exitError{exitUsage, fmt.Errorf("sandbox try: %s has no sandbox (add [upstream.%s.sandbox]; \"mcp-metatool sandbox learn %s\" proposes one)", name, name, name)}
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
		err = writeJSON(w, report)
	} else {
		err = report.write(w)
	}
	if err == nil && !report.Works {
		err = &exitError{code: exitFailed}
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
	t := newTable(w)
	t.head("REFUSED", "WHAT", "PROGRAM", "ERROR", "ALLOWED BY")
	for _, refusal := range r.Refused {
		by := refusal.Setting
		if refusal.Reason != "" {
			by = strings.TrimSpace(by + " (" + refusal.Reason + ")")
		}
		t.row(string(refusal.Kind), refusal.Object, refusal.Program, refusal.Errno, by)
	}
	return t.flush()
}

// traced is a start of one server under a tracer.
type traced struct{ settings }

// open reads the configuration and returns it with the server called name only.
func (v *traced) open(name string) (*config.Config, error) {
	cfg, err := v.load()
	if err != nil {
		return nil, err
	}
	if cfg, err = onlyServer(cfg, name); err != nil {
		return nil, &exitError{exitUsage, err}
	}
	u := &cfg.Upstreams[0]
	switch {
	case u.Invalid != nil:
		return nil, &exitError{exitUsage, u.Invalid}
	case u.Transport != config.Stdio:
		return nil, &exitError{exitUsage, fmt.Errorf("sandbox: %s is reached at a URL: only servers that mcp-metatool starts can be confined", name)}
	}
	u.Disabled, u.Restart = false, config.RestartNever
	if runtime.GOOS != "linux" {
		return nil, &exitError{exitFailed, errors.New("sandbox: " + strings.Join(confine.Lacks(&confine.Settings{}), "; "))}
	}
	return cfg, nil
}

// observe starts the server with settings under a tracer, uses it, and stops it. failed
// says what does not work.
func (v *traced) observe(ctx context.Context, cfg *config.Config, settings *confine.Settings, files []string) (events []trace.Event, failed string, err error) {
	dir, err := os.MkdirTemp("", "mcp-metatool-trace-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	settings.Trace = dir
	name := cfg.Upstreams[0].Name
	cfg.Upstreams[0].Sandbox = settings
	done := busy(v.cmd, "starting "+name)
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

// use waits until the server is ready, and makes its probe.
func (v *traced) use(ctx context.Context, cfg *config.Config) (failed string, err error) {
	log := v.logger(cfg)
	err = withServers(ctx, cfg, log, func(ctx context.Context, h *host.Host) error {
		st := h.Upstreams(ctx)[0]
		if st.State != servers.Ready {
			failed = firstOf(strings.TrimPrefix(st.Err, fmt.Sprintf("upstream %q: ", st.Name)), "it has not become ready")
			return context.Cause(ctx)
		}
		for _, r := range h.Checkup(ctx) {
			switch {
			case r.Check == health.Failed:
				failed = firstOf(r.Error, r.LastError, "its check has failed")
			case r.Probe != nil && r.Probe.Check == health.Failed:
				failed = "its probe: " + r.Probe.Error
			}
		}
		return context.Cause(ctx)
	})
	return v.masker.Mask(failed), err
}

// check runs the checks in files with the traced server.
func (v *traced) check(ctx context.Context, cfg *config.Config, files []string) (failed string, err error) {
	found, err := smoke.Files(files)
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	traced := cfg.Upstreams[0]
	log := v.logger(cfg)
	runner := smoke.NewRunner(smoke.Options{
		Version: currentVersion(), CacheDir: cacheDir(log), Load: smoke.LoadOptions{Config: cfg.Path},
		Adjust: func(c *config.Config) {
			for i := range c.Upstreams {
				if c.Upstreams[i].Name == traced.Name {
					c.Upstreams[i].Sandbox = traced.Sandbox
				}
			}
		},
	})
	defer runner.Close()
	out, err := reports.New(reports.Formats[0], v.cmd.ErrOrStderr(), reports.Options{})
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
