package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func runsListCommand() *cobra.Command {
	v := &runsView{}
	var order string
	var open bool
	cmd := &cobra.Command{
		Use:        "list",
		SuggestFor: []string{"ls"},
		Short:      "List runs, the newest first",
		Long: `List the runs of composite tools that clients have asked for, the newest first, or
with --sort those with the most time, fuel or calls.

--open lists the runs of durable tools that have not ended instead, the oldest first:
those that a process is at, and those whose process has died.

With --json each run is an object on a line of its own: id, tool, start,
duration (milliseconds), outcome, message, calls, fuel, memory, client, session,
token (the name of the client's token), violations (limits exceeded and calls refused), and continues, the run before, which
ended to ask the client something.`,
		Example: `  mcp-metatool runs list --since 2h --failed
  mcp-metatool runs list --tool issue_summary --limit 10
  mcp-metatool runs list --server github --sort took --limit 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if open {
				return v.listOpen(cmd)
			}
			return v.list(cmd, order)
		},
	}
	v.addFlags(cmd)
	v.addFilter(cmd)
	v.addPeriod(cmd)
	f := cmd.Flags()
	f.BoolVar(&v.proxied, "proxied", false, "list calls that were passed on without a script instead (--tool is SERVER.TOOL)")
	f.BoolVar(&open, "open", false, "list the runs of durable tools that have not ended")
	for _, other := range []string{"proxied", "tool", "outcome", "failed", "server", "since", "until", "dir"} {
		cmd.MarkFlagsMutuallyExclusive("open", other)
	}
	f.IntVar(&v.limit, "limit", 50, "list at most `N` runs; 0 for all")
	f.StringVar(&order, "sort", orderStart, "sort by `WHAT`, largest first: "+strings.Join(orders(), ", "))
	completeFlag(cmd, "sort", oneOf(orders()...))
	return cmd
}

// orderStart is the order of the journal.
const orderStart = "start"

// runOrders compare two runs, by the value of --sort; nil is the order of the journal.
var runOrders = map[string]func(a, b listedRun) int{
	orderStart: nil,
	"took":     func(a, b listedRun) int { return cmp.Compare(b.Duration, a.Duration) },
	"fuel":     func(a, b listedRun) int { return cmp.Compare(b.Fuel, a.Fuel) },
	"calls":    func(a, b listedRun) int { return cmp.Compare(b.Calls, a.Calls) },
}

func orders() []string { return []string{orderStart, "took", "fuel", "calls"} }

func (v *runsView) list(cmd *cobra.Command, order string) error {
	compare, ok := runOrders[order]
	if !ok {
		return &exitError{exitUsage, fmt.Errorf("--sort %s: not one of %s", order, strings.Join(orders(), ", "))}
	}
	defer v.release()
	if err := v.open(cmd); err != nil {
		return err
	}
	f, err := v.filter(time.Now())
	if err != nil {
		return err
	}
	t := newRunTable(cmd.OutOrStdout(), v.stdout, v.asJSON)
	add := func(r listedRun) bool { return t.add(r, v.limit) }
	var sorted *topRuns
	if compare != nil {
		sorted = &topRuns{compare: compare, limit: v.limit}
		add = sorted.add
	}
	done := busy(cmd, "reading the journal in "+v.dir)
	defer done()
	v.each(cmd, f, add)
	if cause := context.Cause(cmd.Context()); cause != nil {
		return cause
	}
	if sorted != nil {
		for _, r := range sorted.list() {
			t.add(r, 0)
		}
	}
	done()
	if err := t.end("no runs"); err != nil {
		return err
	}
	return v.end()
}

// each calls add with each run that the flags select until it returns false.
func (v *runsView) each(cmd *cobra.Command, f journal.Filter, add func(listedRun) bool) {
	if v.proxied {
		for p := range v.calls(cmd.Context(), f) {
			if !add(listedCall(&p)) {
				return
			}
		}
		return
	}
	for rec := range v.records(cmd.Context(), f) {
		if !add(listedRecord(&rec)) {
			return
		}
	}
}

// topRuns collects the first runs in an order.
type topRuns struct {
	compare func(a, b listedRun) int
	limit   int // 0: all
	runs    []listedRun
}

func (t *topRuns) add(r listedRun) bool {
	t.runs = append(t.runs, r)
	if t.limit > 0 && len(t.runs) >= 2*t.limit+1000 {
		t.runs = t.list()
	}
	return true
}

func (t *topRuns) list() []listedRun {
	slices.SortStableFunc(t.runs, t.compare)
	if t.limit > 0 {
		t.runs = t.runs[:min(t.limit, len(t.runs))]
	}
	return t.runs
}

// runTable writes a list of runs, as a table or as JSON with a run on each line.
type runTable struct {
	table
	out    *bufio.Writer
	asJSON bool
	n      int // how many were added
	held   int // how many of them are not written yet
}

// maxHeld is how many rows have a say in the widths of the columns. Later ones are written
// with the same widths.
const maxHeld = 200

// newRunTable returns a table for a screen. out buffers what is written to it.
func newRunTable(screen io.Writer, out *bufio.Writer, asJSON bool) *runTable {
	t := &runTable{table: table{Table: display.Table{Width: columns(screen), Color: hasColor(screen)}, w: raw(screen)}, out: out, asJSON: asJSON}
	t.head("RUN", "STARTED", "TOOL", "OUTCOME", right("TOOK"), right("CALLS"), right("FUEL"), "")
	return t
}

// add adds a run. It returns false if that was the last one within limit.
func (t *runTable) add(r listedRun, limit int) (more bool) {
	t.n++
	if t.asJSON {
		fmt.Fprintf(t.out, "%s\n", wire.Marshal(r))
		return t.n != limit
	}
	took, fuel := "", ""
	if r.Outcome != journal.Unfinished {
		took = timeline.Duration(time.Duration(r.Duration * float64(time.Millisecond)))
		fuel = strconv.FormatUint(r.Fuel, 10)
	}
	remark := display.Cell{Text: r.remark()}
	if s := state(r.Outcome).Style; s == display.Bad {
		remark.Style = s
	}
	t.row(shortRun(r.ID), r.Start, display.Line(r.Tool, 28), state(r.Outcome), took, r.Calls, display.Cell{Text: fuel, Short: shortCount(r.Fuel)}, remark)
	if t.held++; t.held >= maxHeld {
		_ = t.write() // the next one fails too
	}
	return t.n != limit
}

// write writes the rows that were added.
func (t *runTable) write() error {
	t.held = 0
	return t.flush()
}

// end writes what is left, or a message if there are no runs.
func (t *runTable) end(none string) error {
	switch {
	case t.asJSON:
		return nil
	case t.n == 0:
		_, err := fmt.Fprintln(t.w, none)
		return err
	}
	return t.write()
}

// shortCount formats a large number with few digits.
func shortCount(n uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return strconv.FormatFloat(float64(n)/float64(unit.size), 'f', 1, 64) + unit.name
		}
	}
	return strconv.FormatUint(n, 10)
}

// remark returns what the last column has.
func (r *listedRun) remark() string {
	switch {
	case r.Message == "" && r.Continues != "":
		return "continues " + shortRun(r.Continues)
	case r.Message == "" && len(r.Violations) > 0:
		return r.Violations[0]
	case r.Message == "" && r.Token != "":
		return "token " + display.Line(r.Token, 40)
	}
	return display.Line(r.Message, 100)
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
	// Violations are the limits that were exceeded and the calls that were refused, in the
	// run and in those of the saved tools that it called.
	Violations []string `json:"violations,omitempty"`
	// Continues is the id of the run that this one continues.
	Continues string `json:"continues,omitempty"`
	Calls     int    `json:"calls"`
	Fuel      uint64 `json:"fuel"`
	Memory    uint64 `json:"memory"`
	Client    string `json:"client,omitempty"`
	Token     string `json:"token,omitempty"`
	Session   string `json:"session,omitempty"`
}

func listedRecord(rec *journal.Record) listedRun {
	return listedRun{
		Continues: rec.Continues, Violations: timeline.Violations(rec),
		ID: rec.ID, Tool: rec.Definition.Name, Start: rec.Start.UTC(), Duration: milliseconds(rec.Duration),
		Outcome: rec.OutcomeName(), Message: messageOf(rec), Calls: len(rec.Calls),
		Fuel: rec.Outcome.Fuel, Memory: rec.Outcome.Memory, Client: rec.Client.Name, Token: rec.Client.Token, Session: rec.Client.Session,
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
		Message: fmt.Sprintf("%d bytes sent, %d received", p.Sent, p.Received), Client: p.Client.Name, Token: p.Client.Token, Session: p.Client.Session,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
