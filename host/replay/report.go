package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Verdict is what a replay comes to.
type Verdict string

// The verdicts. The last two are those of changed code.
const (
	Identical Verdict = "identical"
	// IdenticalRedacted says that the replay differs only where something in the
	// record was redacted: in masked parts of values, in fuel and in memory.
	IdenticalRedacted Verdict = "identical but for redaction"
	Diverged          Verdict = "diverged"
	Succeeded         Verdict = "succeeded"
	Failed            Verdict = "failed"
)

// OK reports whether the replay found no fault.
func (v Verdict) OK() bool { return v == Identical || v == IdenticalRedacted || v == Succeeded }

// Report is what a replay has found.
type Report struct {
	Run     string  `json:"run"` // id
	Tool    string  `json:"tool"`
	Verdict Verdict `json:"verdict"`
	// Notes say what may be the reason for differences, and what could not be
	// compared.
	Notes []string `json:"notes,omitempty"`
	// Differences are in the order in which they were met. Those of changed code
	// are no fault.
	Differences []Difference `json:"differences,omitempty"`
	More        int          `json:"more,omitempty"` // differences that are not listed
	// Missing is the call of changed code that the record has no answer for, with
	// its place.
	Missing  *abi.ToolCall `json:"missing,omitempty"`
	Position *abi.Position `json:"position,omitempty"`

	// Cut tells that the replay ended at a call that was not recorded: what it came
	// to after that means nothing.
	Cut bool `json:"cut,omitempty"`
	// Short tells that the replay ended where a record ends that has no outcome:
	// likewise.
	Short bool `json:"short,omitempty"`

	Recorded Side `json:"recorded"`
	Replayed Side `json:"replayed"`
	// Compared is how much was held against the record, in all runs.
	Compared Compared `json:"compared"`
	// Elapsed is how long the replay took, in nanoseconds in JSON.
	Elapsed time.Duration `json:"elapsed"`
	// Record is that of the replay, its times those of the replay.
	Record journal.Record `json:"-"`
}

// Compared counts steps. Runs are the run and those of saved tools below it.
type Compared struct {
	Runs          int `json:"runs"`
	Calls         int `json:"calls"`
	Logs          int `json:"logs"`
	Undos         int `json:"undos"`
	Compensations int `json:"compensations"`
}

// Side is what one of the two runs came to.
type Side struct {
	Outcome string          `json:"outcome"` // see journal.Record.OutcomeName
	Result  json.RawMessage `json:"result,omitempty"`
	Failure json.RawMessage `json:"failure,omitempty"`
	Logs    []string        `json:"logs"`
	Calls   []string        `json:"calls"` // as server.tool(arguments)
	Fuel    uint64          `json:"fuel"`
	Memory  uint64          `json:"memory"` // peak, in bytes
	Guest   string          `json:"guest"`
	Version string          `json:"version"` // hash of the definition
}

// session is what the tapes of one replay have found.
type session struct {
	guest       string // hash of ours
	most        sandbox.Limits
	lowered     []string // limits of the record that were larger
	sameGuest   bool
	cut, short  bool
	excused     bool // something differs only where the record was redacted
	notes       []string
	differences []Difference
	more        int

	runs, calls, logs, undos, undone int
}

// introduce notes what there is to know before the replay.
func (s *session) introduce(rec *journal.Record, opts Options) {
	s.sameGuest = rec.Guest == s.guest
	if !s.sameGuest {
		s.note("", fmt.Sprintf("the guest is another one (recorded %s, this is %s): fuel and memory are not compared",
			shortHash(rec.Guest), shortHash(s.guest)))
	}
	if opts.Saved != nil && rec.Saved && opts.Saved.Hash() != rec.Definition.Hash() {
		s.note("", fmt.Sprintf("the saved tool %q has changed since (recorded %s, now %s): what is replayed is the recorded one",
			rec.Definition.Name, shortHash(rec.Definition.Hash()), shortHash(opts.Saved.Hash())))
	}
	if rec.Parent != nil {
		s.note("", fmt.Sprintf("the run is one of a saved tool that run %s has called: what fuel and calls that had left for it is not known", rec.Parent.Run))
	}
	if rec.Any(func(r *journal.Record) bool { return r.Redacted }) {
		s.note("", "something in the record was redacted: differences may come from that")
	}
	if rec.Any(func(r *journal.Record) bool { return r.Incomplete }) {
		s.note("", "some of the run could not be written to the journal: differences may come from that")
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

// locate adds the place to a difference that was added before it was known.
func (s *session) locate(d Difference, in string, at *abi.Position) {
	for i := range s.differences {
		if s.differences[i].What == d.What && s.differences[i].In == in && s.differences[i].Position == nil {
			s.differences[i].Position = at
		}
	}
}

func (s *session) report(rec, replayed *journal.Record) Report {
	if len(s.lowered) > 0 {
		s.note("", fmt.Sprintf("the record has larger limits than runs may have here; replayed with %s (max_... in [execution] raises them): differences may come from that",
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
		line := callName(c.Asked) + "(" + string(c.Asked.Arguments) + ")"
		if c.Undo {
			line = "undo " + line
		}
		s.Calls = append(s.Calls, line)
	}
	return s
}

// jsonOrNil keeps what a damaged record has out of reports.
func jsonOrNil(raw []byte) json.RawMessage {
	if !json.Valid(raw) {
		return nil
	}
	return raw
}

// position is the place that a failure names; nil when it names none.
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

// Text is the report for people: several lines, with text that others wrote.
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
		outcome = "ended at the first call that differs"
	case r.Short:
		outcome = "ended where the record ends"
	}
	fmt.Fprintf(b, "\n  %s, %d units of fuel, %d bytes of memory at most; replayed in %v\n",
		outcome, r.Replayed.Fuel, r.Replayed.Memory, r.Elapsed.Round(time.Microsecond))
	for i, d := range r.Differences {
		if i == 0 {
			b.WriteString("first difference:\n")
			d.write(b)
			if len(r.Differences) > 1 {
				fmt.Fprintf(b, "and %s more:\n", count(len(r.Differences)-1+r.More, "difference"))
			}
			continue
		}
		fmt.Fprintf(b, "  %s\n", d.line())
	}
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

// maxSource bounds a source line that is shown, in bytes.
const maxSource = 200

func writePosition(b *strings.Builder, p *abi.Position) {
	if p == nil {
		return
	}
	fmt.Fprintf(b, "  at %s:%d:%d\n", p.File, p.Line, p.Column)
	if p.Source != "" {
		fmt.Fprintf(b, "    %s\n", clip(p.Source, maxSource))
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
