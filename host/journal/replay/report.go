package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
