package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func runCommand() *cobra.Command {
	s := &cli.Settings{}
	var params string
	var raw bool
	var approve cli.ApproveFlag
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Call a saved tool, or any other tool that agents see",
		Long: `Call a saved tool, or any other tool that agents see, as an agent would.

The result goes to standard output: text as it is, every other value as JSON.
Progress, what the script prints, and errors go to standard error. The exit code
is 1 when the tool fails, and 130 after Ctrl-C, which cancels the call.

If policy asks for the approval of a call, you are asked at the terminal. Without one
it is denied; --approve allow allows it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := cli.ReadParams(cmd.Context(), params, cmd.InOrStdin())
			if err != nil {
				return cli.Usage(err)
			}
			return run(cmd, s, args[0], arguments, raw, &approve)
		},
	}
	s.AddFlags(cmd, slog.LevelWarn)
	cmd.ValidArgsFunction = cli.Choices(s.Callable).Complete(1)
	cmd.Flags().StringVar(&params, "params", "{}", "arguments: a `JSON` object, @FILE to read it from a file, - from standard input")
	approve.AddFlag(cmd)
	cmd.Flags().BoolVar(&raw, "raw", false, "print the whole MCP result as JSON")
	return cmd
}

func run(cmd *cobra.Command, s *cli.Settings, name string, arguments []byte, raw bool, approve *cli.ApproveFlag) error {
	cfg, err := s.Load()
	if err != nil {
		return err
	}
	log := s.Logger(cfg)
	cfg.Debug = true // for the backtrace
	var result []byte
	defer cli.During(cmd.Context(), "the call of "+name)()
	view := cli.NewProgressView(os.Stderr, cli.IsTerminal(os.Stderr), name)
	opts := cli.HostOptions(log, host.NoClient)
	opts.Person = approve.Person(cmd, view.Plain)
	opts.Idle = strings.Contains(name, "__") // probably the tool of a server
	err = cli.WithHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		defer view.End()
		return cli.WithClient(ctx, h, func(c *host.Client) error {
			h.AwaitOwner(ctx, name)
			result, err = cli.CallTool(ctx, c, name, arguments, view.Update)
			return err
		})
	})
	if err != nil {
		return err
	}
	if raw {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", cli.IndentJSON(result)); err != nil {
			return err
		}
	}
	r := cli.ReadResult(result)
	if r.IsError { // the text of a failing server may contain a secret
		r.Text = cfg.NewMasker().Mask(r.Text)
	}
	return report(cmd, name, r, raw)
}

// report prints a result; raw says that standard output already has the result.
func report(cmd *cobra.Command, name string, r cli.ToolResult, raw bool) error {
	stderr := cmd.ErrOrStderr()
	for _, line := range r.Logs {
		fmt.Fprintln(stderr, display.Text(line))
	}
	if r.IsError {
		return cli.Failed(fmt.Errorf("%s: %s", name, r.Text))
	}
	if raw {
		return nil
	}
	for _, kind := range r.Others {
		fmt.Fprintf(stderr, "not shown: %s (--raw prints the whole result)\n", display.Text(kind))
	}
	_, err := io.WriteString(cmd.OutOrStdout(), r.Output())
	return err
}

// listOpen lists the open runs of durable tools.
func (v *runsView) listOpen(cmd *cobra.Command) error {
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	runs, err := host.OpenRuns(cmd.Context(), cfg, v.Logger(cfg))
	if err != nil {
		return err
	}
	defer runs.Close(cmd.Context())
	list, err := runs.List(cmd.Context())
	if err != nil {
		return err
	}
	all := []cli.OpenDurable{}
	for _, o := range list {
		all = append(all, cli.OpenDurableOf(o))
	}
	if v.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no open runs")
		return err
	}
	t := cli.NewTable(cmd.OutOrStdout())
	t.Head("RUN", "STARTED", "TOOL", "STATE", cli.Right("USED"), cli.Right("CALLS"), "")
	for i := range all {
		r := &all[i]
		t.Add(cli.ShortRun(r.ID), r.Start, display.Line(r.Tool, 28), r.State,
			timeline.Duration(time.Duration(r.Used*float64(time.Millisecond))), r.Calls, display.Line(r.Remark(), 200))
	}
	return t.Flush()
}

// findOpen returns the id of the open run with the prefix; "last" is for the newest open run.
func findOpen(ctx context.Context, runs *durable.Runs, prefix string) (string, error) {
	list, err := runs.List(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, o := range list {
		record := ""
		if o.State != nil {
			record = o.State.LastRecord
		}
		if prefix == "last" || prefix != "" && (strings.HasPrefix(o.ID, strings.ToLower(prefix)) || record == prefix) {
			found = append(found, o.ID)
		}
	}
	if prefix == "last" && len(found) > 0 {
		return slices.Max(found), nil // ids begin with the time
	}
	switch len(found) {
	case 0:
		return "", cli.Failed(fmt.Errorf("run %s: %w (mcp-metatool runs list --open has them)", display.Clip(prefix, 64), durable.ErrNotFound))
	case 1:
		return found[0], nil
	}
	return "", cli.Failed(fmt.Errorf("run %s: %d open runs begin with this: %s (give more of the id)", display.Clip(prefix, 64), len(found), strings.Join(found, ", ")))
}

func runsResumeCommand() *cobra.Command {
	v := &runsView{}
	var approve cli.ApproveFlag
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a run of a durable tool whose process has died",
		Long: `Go on with an open run of a durable tool that no process is at, and print its result.
RUN is an id, or its beginning, from runs list --open, or "last" for the newest open run.

A running serve does that by itself; the command is for when there is none. After
Ctrl-C the run is open again. docs/durable.md says what becomes of calls that may have
been made.`,
		Example: `  mcp-metatool runs resume 01a20a95-20d6-7d17`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.resume(cmd, args[0], &approve) },
	}
	v.addFlags(cmd)
	approve.AddFlag(cmd)
	return cmd
}

// openRun finds the open run whose id begins with prefix. The caller must Close the runs.
func (v *runsView) openRun(ctx context.Context, prefix string) (cfg *config.Config, runs *host.OpenedRuns, id string, err error) {
	if cfg, err = v.Load(); err != nil {
		return nil, nil, "", err
	}
	if runs, err = host.OpenRuns(ctx, cfg, v.Logger(cfg)); err != nil {
		return nil, nil, "", err
	}
	if id, err = findOpen(ctx, runs.Runs, prefix); err != nil {
		runs.Close(ctx)
		return nil, nil, "", err
	}
	return cfg, runs, id, nil
}

func (v *runsView) resume(cmd *cobra.Command, prefix string, approve *cli.ApproveFlag) error {
	cfg, runs, id, err := v.openRun(cmd.Context(), prefix)
	if err != nil {
		return err
	}
	defer runs.Close(cmd.Context())
	var result []byte
	opts := cli.HostOptions(v.Logger(cfg), host.NoClient)
	view := cli.NewProgressView(os.Stderr, cli.IsTerminal(os.Stderr), "run "+cli.ShortRun(id))
	opts.Person = approve.Person(cmd, view.Plain)
	err = cli.WithHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		defer cli.During(ctx, "run "+id)()
		reply, err := h.ContinueRun(ctx, id)
		view.End()
		switch {
		case errors.Is(err, durable.ErrHeld):
			return cli.Failed(fmt.Errorf("%w (mcp-metatool runs tail shows its end)", err))
		case err != nil && ctx.Err() == nil:
			return cli.Failed(err)
		}
		result = reply.Result
		return err
	})
	if err != nil {
		return err
	}
	if v.asJSON {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", cli.IndentJSON(result))
		return err
	}
	r := cli.ReadResult(result)
	if r.IsError {
		r.Text = cfg.NewMasker().Mask(r.Text)
	}
	return report(cmd, "run "+id, r, false)
}

func runsCancelCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End an open run of a durable tool",
		Long: `Ask for the end of an open run of a durable tool. RUN is an id, or its beginning, from
runs list --open, or "last" for the newest open run. The process that is at the run, or the next one
that would go on with it, cancels it and undoes what it did, as its script says (undo). A run that needs another
version of this program is closed, and nothing is undone. One that is unreadable is removed.`,
		Example: `  mcp-metatool runs cancel 01a20a95-20d6-7d17`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.cancel(cmd, args[0]) },
	}
	v.addFlags(cmd)
	return cmd
}

func (v *runsView) cancel(cmd *cobra.Command, prefix string) error {
	_, runs, id, err := v.openRun(cmd.Context(), prefix)
	if err != nil {
		return err
	}
	defer runs.Close(cmd.Context())
	if open, err := runs.Look(cmd.Context(), id); err == nil && open.Err != nil {
		return v.discard(cmd, runs.Runs, id)
	}
	if err := runs.Cancel(cmd.Context(), id); err != nil {
		return err
	}
	open, err := runs.Look(cmd.Context(), id)
	text := fmt.Sprintf("run %s: its process ends it within seconds", id)
	if err == nil && !open.Held {
		text = fmt.Sprintf("run %s: the next serve ends it, or at once: mcp-metatool runs resume %s", id, cli.ShortRun(id))
	}
	if v.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"run": id, "held": err == nil && open.Held})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// discard removes an unreadable open run.
func (v *runsView) discard(cmd *cobra.Command, runs *durable.Runs, id string) error {
	if err := runs.Discard(cmd.Context(), id); err != nil {
		return err
	}
	if v.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"run": id, "removed": true})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "run %s: its log could not be read, and was removed\n", id)
	return err
}
