package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/trace"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

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
	v.settings.addFlags(cmd, silent)
	v.consent.addFlags(cmd)
	cmd.Flags().BoolVar(&v.add, "add", false, "add the proposal to the configuration")
	cmd.Flags().StringVar(&v.preset, "preset", "", "begin with the preset `NAME`, and not with the one that fits the command")
	cmd.ValidArgsFunction = choices(v.servers).complete(1)
	return cmd
}

// sandboxLearn is one run of sandbox learn.
type sandboxLearn struct {
	traced
	consent
	add    bool
	preset string
}

func (v *sandboxLearn) run(ctx context.Context, w io.Writer, name string, files []string) error {
	v.consent.begin(v.cmd)
	cfg, err := v.open(name)
	if err != nil {
		return err
	}
	u := cfg.Upstreams[0]
	preset, err := v.presetFor(u.Command)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	events, failed, err := v.observe(ctx, cfg, &confine.Settings{Learn: true}, files)
	if err != nil {
		return err
	}
	if failed != "" {
		fmt.Fprintf(v.cmd.ErrOrStderr(), "%s does not work without a sandbox either: %s\n", display.EscapeLine(name), display.Text(failed))
		return &exitError{code: exitFailed}
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
		fmt.Fprintf(v.cmd.ErrOrStderr(), "note: %s\n", display.EscapeLine(note))
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

// presetFor returns the preset of --preset, or the one that fits the command.
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
	opts := config.LoadOptions{Policies: compile.Policy, Context: ctx, Flag: v.config, Unset: func(string, *config.Problem) {}}
	f, err := edit.Open(opts)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := f.Set(name, "sandbox", table); err != nil {
		return &exitError{exitUsage, err}
	}
	if _, err := f.Parse(opts); err != nil {
		return &exitError{exitUsage, fmt.Errorf("nothing was written: %w", err)}
	}
	v.masked = f.Masker(opts).Mask
	written, err := v.apply(ctx, v.cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err == nil && written {
		fmt.Fprintf(v.cmd.OutOrStdout(), "%s is confined from its next start on\n", display.EscapeLine(name))
	}
	return err
}
