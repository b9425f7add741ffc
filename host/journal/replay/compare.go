package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Comparison is how two recorded runs differ.
type Comparison struct {
	A RunFigures `json:"a"`
	B RunFigures `json:"b"`
	// Same is set if only times differ.
	Same bool `json:"same"`
	// Notes name the parts that cannot be compared.
	Notes []string `json:"notes,omitempty"`
	// Differences are in the order of run A; differences of the input are first, differences of the
	// outcome last.
	Differences []Difference `json:"differences,omitempty"`
	More        int          `json:"more,omitempty"` // unlisted differences
}

// RunFigures are the figures of a run.
type RunFigures struct {
	Run     string        `json:"run"` // id
	Tool    string        `json:"tool"`
	Start   time.Time     `json:"start"`
	Took    time.Duration `json:"took"`    // nanoseconds in JSON
	Outcome string        `json:"outcome"` // see journal.Record.OutcomeName
	Calls   int           `json:"calls"`
	Fuel    uint64        `json:"fuel"`
	Memory  uint64        `json:"memory"` // peak, in bytes
}

func figuresOf(r *journal.Record) RunFigures {
	return RunFigures{
		Run: r.ID, Tool: r.Definition.Name, Start: r.Start.UTC(), Took: r.Duration, Outcome: r.OutcomeName(),
		Calls: len(r.Calls), Fuel: r.Outcome.Fuel, Memory: r.Outcome.Memory,
	}
}

// Compare compares two recorded runs: their input, calls, answers, log, compensations, outcome,
// fuel and memory, and in the same way the runs of called saved tools. After a call in only one of
// the runs, or to different tools, later calls are not compared.
func Compare(a, b *journal.Record) Comparison {
	result := Comparison{A: figuresOf(a), B: figuresOf(b)}
	c := comparer{}
	c.run(a, b, "", 0)
	slices.SortStableFunc(c.found, func(x, y timedDifference) int { return int(x.at.Compare(y.at)) })
	for i, d := range c.found {
		if i == maxDifferences {
			result.More = len(c.found) - i
			break
		}
		result.Differences = append(result.Differences, d.Difference)
	}
	result.Same = len(c.found) == 0
	if a.Any(isRedacted) || b.Any(isRedacted) {
		result.Notes = append(result.Notes, "a record has redacted parts: they count as the same where both have ****")
	}
	return result
}

func isRedacted(r *journal.Record) bool { return r.Redacted }

// comparer collects the differences of two runs.
type comparer struct{ found []timedDifference }

// timedDifference is a difference with the time in run A.
type timedDifference struct {
	Difference
	at when
}

// when orders differences: by phase, then by time.
type when struct {
	phase int
	at    time.Duration
}

// The phases.
const (
	phaseInput = iota
	phaseSteps
	phaseEnd
)

// Compare compares two times.
func (w when) Compare(other when) int {
	if w.phase != other.phase {
		return w.phase - other.phase
	}
	switch {
	case w.at < other.at:
		return -1
	case w.at > other.at:
		return 1
	}
	return 0
}

// pair is a comparison of two runs, or of two nested runs.
type pair struct {
	*comparer
	in     string // see Difference.In
	offset time.Duration
}

func (p pair) add(at when, what, message, diff string) {
	if p.in != "" && at.phase != phaseSteps { // the difference belongs to the steps of the outer runs
		at.phase = phaseSteps
	}
	at.at += p.offset
	p.found = append(p.found, timedDifference{Difference{In: p.in, What: what, Message: message, Diff: diff}, at})
}

// json adds a difference between two values of raw JSON.
func (p pair) json(at when, what string, a, b []byte) {
	if bytes.Equal(a, b) {
		return
	}
	diff := unifiedAs("A", pretty(a), "B", pretty(b))
	message := "differs"
	switch {
	case diff == "":
		message = "is the same JSON, written differently"
	case strings.HasSuffix(what, "s"): // params, arguments
		message = "differ"
	}
	p.add(at, what, message, diff)
}

// run compares two runs. offset is the time in the first run at which a nested run began.
func (c *comparer) run(a, b *journal.Record, in string, offset time.Duration) {
	p := pair{c, in, offset}
	if a.Definition.Code != b.Definition.Code {
		p.add(when{phaseInput, 0}, "script", "differs", unifiedAs("A", a.Definition.Code, "B", b.Definition.Code))
	}
	if a.Guest != b.Guest {
		p.add(when{phaseInput, 0}, "guest", fmt.Sprintf("differs: %s in A, %s in B; fuel and memory differ for that reason alone", shortHash(a.Guest), shortHash(b.Guest)), "")
	}
	p.json(when{phaseInput, 0}, "params", a.Params, b.Params)
	p.calls(a, b)
	p.undos(a, b)
	p.logs(a, b)
	p.outcome(a, b)
}

// end returns when the run of A ended.
func (p pair) end(a *journal.Record) when {
	if p.in == "" {
		return when{phaseEnd, 0}
	}
	return when{phaseEnd, a.Duration}
}

// moment returns the time in A for a moment of B without a counterpart in A: just after all events
// of B up to this moment. The times of B are no use, since B can be faster.
func moment(a, b *journal.Record, at time.Duration) time.Duration {
	last := time.Duration(0)
	passed := func(inA, inB time.Duration) {
		if inB <= at {
			last = max(last, inA+1)
		}
	}
	for i := range min(len(a.Calls), len(b.Calls)) {
		x, y := &a.Calls[i], &b.Calls[i]
		passed(x.Start, y.Start)
		if y.Done {
			passed(x.Start+x.Duration, y.Start+y.Duration)
		}
	}
	for i := range min(len(a.Logs), len(b.Logs)) {
		passed(a.Logs[i].At, b.Logs[i].At)
	}
	return last
}

// calls compares the calls in the order in which they were made.
func (p pair) calls(recA, recB *journal.Record) {
	a, b := recA.Calls, recB.Calls
	for i := range max(len(a), len(b)) {
		what := fmt.Sprintf("call %d", i+1)
		switch {
		case i >= len(b):
			p.add(when{phaseSteps, a[i].Start}, what, "is made in A only: "+callLine(a[i].Request), "")
			return
		case i >= len(a):
			p.add(when{phaseSteps, moment(recA, recB, b[i].Start)}, what, "is made in B only: "+callLine(b[i].Request), "")
			return
		}
		x, y := &a[i], &b[i]
		at := when{phaseSteps, x.Start}
		if callName(x.Request) != callName(y.Request) {
			p.add(at, what, fmt.Sprintf("calls %s in A but %s in B", callName(x.Request), callName(y.Request)), "")
			return
		}
		name := what + " of " + callName(x.Request)
		if !bytes.Equal(x.Request.Arguments, y.Request.Arguments) {
			p.json(at, name+": arguments", x.Request.Arguments, y.Request.Arguments)
		} else if text := unifiedAs("A", callText(x.Request), "B", callText(y.Request)); text != "" {
			p.add(at, name+": options", "differ", text)
		}
		p.answer(name, x, y)
	}
}

// answer compares the answers to a call.
func (p pair) answer(name string, a, b *journal.CallRecord) {
	at := when{phaseSteps, a.Start + a.Duration}
	if a.Answer.Run != nil && b.Answer.Run != nil {
		in := name
		if p.in != "" {
			in = p.in + ", " + in
		}
		p.run(a.Answer.Run, b.Answer.Run, in, p.offset+a.Start)
		return
	}
	if a.Done != b.Done {
		p.add(at, name+": answer", map[bool]string{true: "is missing in B", false: "is missing in A"}[a.Done], "")
		return
	}
	x, y := answerText(&a.Answer), answerText(&b.Answer)
	if x != y {
		p.add(at, name+": answer", "differs", unifiedAs("A", x, "B", y))
	}
}

// answerText formats an answer in the form received by the script, on several lines.
func answerText(a *journal.Answer) string {
	if a.Err != nil {
		return fmt.Sprintf("%s error: %s\n", a.Err.Type, a.Err.Message)
	}
	return pretty(a.Value) + "\n"
}

// undos compares the registered compensations.
func (p pair) undos(a, b *journal.Record) {
	lines := func(undos []journal.UndoRecord) string {
		var text strings.Builder
		for _, u := range undos {
			text.WriteString(callLine(u.Request) + "\n")
		}
		return text.String()
	}
	if x, y := lines(a.Undos), lines(b.Undos); x != y {
		p.add(p.end(a), "undo", "differs", unifiedAs("A", x, "B", y))
	}
}

// logs adds the first difference of the logs, with a diff of all of them.
func (p pair) logs(recA, recB *journal.Record) {
	a, b := recA.Logs, recB.Logs
	lines := func(logs []journal.Entry) string {
		var text strings.Builder
		for _, e := range logs {
			text.WriteString(logLine(e.Level, e.Text) + "\n")
		}
		return text.String()
	}
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && a[i].Level == b[i].Level && a[i].Text == b[i].Text {
			continue
		}
		at, message := time.Duration(0), "differs"
		switch {
		case i >= len(a):
			at, message = moment(recA, recB, b[i].At), "is in B only"
		case i >= len(b):
			at, message = a[i].At, "is in A only"
		default:
			at = a[i].At
		}
		p.add(when{phaseSteps, at}, fmt.Sprintf("log %d", i+1), message, unifiedAs("A", lines(a), "B", lines(b)))
		return
	}
}

// outcome compares how the runs ended.
func (p pair) outcome(a, b *journal.Record) {
	at := p.end(a)
	if a.OutcomeName() != b.OutcomeName() {
		p.add(at, "outcome", fmt.Sprintf("is %s in A, %s in B", a.OutcomeName(), b.OutcomeName()), unifiedAs("A", endText(a), "B", endText(b)))
	} else if x, y := endText(a), endText(b); x != y {
		p.add(at, "result", "differs", unifiedAs("A", x, "B", y))
	}
	for _, f := range []struct {
		what string
		a, b uint64
	}{{"fuel", recordedFuel(a), recordedFuel(b)}, {"memory", a.Outcome.Memory, b.Outcome.Memory}} {
		if f.a != f.b {
			p.add(at, f.what, fmt.Sprintf("of the run itself is %d in A, %d in B", f.a, f.b), "")
		}
	}
}

// endText formats a result or a failure, on several lines.
func endText(r *journal.Record) string {
	switch {
	case !r.Done:
		return "unfinished\n"
	case r.Outcome.Error == "":
		return pretty(r.Outcome.Result) + "\n"
	case r.Outcome.Error == abi.ErrInternal: // the details contain the run id
		return "internal error\n"
	}
	return fmt.Sprintf("%s error: %s\n", r.Outcome.Error, r.Outcome.Message)
}

// Text returns the comparison for people, without the figures. The text contains text from scripts
// and servers, and is not safe for a terminal.
func (c *Comparison) Text() string {
	var b strings.Builder
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if c.Same {
		b.WriteString("the runs are identical apart from timing\n")
		return b.String()
	}
	writeDifferences(&b, c.Differences, c.More)
	return b.String()
}

// writeDifferences writes the first difference in full, and each further difference in one line.
func writeDifferences(b *strings.Builder, differences []Difference, more int) {
	for i, d := range differences {
		if i == 0 {
			b.WriteString("first difference:\n")
			d.write(b)
			if len(differences) > 1 {
				fmt.Fprintf(b, "and %s more:\n", count(len(differences)-1+more, "difference"))
			}
			continue
		}
		fmt.Fprintf(b, "  %s\n", d.line())
	}
}
