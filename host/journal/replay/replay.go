// Package replay runs recorded runs again, offline: package compose runs the script in the sandbox,
// and recorded answers replace upstreams. A run depends only on recorded data. So a differing
// replay means that the code, the guest, the host or the record has changed, and the report shows
// the place. Begin with Run and Report; Compare compares two records.
//
// Calls are matched by their sequence number. Called saved tools run again too, with the recorded
// definitions and answers. Neither a clock nor a network matters. Records can be hostile: a wrong
// record shows as a difference, and a replay is bounded by the options, by lower limits in the
// record, and by the context.
package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Options configure a replay.
type Options struct {
	// Code, if set, runs in place of the recorded script, with the same params. The same calls get
	// the same answers.
	Code *string
	// Saved, if set, is the currently saved tool. The report notes whether the tool has changed
	// since the run.
	Saved *tools.Definition
	// Limits bound the replay; see [AtMost]. The limits in the record can only be
	// lower. Zero values mean the defaults.
	Limits sandbox.Limits
	// Log receives faults of the sandbox; nil discards them.
	Log *slog.Logger
}

// Run replays a run. The error is the cause of ctx, or says why the sandbox cannot
// run anything; everything else is in the report.
func Run(ctx context.Context, box compose.Sandbox, rec journal.Record, opts Options) (Report, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &session{guest: sandbox.GuestDigest(), most: opts.Limits.WithDefaults()}
	s.addFirstNotes(&rec, opts)

	var changed *lenient
	var run *compose.ReplayRun
	if opts.Code != nil {
		changed = newLenient(s, &rec, "")
		run = &compose.ReplayRun{Begin: s.begin(rec.Begin), Recording: changed}
		run.Definition.Code, run.AgentTools = *opts.Code, builtin.Mentioned(*opts.Code)
	} else {
		run = s.replayRun(&rec, newStrict(s, &rec, ""))
	}

	select { // Elapsed then covers only the replay
	case <-box.Ready():
	case <-ctx.Done():
	}
	start := time.Now()
	c := compose.New(compose.Options{Sandbox: box, Log: opts.Log, Debug: debugged(&rec)})
	replayed, err := c.Replay(ctx, *run)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, context.Cause(ctx))
	}
	if err != nil {
		return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, err)
	}
	report := s.report(&rec, &replayed)
	report.Elapsed = time.Since(start)
	if changed != nil {
		before := newLenient(&session{guest: s.guest, most: s.most}, &rec, "")
		if registers(&rec) {
			// The record has no commit, so the recorded code is run, too.
			if _, err := c.Replay(ctx, *before.replayRun(&rec, before)); err != nil {
				return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, err)
			}
		}
		report.complete(changed, before, &rec, &replayed)
	}
	return report, nil
}

// registers reports whether a run has registered compensations.
func registers(rec *journal.Record) bool {
	return rec.Any(func(r *journal.Record) bool { return len(r.Undos) > 0 })
}

// stopOf returns the point at which a run was ended from outside the script, or nil.
func stopOf(rec *journal.Record) *compose.Stop {
	if !rec.Done {
		return nil
	}
	waiting := slices.ContainsFunc(rec.Calls, func(c journal.CallRecord) bool { return !c.Undo && unanswered(&c) })
	failure := rec.Outcome.Failure
	limit, _ := wire.GetString(failure, "details", "limit")
	switch rec.Outcome.Error {
	case abi.ErrTimeout, abi.ErrCancelled:
		// If a call failed in this way without being caught, the script itself failed.
		for _, name := range []string{"server", "file"} {
			if _, ofScript := wire.Get(failure, "details", name); ofScript {
				return nil
			}
		}
	case abi.ErrTool:
		// A run ends during a call if the call may or may not have been made before the process
		// died, or if a server asks a different question than before.
		if _, ofScript := wire.Get(failure, "details", "file"); ofScript || !waiting {
			return nil
		}
	case abi.ErrResource:
		if limit != string(sandbox.LimitQueue) {
			return nil
		}
	default:
		return nil
	}
	return &compose.Stop{Fuel: recordedFuel(rec), Waiting: waiting}
}

// unanswered reports whether the run ended before the call was answered.
func unanswered(c *journal.CallRecord) bool {
	if !c.Done {
		return true
	}
	e := c.Answer.Err
	return e != nil && (e.Type == abi.ErrTimeout || e.Type == abi.ErrCancelled) && (e.Message == compose.NoAnswer || e.Message == compose.NotMade)
}

// recordedFuel returns the fuel of a recorded run itself, without nested runs. The outcome of a run
// without a parent includes nested runs; the outcome of a nested run does not.
func recordedFuel(rec *journal.Record) uint64 {
	if rec.Parent != nil {
		return rec.Outcome.Fuel
	}
	return withoutBelow(rec)
}

func withoutBelow(rec *journal.Record) uint64 {
	below := fuelBelow(rec)
	if below > rec.Outcome.Fuel {
		return 0 // the program does not write records of this form
	}
	return rec.Outcome.Fuel - below
}

func fuelBelow(rec *journal.Record) (sum uint64) {
	for i := range rec.Calls {
		if below := rec.Calls[i].Answer.Run; below != nil {
			sum += below.Outcome.Fuel + fuelBelow(below)
		}
	}
	return sum
}

// debugged reports whether failures have backtraces. Scripts can see the backtraces of called
// tools.
func debugged(rec *journal.Record) bool {
	return rec.Any(func(r *journal.Record) bool { _, ok := wire.Get(r.Outcome.Failure, "stack"); return ok })
}

// replayRun returns a run to replay, with a recording.
func (s *session) replayRun(rec *journal.Record, recording compose.Recording) *compose.ReplayRun {
	t := &compose.ReplayRun{Begin: s.begin(rec.Begin), Recording: recording, Failure: rec.Outcome.Failure, Stopped: stopOf(rec), Checked: rec.Outcome.Checked, Asks: rec.Outcome.Asks}
	// A run in doubt may also lack compensations of its calls.
	t.Orphan = t.Stopped != nil && (rec.Parent != nil || rec.Outcome.Error == abi.ErrTool)
	for i := range rec.Calls {
		t.Orphan = t.Orphan && !rec.Calls[i].Undo
	}
	return t
}

// AtMost returns the larger of each limit in l and its default. A replay of any record may use
// these limits.
func AtMost(l sandbox.Limits) sandbox.Limits {
	l, usual := l.WithDefaults(), sandbox.Limits{}.WithDefaults()
	l.Memory, l.Fuel = max(l.Memory, usual.Memory), max(l.Fuel, usual.Fuel)
	l.Calls, l.Arguments, l.Answer = max(l.Calls, usual.Calls), max(l.Arguments, usual.Arguments), max(l.Answer, usual.Answer)
	l.Result, l.Logs = max(l.Result, usual.Result), max(l.Logs, usual.Logs)
	return l
}

// begin returns the recorded beginning of a run, with limits of at most s.most. A limit of 0 in
// the record means the default.
func (s *session) begin(b journal.Begin) journal.Begin {
	var lowered []string
	lower := func(name string, n *int, most int) {
		if *n < 0 || *n > most {
			*n = most
			lowered = append(lowered, fmt.Sprintf("%s %d", name, most))
		}
	}
	l := &b.Limits
	if l.Memory > s.most.Memory {
		l.Memory = s.most.Memory
		lowered = append(lowered, "memory "+units.FormatSize(l.Memory))
	}
	if l.Fuel > s.most.Fuel {
		l.Fuel = s.most.Fuel
		lowered = append(lowered, fmt.Sprintf("fuel %d", l.Fuel))
	}
	lower("calls", &l.Calls, s.most.Calls)
	lower("arguments", &l.Arguments, s.most.Arguments)
	lower("answer", &l.Answer, s.most.Answer)
	lower("result", &l.Result, s.most.Result)
	lower("logs", &l.Logs, s.most.Logs)
	for _, what := range lowered {
		if !slices.Contains(s.lowered, what) {
			s.lowered = append(s.lowered, what)
		}
	}
	if b.AgentTools == nil && b.Guest != s.guest {
		// An older guest had these names built in.
		b.AgentTools = builtin.Mentioned(b.Definition.Code)
	}
	return b
}

// Verdict is the overall result of a replay.
type Verdict string

// The verdicts. Succeeded and Failed are for changed code.
const (
	Identical Verdict = "identical"
	// IdenticalRedacted means that the replay differs only in redacted parts of the record: in
	// masked parts of values, in fuel and in memory.
	IdenticalRedacted Verdict = "identical but for redaction"
	Diverged          Verdict = "diverged"
	Succeeded         Verdict = "succeeded"
	Failed            Verdict = "failed"
)

// OK reports whether the replay found nothing wrong.
func (v Verdict) OK() bool { return v == Identical || v == IdenticalRedacted || v == Succeeded }

// Report is the result of a replay.
type Report struct {
	Run     string  `json:"run"` // run id
	Tool    string  `json:"tool"`
	Verdict Verdict `json:"verdict"`
	// Notes name possible reasons for differences, and parts without a comparison.
	Notes []string `json:"notes,omitempty"`
	// Differences are in the order in which they were found. For changed code they are
	// expected.
	Differences []Difference `json:"differences,omitempty"`
	More        int          `json:"more,omitempty"` // unlisted differences
	// Missing is the call of changed code without a recorded answer; Position is the place of the
	// call in the code.
	Missing  *abi.ToolCall `json:"missing,omitempty"`
	Position *abi.Position `json:"position,omitempty"`

	// Cut is set if the replay ended at an unrecorded call. The outcome then has no meaning.
	Cut bool `json:"cut,omitempty"`
	// Short is set if the replay ended at the end of an unfinished record. The outcome then has no
	// meaning.
	Short bool `json:"short,omitempty"`

	Recorded Side `json:"recorded"`
	Replayed Side `json:"replayed"`
	// Compared counts the compared steps, in all runs.
	Compared Compared `json:"compared"`
	// Elapsed is how long the replay took, in nanoseconds in JSON.
	Elapsed time.Duration `json:"elapsed"`
	// Record is the record of the replay, with the replay's own times.
	Record journal.Record `json:"-"`
}

// Compared counts steps. Runs counts the run itself and the nested runs of saved tools.
type Compared struct {
	Runs          int `json:"runs"`
	Calls         int `json:"calls"`
	Logs          int `json:"logs"`
	Undos         int `json:"undos"`
	Compensations int `json:"compensations"`
}

// Side describes a run, the recorded one or the replay.
type Side struct {
	Outcome string          `json:"outcome"` // see journal.Record.OutcomeName
	Result  json.RawMessage `json:"result,omitempty"`
	Failure json.RawMessage `json:"failure,omitempty"`
	Logs    []string        `json:"logs"`
	Calls   []string        `json:"calls"` // as server.tool(arguments), with options behind
	Fuel    uint64          `json:"fuel"`
	Memory  uint64          `json:"memory"` // peak, in bytes
	Guest   string          `json:"guest"`
	Version string          `json:"version"` // hash of the definition
}

// session collects the findings of a replay.
type session struct {
	guest       string // hash of our own guest
	most        sandbox.Limits
	lowered     []string // lowered limits of the record
	sameGuest   bool
	cut, short  bool
	excused     bool // something differs only where the record was redacted
	notes       []string
	differences []Difference
	more        int

	runs, calls, logs, undos, undone int
	undoing                          []string // compensations registered and committed by changed code, in order
}

// addFirstNotes adds the notes known before the replay.
func (s *session) addFirstNotes(rec *journal.Record, opts Options) {
	s.sameGuest = rec.Guest == s.guest
	if !s.sameGuest {
		s.note("", fmt.Sprintf("the guest differs (recorded %s, now %s): fuel and memory are not compared",
			shortHash(rec.Guest), shortHash(s.guest)))
	}
	if opts.Saved != nil && rec.Saved && opts.Saved.Hash() != rec.Definition.Hash() {
		s.note("", fmt.Sprintf("the saved tool %q has changed since (recorded %s, now %s): the recorded definition is replayed",
			rec.Definition.Name, shortHash(rec.Definition.Hash()), shortHash(opts.Saved.Hash())))
	}
	if rec.Parent != nil {
		s.note("", fmt.Sprintf("the run is of a saved tool, called by run %s: the fuel and the calls that were left are not known", rec.Parent.Run))
	}
	if rec.Any(func(r *journal.Record) bool { return r.Redacted }) {
		s.note("", "the record has redacted parts: differences may come from the redaction")
	}
	if rec.Any(func(r *journal.Record) bool { return r.Incomplete }) {
		s.note("", "a part of the run could not be written to the journal: differences may come from the gap")
	}
}

func shortHash(hash string) string {
	if hash == "" {
		return "unknown"
	}
	return hash[:min(len(hash), 12)]
}

func (s *session) note(in, text string) {
	if in != "" {
		text = in + ": " + text
	}
	s.notes = append(s.notes, text)
}

func (s *session) add(d Difference) {
	if len(s.differences) == maxDifferences {
		s.more++
		return
	}
	s.differences = append(s.differences, d)
}

// locate sets the position of a difference added earlier with an unknown position.
func (s *session) locate(d Difference, in string, at *abi.Position) {
	for i := range s.differences {
		if s.differences[i].What == d.What && s.differences[i].In == in && s.differences[i].Position == nil {
			s.differences[i].Position = at
		}
	}
}

func (s *session) report(rec, replayed *journal.Record) Report {
	if len(s.lowered) > 0 {
		s.note("", fmt.Sprintf("the record has larger limits than runs may have here; replayed with %s (raise max_... in [execution]): differences may come from the limits",
			strings.Join(s.lowered, ", ")))
	}
	r := Report{
		Run: rec.ID, Tool: rec.Definition.Name, Verdict: Identical,
		Notes: s.notes, Differences: s.differences, More: s.more,
		Cut: s.cut, Short: s.short, Recorded: sideOf(rec), Replayed: sideOf(replayed), Record: *replayed,
		Compared: Compared{Runs: s.runs, Calls: s.calls, Logs: s.logs, Undos: s.undos, Compensations: s.undone},
	}
	switch {
	case len(r.Differences) > 0:
		r.Verdict = Diverged
	case s.excused:
		r.Verdict = IdenticalRedacted
	}
	return r
}

func sideOf(rec *journal.Record) Side {
	s := Side{
		Outcome: rec.OutcomeName(), Result: jsonOrNil(rec.Outcome.Result), Failure: jsonOrNil(rec.Outcome.Failure),
		Logs: []string{}, Calls: []string{}, Fuel: rec.Outcome.Fuel, Memory: rec.Outcome.Memory,
		Guest: rec.Guest, Version: rec.Definition.Hash(),
	}
	for _, e := range rec.Logs {
		s.Logs = append(s.Logs, logLine(e.Level, e.Text))
	}
	for _, c := range rec.Calls {
		line := callWithOptions(c.Request)
		if c.Undo {
			line = "undo " + line
		}
		s.Calls = append(s.Calls, line)
	}
	return s
}

// jsonOrNil returns raw, or nil for invalid JSON, as in a damaged record.
func jsonOrNil(raw []byte) json.RawMessage {
	if !json.Valid(raw) {
		return nil
	}
	return raw
}

// position returns the position in the script named by a failure, or nil.
func position(failure []byte) *abi.Position {
	text := func(name string) string { s, _ := wire.GetString(failure, "details", name); return s }
	figure := func(name string) (n int) {
		raw, _ := wire.Get(failure, "details", name)
		if json.Unmarshal(raw, &n) != nil {
			return 0
		}
		return n
	}
	p := abi.Position{File: text("file"), Line: figure("line"), Column: figure("column"), Source: text("source")}
	if p.Line <= 0 {
		return nil
	}
	return &p
}

// Text returns the report for people, on several lines. The text contains text from scripts and
// servers, and is not safe for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	fmt.Fprintf(&b, "run %s, %s: %s\n", r.Run, r.Tool, r.Verdict)
	if r.Verdict == Succeeded || r.Verdict == Failed {
		r.writeChanged(&b)
	} else {
		r.writeCompared(&b)
	}
	return b.String()
}

func (r *Report) writeCompared(b *strings.Builder) {
	c := r.Compared
	fmt.Fprintf(b, "  compared: %s, %s, %s", count(c.Runs, "run"), count(c.Calls, "call"), count(c.Logs, "log entry"))
	if c.Undos > 0 {
		fmt.Fprintf(b, ", %s, %s", count(c.Undos, "undo"), count(c.Compensations, "compensation"))
	}
	outcome := "outcome " + r.Replayed.Outcome
	switch {
	case r.Cut:
		outcome = "ended at the first differing call"
	case r.Short:
		outcome = "ended where the record ends"
	}
	fmt.Fprintf(b, "\n  %s, %d units of fuel, %d bytes of memory at most; replayed in %v\n",
		outcome, r.Replayed.Fuel, r.Replayed.Memory, r.Elapsed.Round(time.Microsecond))
	writeDifferences(b, r.Differences, r.More)
}

func (d *Difference) line() string {
	line := d.What + " " + d.Message
	if d.In != "" {
		line = d.In + ": " + line
	}
	return line
}

func (d *Difference) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", d.line())
	writePosition(b, d.Position)
	for line := range strings.Lines(d.Diff) {
		b.WriteString("  " + line)
	}
}

// maxSource bounds a shown source line, in bytes.
const maxSource = 200

func writePosition(b *strings.Builder, p *abi.Position) {
	if p == nil {
		return
	}
	fmt.Fprintf(b, "  at %s:%d:%d\n", p.File, p.Line, p.Column)
	if p.Source != "" {
		fmt.Fprintf(b, "    %s\n", display.ClipSize(p.Source, maxSource))
	}
}

func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
