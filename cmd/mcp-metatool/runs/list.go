package runs

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

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
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
	cli.CompleteFlag(cmd, "sort", cli.OneOf(orders()...))
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
		return cli.Usage(fmt.Errorf("--sort %s: not one of %s", order, strings.Join(orders(), ", ")))
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
	done := cli.Busy(cmd, "reading the journal in "+v.dir)
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

// each calls add with each run that the flags select, until add returns false.
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
	*cli.Table
	screen io.Writer
	out    *bufio.Writer
	asJSON bool
	n      int // how many were added
	held   int // how many of them are not written yet
}

// maxHeld is how many rows have a say in the widths of the columns. Later ones are written
// with the same widths.
const maxHeld = 200

// newRunTable returns a table for a screen. out buffers the rows.
func newRunTable(screen io.Writer, out *bufio.Writer, asJSON bool) *runTable {
	t := &runTable{Table: cli.NewTable(screen), screen: cli.Raw(screen), out: out, asJSON: asJSON}
	t.Head("RUN", "STARTED", "TOOL", "OUTCOME", cli.Right("TOOK"), cli.Right("CALLS"), cli.Right("FUEL"), "")
	return t
}

// add adds a run, and returns false for the last run within limit.
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
	if s := cli.State(r.Outcome).Style; s == display.Bad {
		remark.Style = s
	}
	t.Add(cli.ShortRun(r.ID), r.Start, display.Line(r.Tool, 28), cli.State(r.Outcome), took, r.Calls, display.Cell{Text: fuel, Short: shortCount(r.Fuel)}, remark)
	if t.held++; t.held >= maxHeld {
		_ = t.write() // the next write fails too
	}
	return t.n != limit
}

// write writes the rows that were added.
func (t *runTable) write() error {
	t.held = 0
	return t.Flush()
}

// end writes the remaining rows, or a message without runs.
func (t *runTable) end(none string) error {
	switch {
	case t.asJSON:
		return nil
	case t.n == 0:
		_, err := fmt.Fprintln(t.screen, none)
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

// remark returns the text of the last column.
func (r *listedRun) remark() string {
	switch {
	case r.Message == "" && r.Continues != "":
		return "continues " + cli.ShortRun(r.Continues)
	case r.Message == "" && len(r.Violations) > 0:
		return r.Violations[0]
	case r.Message == "" && r.Token != "":
		return "token " + display.Line(r.Token, 40)
	}
	return display.Line(r.Message, 100)
}

// listedRun is a run, or a call without a script, in the output of runs list --json.
type listedRun struct {
	ID       string    `json:"id"`
	Tool     string    `json:"tool"`
	Start    time.Time `json:"start"`
	Duration float64   `json:"duration"` // milliseconds
	Outcome  string    `json:"outcome"`
	Message  string    `json:"message,omitempty"`
	// Violations are the exceeded limits and the refused calls, in the run and in the nested runs
	// of saved tools.
	Violations []string `json:"violations,omitempty"`
	// Continues is the id of the run before, which this run continues.
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
		ID: rec.ID, Tool: rec.Definition.Name, Start: rec.Start.UTC(), Duration: cli.Milliseconds(rec.Duration),
		Outcome: rec.OutcomeName(), Message: messageOf(rec), Calls: len(rec.Calls),
		Fuel: rec.Outcome.Fuel, Memory: rec.Outcome.Memory, Client: rec.Client.Name, Token: rec.Client.Token, Session: rec.Client.Session,
	}
}

// messageOf returns the message in the list about a run: the error, or the question.
func messageOf(rec *journal.Record) string {
	open := rec.Open()
	if len(open) == 0 {
		return rec.Outcome.Message
	}
	return timeline.Question(&open[0])
}

func listedCall(p *journal.Proxied) listedRun {
	return listedRun{
		ID: p.ID, Tool: p.Server + "." + p.Tool, Start: p.Start.UTC(), Duration: cli.Milliseconds(p.Duration), Outcome: p.Outcome,
		Message: fmt.Sprintf("%d bytes sent, %d received", p.Sent, p.Received), Client: p.Client.Name, Token: p.Client.Token, Session: p.Client.Session,
	}
}

func runsStatsCommand() *cobra.Command {
	v := &runsView{}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Sum up the runs of each tool: failures, time, fuel, calls, bytes kept out of context",
		Long: `Sum up the runs of each tool: how many there were and how many failed, and for time,
fuel and calls the values that 50, 95 and 99 percent of the runs did not exceed.

KEPT is how many bytes of the servers' answers did not get into the context of the
agent, because the script returned less: the bytes of the answers minus those of the
results. It is negative if scripts returned more than they received.

A run that asked the client something, and those that continue it, count as one run.
Runs that have not ended do not count.`,
		Example: `  mcp-metatool runs stats --since 7d
  mcp-metatool runs stats --proxied --server github`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.stats(cmd) },
	}
	v.addFlags(cmd)
	v.addFilter(cmd)
	v.addPeriod(cmd)
	cmd.Flags().BoolVar(&v.proxied, "proxied", false, "sum up calls that were passed on without a script instead (--tool is SERVER.TOOL)")
	return cmd
}

// percentiles are the values that 50, 95 and 99 percent of the runs did not exceed (nearest rank).
type percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// percentilesOf sorts values.
func percentilesOf(values []float64) percentiles {
	if len(values) == 0 {
		return percentiles{}
	}
	slices.Sort(values)
	rank := func(percent int) float64 { return values[(len(values)*percent+99)/100-1] }
	return percentiles{rank(50), rank(95), rank(99)}
}

func (p percentiles) text(format func(float64) string) string {
	return format(p.P50) + " / " + format(p.P95) + " / " + format(p.P99)
}

// toolStats is a tool in the output of runs stats --json.
type toolStats struct {
	Tool string `json:"tool"`
	Runs int    `json:"runs"`
	// Failures are the runs that ended with an error, by class in Errors. Refused are the runs that
	// exceeded a limit or made a refused call.
	Failures int            `json:"failures"`
	Errors   map[string]int `json:"errors,omitempty"`
	Refused  int            `json:"refused"`
	Duration percentiles    `json:"duration"` // milliseconds
	Fuel     percentiles    `json:"fuel"`
	Calls    percentiles    `json:"calls"`
	// Answers and Results are the bytes of the servers' answers, and of the agent's results; Kept
	// is the difference.
	Answers int64 `json:"answerBytes"`
	Results int64 `json:"resultBytes"`
	Kept    int64 `json:"keptBytes"`

	durations, fuels, calls []float64
}

// count adds a run that ended.
func (s *toolStats) count(outcome string, took time.Duration, refused bool) {
	s.Runs++
	s.durations = append(s.durations, cli.Milliseconds(took))
	if outcome != journal.OK && outcome != journal.Asks {
		s.Failures++
		s.Errors[outcome]++
	}
	if refused {
		s.Refused++
	}
}

// statistics collects the figures of tools.
type statistics map[string]*toolStats

func (s statistics) of(tool string) *toolStats {
	if s[tool] == nil {
		s[tool] = &toolStats{Tool: tool, Errors: map[string]int{}}
	}
	return s[tool]
}

// addRun adds the figures of a run.
func (s statistics) addRun(rec *journal.Record) {
	t := s.of(rec.Definition.Name)
	t.count(rec.OutcomeName(), rec.Elapsed+rec.Duration, len(timeline.Violations(rec)) > 0)
	t.fuels = append(t.fuels, float64(rec.Outcome.Fuel))
	t.calls = append(t.calls, float64(len(rec.Calls)))
	t.Answers += answerBytes(rec)
	t.Results += int64(len(rec.Outcome.Result) + len(rec.Outcome.Failure))
}

// answerBytes returns the size of the servers' answers to a run and its nested runs.
func answerBytes(rec *journal.Record) (n int64) {
	for i := range rec.Calls {
		a := &rec.Calls[i].Answer
		if a.Run != nil {
			n += answerBytes(a.Run)
			continue
		}
		n += int64(len(a.Result) + len(a.RPCError))
	}
	return n
}

// list returns the figures, the tool with the most runs first.
func (s statistics) list() []toolStats {
	list := []toolStats{}
	for _, t := range s {
		t.Duration, t.Fuel, t.Calls = percentilesOf(t.durations), percentilesOf(t.fuels), percentilesOf(t.calls)
		t.Kept = t.Answers - t.Results
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b toolStats) int { return cmp.Or(b.Runs-a.Runs, strings.Compare(a.Tool, b.Tool)) })
	return list
}

func (v *runsView) stats(cmd *cobra.Command) error {
	defer v.release()
	if err := v.open(cmd); err != nil {
		return err
	}
	f, err := v.filter(time.Now())
	if err != nil {
		return err
	}
	done := cli.Busy(cmd, "reading the journal in "+v.dir)
	defer done()
	figures := statistics{}
	if v.proxied {
		for p := range v.calls(cmd.Context(), f) {
			t := figures.of(p.Server + "." + p.Tool)
			t.count(p.Outcome, p.Duration, false)
			t.Answers, t.Results = t.Answers+int64(p.Received), t.Results+int64(p.Received)
		}
	} else {
		for rec := range v.lastRounds(cmd.Context(), f) {
			if rec.Done {
				figures.addRun(&rec)
			}
		}
	}
	done()
	if cause := context.Cause(cmd.Context()); cause != nil {
		return cause
	}
	if v.asJSON {
		err = cli.WriteJSON(cmd.OutOrStdout(), figures.list())
	} else {
		err = writeStats(cmd.OutOrStdout(), figures.list(), v.proxied)
	}
	if err != nil {
		return err
	}
	return v.end()
}

// writeStats writes a table.
func writeStats(w io.Writer, list []toolStats, proxied bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	took := func(ms float64) string { return timeline.Duration(time.Duration(ms * float64(time.Millisecond))) }
	t := cli.NewTable(w)
	if proxied {
		t.Head("TOOL", cli.Right("CALLS"), cli.Right("FAILED"), "TIME P50/P95/P99|P50/P95/P99", cli.Right("RECEIVED"))
	} else {
		t.Head("TOOL", cli.Right("RUNS"), cli.Right("FAILED"), cli.Right("REFUSED"), "TIME P50/P95/P99", "FUEL", "CALLS", cli.Right("KEPT"))
	}
	for _, s := range list {
		failed := display.Cell{Text: strconv.Itoa(s.Failures)}
		if s.Failures > 0 {
			failed.Style = display.Bad
		}
		d := s.Duration
		if proxied {
			t.Add(s.Tool, s.Runs, failed, d.text(took), display.Size(uint64(s.Answers)))
			continue
		}
		number := func(n float64) string { return shortCount(uint64(n)) }
		t.Add(s.Tool, s.Runs, failed, s.Refused, d.text(took), s.Fuel.text(number), s.Calls.text(number), signedSize(s.Kept))
	}
	return t.Flush()
}

// signedSize formats a number of bytes.
func signedSize(n int64) string {
	if n < 0 {
		return "-" + display.Size(uint64(-n))
	}
	return display.Size(uint64(n))
}
