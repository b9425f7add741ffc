package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// runsCommand only reads the journal. It starts and runs nothing.
func runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show and follow the runs of composite tools that the journal has",
		Args:  onlyVerbs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &exitError{exitUsage, errors.New("runs: say which: runs list, runs show RUN, runs tail")}
		},
	}
	cmd.AddCommand(runsListCommand(), runsShowCommand(), runsTailCommand())
	return cmd
}

// runsView has what the verbs of runs have in common.
type runsView struct {
	settings
	dir                  string
	asJSON, proxied      bool
	tool, outcome        string
	since, until         string
	limit                int
	stdout               *bufio.Writer
	stderr               io.Writer
	skipped, shownErrors int
}

func (v *runsView) addFlags(cmd *cobra.Command) {
	v.settings.addFlags(cmd, slog.LevelError)
	f := cmd.Flags()
	f.StringVar(&v.dir, "dir", "", "read the journal in `DIR` (default: that of the configuration)")
	f.BoolVar(&v.asJSON, "json", false, "print JSON")
}

func (v *runsView) addFilter(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&v.tool, "tool", "", "only runs of the tool `NAME`")
	f.StringVar(&v.outcome, "outcome", "", "only runs that ended so: ok, asks, error (any), unfinished, or a `CLASS` of error such as timeout")
	completeFlag(cmd, "tool", v.everSaved)
	completeFlag(cmd, "outcome", oneOf(append([]string{journal.OK, journal.Asks, anyError, journal.Unfinished}, errorClasses...)...))
}

// open finds the journal.
func (v *runsView) open(cmd *cobra.Command) error {
	v.stdout, v.stderr = bufio.NewWriter(cmd.OutOrStdout()), cmd.ErrOrStderr()
	switch v.outcome {
	case "", anyError, journal.OK, journal.Asks, journal.Unfinished:
	default:
		if !isErrorClass(v.outcome) {
			return &exitError{exitUsage, fmt.Errorf("--outcome %s: not one of ok, asks, error, unfinished, %s", v.outcome, strings.Join(errorClasses, ", "))}
		}
	}
	if v.dir != "" {
		if _, err := os.Stat(v.dir); err != nil {
			return &exitError{exitUsage, fmt.Errorf("--dir: %w", err)}
		}
		return nil
	}
	cfg, err := v.load()
	if err != nil {
		return err
	}
	v.dir = cfg.JournalDir()
	return nil
}

// anyError stands for every class of error.
const anyError = "error"

var errorClasses = []string{"validation", "runtime", "tool", "timeout", "resource", "cancelled", "permission", "internal"}

func isErrorClass(name string) bool {
	for _, class := range errorClasses {
		if class == name {
			return true
		}
	}
	return false
}

// filter returns the filter that the flags describe.
func (v *runsView) filter(now time.Time) (journal.Filter, error) {
	f := journal.Filter{Tool: v.tool} // chooses filters by outcome
	var err error
	if f.Since, err = parseMoment("--since", v.since, now); err != nil {
		return f, err
	}
	f.Until, err = parseMoment("--until", v.until, now)
	return f, err
}

// parseMoment parses a point in time: "" is none, a duration is before now. A time
// without a zone is local time, like the times that are shown.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 -07:00", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if d, err := units.ParseDuration(days + "h"); err == nil {
			return now.Add(-24 * d), nil
		}
	}
	if d, err := units.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, &exitError{exitUsage, fmt.Errorf("%s %s: not a time (write 2h, 7d, 2026-11-21 or 2026-11-21T15:04:05Z)", flag, text)}
}

// chooses reports whether the flags select a run with that outcome.
func (v *runsView) chooses(outcome string) bool {
	switch v.outcome {
	case "":
		return true
	case anyError:
		return outcome != journal.OK && outcome != journal.Asks && outcome != journal.Unfinished
	}
	return outcome == v.outcome
}

// unreadable notes a part of the journal that cannot be read.
func (v *runsView) unreadable(err error) {
	var line *journal.LineError
	if errors.As(err, &line) {
		v.skipped++
		return
	}
	complain(v.stderr, err)
	v.shownErrors++
}

// end reports what could not be read.
func (v *runsView) end() error {
	if err := v.stdout.Flush(); err != nil {
		return err
	}
	if v.skipped > 0 {
		complain(v.stderr, fmt.Errorf("lines of the journal that were skipped because they are torn or damaged: %d", v.skipped))
	}
	if v.shownErrors > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

func runsListCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Long: `List the runs of composite tools that clients have asked for, the newest first.

With --json each run is an object on a line of its own: id, tool, start,
duration (milliseconds), outcome, message, calls, fuel, memory, client, session,
and continues, the run before, which ended to ask the client something.`,
		Example: `  mcp-metatool runs list --since 2h --outcome error
  mcp-metatool runs list --tool issue_summary --limit 10`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.list(cmd) },
	}
	v.addFlags(cmd)
	v.addFilter(cmd)
	f := cmd.Flags()
	f.StringVar(&v.since, "since", "", "only runs that began at this `TIME` or later: 2h, 7d, 2026-11-21, 2026-11-21T15:04:05Z")
	f.StringVar(&v.until, "until", "", "only runs that began before this `TIME`")
	f.BoolVar(&v.proxied, "proxied", false, "list calls that were passed on without a script instead (--tool is SERVER.TOOL)")
	f.IntVar(&v.limit, "limit", 50, "list at most `N` runs; 0 for all")
	return cmd
}

func (v *runsView) list(cmd *cobra.Command) error {
	if err := v.open(cmd); err != nil {
		return err
	}
	f, err := v.filter(time.Now())
	if err != nil {
		return err
	}
	t := &runTable{w: v.stdout, asJSON: v.asJSON}
	if v.proxied {
		for p, err := range journal.ScanProxied(v.dir, f) {
			if err != nil {
				v.unreadable(err)
			} else if v.chooses(p.Outcome) && !t.add(listedCall(&p), v.limit) {
				break
			}
		}
	} else {
		for rec, err := range journal.Scan(v.dir, f) {
			if err != nil {
				v.unreadable(err)
			} else if v.chooses(rec.OutcomeName()) && !t.add(listedRecord(&rec), v.limit) {
				break
			}
		}
	}
	t.end("no runs")
	return v.end()
}

// runTable writes a list of runs, one line each.
type runTable struct {
	w      *bufio.Writer
	asJSON bool
	n      int
}

const runLine = "%-18s  %-26s  %-28s  %-10s  %8s  %5s  %s"

func (t *runTable) add(r listedRun, limit int) (more bool) {
	t.n++
	if t.asJSON {
		raw := wire.Marshal(r)
		fmt.Fprintf(t.w, "%s\n", raw)
		return t.n != limit
	}
	if t.n == 1 {
		t.line("RUN", "STARTED", "TOOL", "OUTCOME", "TOOK", "CALLS", "")
	}
	took := "-"
	if r.Outcome != journal.Unfinished {
		took = timeline.Duration(time.Duration(r.Duration * float64(time.Millisecond)))
	}
	t.line(shortRun(r.ID), display.Time(r.Start, time.Second), display.Line(r.Tool, 28), display.Line(r.Outcome, 10), took, fmt.Sprint(r.Calls), r.remark())
	return t.n != limit
}

func (t *runTable) line(cells ...any) {
	fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf(runLine, cells...), " "))
}

// remark returns what the last column has.
func (r *listedRun) remark() string {
	if r.Message == "" && r.Continues != "" {
		return "continues " + shortRun(r.Continues)
	}
	return display.Line(r.Message, 60)
}

// end writes a message if there are no runs.
func (t *runTable) end(none string) {
	if t.n == 0 && !t.asJSON {
		fmt.Fprintln(t.w, none)
	}
}

// shortRun returns the beginning of an id, which contains the millisecond of the start.
// Few runs have the same.
func shortRun(id string) string { return id[:min(len(id), 18)] }

// listedRun is one run, or one call without a script, in the output of runs list
// --json.
type listedRun struct {
	ID       string    `json:"id"`
	Tool     string    `json:"tool"`
	Start    time.Time `json:"start"`
	Duration float64   `json:"duration"` // milliseconds
	Outcome  string    `json:"outcome"`
	Message  string    `json:"message,omitempty"`
	// Continues is the id of the run that this one continues.
	Continues string `json:"continues,omitempty"`
	Calls     int    `json:"calls"`
	Fuel      uint64 `json:"fuel"`
	Memory    uint64 `json:"memory"`
	Client    string `json:"client,omitempty"`
	Session   string `json:"session,omitempty"`
}

func listedRecord(rec *journal.Record) listedRun {
	return listedRun{
		Continues: rec.Continues,
		ID:        rec.ID, Tool: rec.Definition.Name, Start: rec.Start.UTC(), Duration: milliseconds(rec.Duration),
		Outcome: rec.OutcomeName(), Message: messageOf(rec), Calls: len(rec.Calls),
		Fuel: rec.Outcome.Fuel, Memory: rec.Outcome.Memory, Client: rec.Client.Name, Session: rec.Client.Session,
	}
}

// messageOf returns what the list says about a run: its error, or what it asks.
func messageOf(rec *journal.Record) string {
	open := rec.Open()
	if len(open) == 0 {
		return rec.Outcome.Message
	}
	return timeline.Question(&open[0])
}

func listedCall(p *journal.Proxied) listedRun {
	return listedRun{
		ID: p.ID, Tool: p.Server + "." + p.Tool, Start: p.Start.UTC(), Duration: milliseconds(p.Duration), Outcome: p.Outcome,
		Message: fmt.Sprintf("%d bytes sent, %d received", p.Sent, p.Received), Client: p.Client.Name, Session: p.Client.Session,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
