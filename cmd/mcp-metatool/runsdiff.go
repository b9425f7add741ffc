package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func runsDiffCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs: the first difference of calls, answers, logs, result, fuel",
		Long: `Compare two recorded runs: script, arguments, calls, answers, log, result or error,
fuel and memory, and those of the saved tools that the scripts called. The first
difference in the order of run A is shown in full. Times are shown, but never count
as a difference.

A and B are ids or the beginnings of ids, "last" for the newest run, or files that
runs show --json has written. The exit code is 0 if the runs are the same, 1 if they
differ, 2 if they cannot be compared.`,
		Example: `  mcp-metatool runs diff 019aa0b0-1111 last
  mcp-metatool runs diff good.jsonl last --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			same, err := v.diff(cmd, args[0], args[1])
			return diffResult(cmd.Context(), same, err)
		},
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return choices(v.runs).orFile(cmd, nil, word)
	}
	return cmd
}

// diffResult returns the error whose exit code says what came of a comparison, as that of
// diff does.
func diffResult(ctx context.Context, same bool, err error) error {
	var exit *exitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		return &exitError{exitUsage, exit.err}
	case err != nil:
		return &exitError{exitUsage, err}
	case !same:
		return &exitError{code: exitFailed}
	}
	return nil
}

// diff compares two runs.
func (v *runsView) diff(cmd *cobra.Command, nameA, nameB string) (same bool, err error) {
	defer v.release()
	a, err := v.find(cmd, nameA)
	if err != nil {
		return false, err
	}
	b, err := v.find(cmd, nameB)
	if err != nil {
		return false, err
	}
	c := replay.Compare(&a, &b)
	out := cmd.OutOrStdout()
	if v.asJSON {
		err = writeJSON(out, c)
	} else if err = writeFigures(out, c.A, c.B); err == nil {
		_, err = io.WriteString(raw(out), "\n"+colorDiff(out, display.Text(c.Text())))
	}
	if err == nil {
		err = v.end()
	}
	return c.Same, err
}

// writeFigures writes the figures of two runs, side by side.
func writeFigures(w io.Writer, a, b replay.RunFigures) error {
	t := newTable(w)
	t.head("", "A", "B")
	row := func(name string, of func(f replay.RunFigures) any) { t.row(name, of(a), of(b)) }
	row("run", func(f replay.RunFigures) any { return display.Cell{Text: f.Run, Short: shortRun(f.Run)} })
	row("tool", func(f replay.RunFigures) any { return f.Tool })
	row("started", func(f replay.RunFigures) any { return f.Start })
	row("outcome", func(f replay.RunFigures) any { return state(f.Outcome) })
	row("took", func(f replay.RunFigures) any { return timeline.Duration(f.Took) })
	row("calls", func(f replay.RunFigures) any { return f.Calls })
	row("fuel", func(f replay.RunFigures) any { return strconv.FormatUint(f.Fuel, 10) })
	row("memory", func(f replay.RunFigures) any { return display.Size(f.Memory) })
	if err := t.flush(); err != nil {
		return fmt.Errorf("runs diff: %w", err)
	}
	return nil
}
