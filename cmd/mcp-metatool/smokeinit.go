package main

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

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func smokeInitCommand() *cobra.Command {
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
	v.settings.addFlags(cmd, silent)
	v.consent.addFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&v.output, "output", "o", "checks.toml", "write this `FILE`")
	f.BoolVar(&v.replace, "replace", false, "replace the file if there is one, and keep the old one as a backup")
	f.BoolVar(&v.call, "call", false, "call the tools that only read, once: the check of one that fails is skipped")
	f.BoolVar(&v.all, "all", false, "also write checks, which are skipped, for tools that may change something")
	f.BoolVar(&v.lock, "lock", false, "compare the definitions with a lock, which smoke --record has to write first")
	f.StringArrayVarP(&v.env, "env", "e", nil, "set an environment variable of the COMMAND: `NAME=VALUE`, or NAME for ${NAME}")
	f.StringArrayVarP(&v.headers, "header", "H", nil, "send a header to the URL: `'NAME: VALUE'`")
	f.StringVar(&v.transport, "transport", "", "transport of the URL: `http or sse` (default: http)")
	cmd.ValidArgsFunction = choices(v.servers).complete(0)
	completeFlag(cmd, "transport", oneOf("http", "sse"))
	_ = cmd.RegisterFlagCompletionFunc("output", filesOf("toml")) // there is such a flag
	return cmd
}

// smokeInit is one run of smoke init.
type smokeInit struct {
	addition // of a server that is not configured
	output   string
	call     bool
	all      bool
	lock     bool

	cfg   *config.Config
	draft smoke.Draft
}

func (v *smokeInit) run(ctx context.Context, args []string, dash int) error {
	v.consent.begin(v.cmd)
	before, err := v.existing()
	if err == nil {
		err = v.source(args, dash)
	}
	if err != nil {
		var exit *exitError
		if errors.As(err, &exit) {
			return err
		}
		return &exitError{exitUsage, fmt.Errorf("smoke init: %w", err)}
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
	v.masked = v.masker.Mask
	file := change.File{Path: v.output, Before: before, After: text, Perm: 0o644, Backup: true}
	written, err := v.apply(ctx, v.cmd, fmt.Sprintf("Write this to %s?", v.output), file)
	if err != nil || !written {
		return err
	}
	v.explain(summary)
	return nil
}

// existing returns the file that is there already; nil for none.
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
	return config.ReadFile(config.LoadOptions{Policies: compile.Policy, Context: v.cmd.Context()}, v.output)
}

// source finds out which servers the file is for.
func (v *smokeInit) source(args []string, dash int) error {
	switch {
	case dash >= 0 && (dash != 1 || len(args) < 2):
		return errors.New("want NAME -- COMMAND [ARG...]")
	case dash == 1:
		return v.unconfigured(args[0], func() error { return v.program(args[1:]) })
	case len(args) == 2 && strings.Contains(args[1], "://"):
		return v.unconfigured(args[0], func() error { return v.address(args[1]) })
	case len(v.env) > 0 || len(v.headers) > 0 || v.transport != "":
		return errors.New("--env, --header and --transport are for a server that is not configured: NAME -- COMMAND, or NAME URL")
	}
	return v.configured(args)
}

// unconfigured makes the file one that starts a server itself.
func (v *smokeInit) unconfigured(name string, understand func() error) error {
	if v.config != "" {
		return errors.New("--config is for servers that are configured")
	}
	v.name, v.given = name, map[string]string{}
	if err := understand(); err != nil {
		return err
	}
	if filepath.IsAbs(v.server.Command) {
		v.server.Command = v.beside(v.server.Command)
	}
	v.file = edit.New(v.output, nil)
	if err := v.file.Put(v.name, v.server); err != nil {
		return err
	}
	cfg, err := v.file.Parse(v.loadOptions())
	if err != nil {
		return err
	}
	v.cfg, v.draft.Upstreams = cfg, string(v.file.Text())
	return nil
}

// beside returns a path as the file of checks has it: relative to its folder, if it is below
// it.
func (v *smokeInit) beside(path string) string {
	folder, err := filepath.Abs(filepath.Dir(v.output))
	if err != nil {
		return path
	}
	if name, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(name) {
		return "./" + filepath.ToSlash(name)
	}
	return path
}

// configured makes the file one that uses the configuration.
func (v *smokeInit) configured(only []string) error {
	unset := map[string]error{}
	options := config.LoadOptions{Policies: compile.Policy, Context: v.cmd.Context(), Flag: v.config, Unset: func(server string, p *config.Problem) {
		unset[server] = cmp.Or[error](unset[server], p)
	}}
	file, err := edit.Open(options)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	cfg, err := file.Parse(options)
	if err != nil {
		return &exitError{exitUsage, err}
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
			return unknownServer(name, names)
		}
	}
	if len(names) == 0 {
		return errors.New("no server is configured (give one: mcp-metatool smoke init NAME -- COMMAND)")
	}
	cfg.Upstreams, v.cfg = chosen, cfg
	v.draft.Config = v.reference(file.Path())
	if len(only) == 0 {
		v.draft.Saved, err = host.ListTools(v.cmd.Context(), cfg, slog.New(slog.DiscardHandler))
	}
	return err
}

// reference returns the path of the configuration as the file has it.
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
	fmt.Fprintf(v.cmd.ErrOrStderr(), "note: %s is left out: %s\n", name, display.Text(why))
	v.draft.LeftOut = append(v.draft.LeftOut, name)
}

// explain says what was written, and what to do next.
func (v *smokeInit) explain(s smoke.DraftSummary) {
	out, file := v.cmd.OutOrStdout(), display.EscapeLine(v.output)
	fmt.Fprintf(out, "wrote %s: %s", file, count(s.Checks, "check"))
	if s.Skipped > 0 {
		fmt.Fprintf(out, ", %d of them skipped until you complete them", s.Skipped)
	}
	fmt.Fprintln(out)
	if v.lock {
		fmt.Fprintf(out, "Write the lock: mcp-metatool smoke %s --record\n", file)
	}
	fmt.Fprintf(out, "Run the checks: mcp-metatool smoke %s\n", file)
}
