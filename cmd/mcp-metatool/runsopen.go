package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// openDurable is an open run of a durable tool in the output of runs list --open --json.
type openDurable struct {
	ID     string    `json:"id"`
	Tool   string    `json:"tool,omitempty"`
	Start  time.Time `json:"start,omitzero"`
	Used   float64   `json:"used"` // milliseconds
	State  string    `json:"state"`
	Calls  int       `json:"calls"`
	Record string    `json:"record,omitempty"` // id of its last record in the journal
	Owners int       `json:"owners"`
	// InDoubt are the calls of which it is not known whether they were made, if nobody is at
	// the run.
	InDoubt []string `json:"inDoubt,omitempty"`
	// Guest is the digest of the guest that the run needs, if this program has another one.
	Guest string `json:"guest,omitempty"`
	// Silent is for how many seconds the process at the run has not said that it is, by the
	// clocks of both machines, if that is long.
	Silent float64 `json:"silent,omitempty"`
	Client string  `json:"client,omitempty"`
	Token  string  `json:"token,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// The states of open runs.
const (
	runGoesOn     = "running"
	runWaits      = "waiting" // for a process that goes on with it
	runCancelled  = "cancelled"
	runUnreadable = "unreadable"
)

func openDurableOf(o durable.Open) openDurable {
	r := openDurable{ID: o.ID, State: runWaits}
	switch {
	case o.Err != nil:
		r.State, r.Error = runUnreadable, o.Err.Error()
		return r
	case o.Cancelled:
		r.State = runCancelled
	case o.Held:
		r.State = runGoesOn
	}
	s := o.State
	rec := &s.Record
	r.Tool, r.Start, r.Used, r.Calls = rec.Definition.Name, rec.Start.UTC(), milliseconds(s.Used), len(rec.Calls)
	r.Record, r.Owners, r.Client, r.Token = s.LastRecord, s.Owners, rec.Client.Name, s.Token
	if compose.CanContinue(s) != nil {
		r.Guest = rec.Guest
	}
	if silent := time.Since(o.Renewed); o.Held && !o.Renewed.IsZero() && silent > durable.DefaultTTL {
		r.Silent = silent.Round(time.Second).Seconds()
	}
	if !o.Held {
		for _, c := range s.Doubts() {
			r.InDoubt = append(r.InDoubt, c.Server+"."+c.Tool)
		}
	}
	return r
}

// remark returns what the last column has.
func (r *openDurable) remark() string {
	switch {
	case r.Error != "":
		return r.Error
	case r.Guest != "":
		return "needs guest " + display.Clip(r.Guest, 12)
	case r.Silent > 0:
		return fmt.Sprintf("its process has said nothing for %v", time.Duration(r.Silent*float64(time.Second)))
	case len(r.InDoubt) > 0:
		return "in doubt: " + strings.Join(r.InDoubt, ", ")
	}
	return ""
}

// listOpen lists the open runs of durable tools.
func (v *runsView) listOpen(cmd *cobra.Command) error {
	cfg, err := v.load()
	if err != nil {
		return err
	}
	runs, err := host.OpenRuns(cmd.Context(), cfg, v.logger(cfg))
	if err != nil {
		return err
	}
	defer runs.Close(cmd.Context())
	list, err := runs.List(cmd.Context())
	if err != nil {
		return err
	}
	all := []openDurable{}
	for _, o := range list {
		all = append(all, openDurableOf(o))
	}
	if v.asJSON {
		return writeJSON(cmd.OutOrStdout(), all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no open runs")
		return err
	}
	t := newTable(cmd.OutOrStdout())
	t.head("RUN", "STARTED", "TOOL", "STATE", right("USED"), right("CALLS"), "")
	for i := range all {
		r := &all[i]
		t.row(shortRun(r.ID), r.Start, display.Line(r.Tool, 28), r.State,
			timeline.Duration(time.Duration(r.Used*float64(time.Millisecond))), r.Calls, display.Line(r.remark(), 200))
	}
	return t.flush()
}

// findOpen returns the id of the open run with that prefix; "last" is for the newest one.
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
		return "", &exitError{exitFailed, fmt.Errorf("run %s: %w (mcp-metatool runs list --open has them)", display.Clip(prefix, 64), durable.ErrNotFound)}
	case 1:
		return found[0], nil
	}
	return "", &exitError{exitFailed, fmt.Errorf("run %s: %d open runs begin with this: %s (give more of the id)", display.Clip(prefix, 64), len(found), strings.Join(found, ", "))}
}

func runsResumeCommand() *cobra.Command {
	v := &runsView{}
	var approve approveFlag
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
	approve.addFlag(cmd)
	return cmd
}

// openRun finds the open run whose id begins with prefix. The caller must Close the runs.
func (v *runsView) openRun(ctx context.Context, prefix string) (cfg *config.Config, runs *host.OpenedRuns, id string, err error) {
	if cfg, err = v.load(); err != nil {
		return nil, nil, "", err
	}
	if runs, err = host.OpenRuns(ctx, cfg, v.logger(cfg)); err != nil {
		return nil, nil, "", err
	}
	if id, err = findOpen(ctx, runs.Runs, prefix); err != nil {
		runs.Close(ctx)
		return nil, nil, "", err
	}
	return cfg, runs, id, nil
}

func (v *runsView) resume(cmd *cobra.Command, prefix string, approve *approveFlag) error {
	cfg, runs, id, err := v.openRun(cmd.Context(), prefix)
	if err != nil {
		return err
	}
	defer runs.Close(cmd.Context())
	var result []byte
	opts := hostOptions(v.logger(cfg), host.NoClient)
	view := newProgressView(os.Stderr, isTerminal(os.Stderr), "run "+shortRun(id))
	opts.Person = approve.person(cmd, view.plain)
	err = withHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		defer during(ctx, "run "+id)()
		reply, err := h.ContinueRun(ctx, id)
		view.end()
		switch {
		case errors.Is(err, durable.ErrHeld):
			return &exitError{exitFailed, fmt.Errorf("%w (mcp-metatool runs tail shows its end)", err)}
		case err != nil && ctx.Err() == nil:
			return &exitError{exitFailed, err}
		}
		result = reply.Result
		return err
	})
	if err != nil {
		return err
	}
	if v.asJSON {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", indentJSON(result))
		return err
	}
	r := readResult(result)
	if r.isError {
		r.text = cfg.NewMasker().Mask(r.text)
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
		text = fmt.Sprintf("run %s: the next serve ends it, or at once: mcp-metatool runs resume %s", id, shortRun(id))
	}
	if v.asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"run": id, "held": err == nil && open.Held})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// discard removes an open run that cannot be read.
func (v *runsView) discard(cmd *cobra.Command, runs *durable.Runs, id string) error {
	if err := runs.Discard(cmd.Context(), id); err != nil {
		return err
	}
	if v.asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"run": id, "removed": true})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "run %s: its log could not be read, and was removed\n", id)
	return err
}
