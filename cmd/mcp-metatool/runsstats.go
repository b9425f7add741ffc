package main

import (
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
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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

// percentiles are the values that 50, 95 and 99 percent of the runs did not exceed (nearest
// rank).
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

// toolStats is one tool in the output of runs stats --json.
type toolStats struct {
	Tool string `json:"tool"`
	Runs int    `json:"runs"`
	// Failures are the runs that ended with an error, by class in Errors. Refused are those
	// that exceeded a limit or made a call that was refused.
	Failures int            `json:"failures"`
	Errors   map[string]int `json:"errors,omitempty"`
	Refused  int            `json:"refused"`
	Duration percentiles    `json:"duration"` // milliseconds
	Fuel     percentiles    `json:"fuel"`
	Calls    percentiles    `json:"calls"`
	// Answers and Results are the bytes of the servers' answers, and of what the agent got;
	// Kept is the difference.
	Answers int64 `json:"answerBytes"`
	Results int64 `json:"resultBytes"`
	Kept    int64 `json:"keptBytes"`

	durations, fuels, calls []float64
}

// count adds a run that ended.
func (s *toolStats) count(outcome string, took time.Duration, refused bool) {
	s.Runs++
	s.durations = append(s.durations, milliseconds(took))
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

// answerBytes returns the size of what servers answered to a run and its nested runs.
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
	done := busy(cmd, "reading the journal in "+v.dir)
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
		err = writeJSON(cmd.OutOrStdout(), figures.list())
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
	t := newTable(w)
	if proxied {
		t.head("TOOL", right("CALLS"), right("FAILED"), "TIME P50/P95/P99|P50/P95/P99", right("RECEIVED"))
	} else {
		t.head("TOOL", right("RUNS"), right("FAILED"), right("REFUSED"), "TIME P50/P95/P99", "FUEL", "CALLS", right("KEPT"))
	}
	for _, s := range list {
		failed := display.Cell{Text: strconv.Itoa(s.Failures)}
		if s.Failures > 0 {
			failed.Style = display.Bad
		}
		d := s.Duration
		if proxied {
			t.row(s.Tool, s.Runs, failed, d.text(took), display.Size(uint64(s.Answers)))
			continue
		}
		number := func(n float64) string { return shortCount(uint64(n)) }
		t.row(s.Tool, s.Runs, failed, s.Refused, d.text(took), s.Fuel.text(number), s.Calls.text(number), signedSize(s.Kept))
	}
	return t.flush()
}

// signedSize formats a number of bytes.
func signedSize(n int64) string {
	if n < 0 {
		return "-" + display.Size(uint64(-n))
	}
	return display.Size(uint64(n))
}
