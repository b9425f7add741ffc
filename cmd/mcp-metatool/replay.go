package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// replayView is one replay.
type replayView struct {
	runsView
	with    string
	timeout time.Duration
}

// replayCommand replays recorded runs. It starts no upstream and calls nothing.
func replayCommand() *cobra.Command {
	v := &replayView{}
	cmd := &cobra.Command{
		Use:   "replay RUN",
		Short: "Run a recorded run again, offline, and compare it with its record",
		Long: `Run a recorded run again, offline: the recorded script, in the sandbox, with the
recorded answers. The order of calls, undo actions, the log, the result or error, fuel
and peak memory are compared, also those of saved tools that the script called. The
first difference is shown in full.

RUN is an id or the beginning of one, "last" for the newest run, a file that
runs show --json has written, or - to read such a file from standard input. With a
file, neither configuration nor journal is needed.

With --with FILE.star, that script runs instead of the recorded one: would the fix have
worked? A call gets the answer that the same call got in the record, or else the next
answer of the same tool. The replay ends at a call for which there is no answer.

A value that was redacted in the record matches any value. If there are such values, fuel
and memory are not compared, and the verdict is "identical but for redaction".

The exit code is 0 if the replay is identical, or identical but for redaction (with
--with: if the script succeeds), 1 if it is not, and 2 if the run cannot be found or read.`,
		Example: `  mcp-metatool replay last
  mcp-metatool runs show 019aa0b0 --json > run.jsonl; mcp-metatool replay run.jsonl
  mcp-metatool replay run.jsonl --with fixed.star`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.replay(cmd, args[0]) },
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = choices(v.runs).orFile
	cmd.Flags().StringVar(&v.with, "with", "", "run the script in `FILE` in place of the recorded one")
	cmd.Flags().DurationVar(&v.timeout, "timeout", 5*time.Minute, "end the replay after that `TIME`; the recorded script's own limit on time does not count")
	return cmd
}

func (v *replayView) replay(cmd *cobra.Command, name string) error {
	if name == "-" && v.with == "-" {
		return &exitError{exitUsage, errors.New("replay: the run and --with cannot both be standard input")}
	}
	defer v.release()
	rec, err := v.record(cmd, name)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	opts := replay.Options{Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: v.level}))}
	if v.with != "" {
		script, err := readScript(cmd.Context(), v.with, cmd.InOrStdin())
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("--with: %w", err)}
		}
		opts.Code = &script.code
	}
	if v.dir != "" && !cmd.Flags().Changed("dir") { // it was in the configured journal
		opts.Saved = v.savedNow(rec.Definition.Name, opts.Log)
	}
	opts.Limits = replay.AtMost(sandbox.Limits{})
	if cfg, err := v.load(); err == nil { // without a configuration, the defaults
		opts.Limits = replay.AtMost(host.RunLimits(cfg.Execution))
	}
	box := sandbox.New(sandbox.Options{CacheDir: cacheDir(opts.Log), Log: opts.Log})
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), v.timeout, fmt.Errorf("not done within %v (--timeout)", v.timeout))
	defer cancel()
	done := busy(cmd, fmt.Sprintf("the replay of run %s (%s)", rec.ID, rec.Definition.Name))
	defer done()
	report, err := replay.Run(ctx, box, rec, opts)
	done()
	if err = errors.Join(err, box.Close()); err != nil {
		return err
	}
	if v.asJSON {
		err = writeJSON(cmd.OutOrStdout(), report)
	} else {
		_, err = io.WriteString(raw(cmd.OutOrStdout()), colorDiff(cmd.OutOrStdout(), display.Text(report.Text())))
	}
	if err == nil && !report.Verdict.OK() {
		err = &exitError{code: exitFailed}
	}
	return err
}

// savedNow returns the current version of the saved tool of that name, nil if there is
// none or it cannot be read. It is only used for a note.
func (v *replayView) savedNow(name string, log *slog.Logger) *tools.Definition {
	cfg, err := v.load()
	if err != nil {
		return nil
	}
	list, err := host.ReadTools(cfg, log)
	if err != nil {
		return nil
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// record returns the record of the run that the command line names.
func (v *replayView) record(cmd *cobra.Command, name string) (journal.Record, error) {
	if name != "-" {
		return v.find(cmd, name)
	}
	rec, err := journal.Decode(cmd.InOrStdin())
	if err != nil {
		return rec, fmt.Errorf("standard input: %w", err)
	}
	return rec, nil
}
