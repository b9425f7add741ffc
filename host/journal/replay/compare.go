package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
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

// Difference is a difference between a replay and the record.
type Difference struct {
	// In is the call of the saved tool with the differing run, for example "call 3 (tools.x)"; ""
	// for the run itself.
	In string `json:"in,omitempty"`
	// What is the differing part: "call 3", "log 2", "undo 1", "compensation 1", "result",
	// "failure", "outcome", "fuel", "memory".
	What string `json:"what"`
	// Message describes the difference.
	Message string `json:"message"`
	// Diff is a unified diff of readable JSON or text; "" if Message is enough.
	Diff string `json:"diff,omitempty"`
	// Position is the position in the script, nil if unknown.
	Position *abi.Position `json:"position,omitempty"`
}

// Limits of the shown text.
const (
	maxDifferences = 100
	maxDiffInput   = 1 << 20 // bytes of each side
	maxDiffLines   = 200
	maxDiffLine    = 400 // bytes
	maxShort       = 200 // bytes of a value in a message
)

// unified returns the unified diff of two texts.
func unified(recorded, replayed string) string {
	return unifiedAs("recorded", recorded, "replayed", replayed)
}

// unifiedAs is unified with other names.
func unifiedAs(nameA, a, nameB, b string) string {
	if len(a) > maxDiffInput || len(b) > maxDiffInput {
		return fmt.Sprintf("(%d and %d bytes, too many for a diff; the first that differs is number %d)\n",
			len(a), len(b), 1+commonPrefix(a, b))
	}
	line := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(strings.TrimSuffix(s, "\n") + "\n")
	}
	text := diff.Diff(nameA, line(a), nameB, line(b))
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 2 {
		return ""
	}
	var out strings.Builder
	for i, l := range lines[1:] { // without the line "diff recorded replayed"
		if i == maxDiffLines {
			fmt.Fprintf(&out, "(%d lines more)\n", len(lines)-1-i)
			break
		}
		out.WriteString(display.ClipSize(l, maxDiffLine) + "\n")
	}
	return out.String()
}

// commonPrefix returns the length of the common prefix of two texts, in bytes.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// pretty indents JSON. Numbers and the order of members stay as they are, and so does
// invalid JSON.
func pretty(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// differJSON returns the difference between two JSON values.
func differJSON(what string, recorded, replayed []byte) Difference {
	d := Difference{What: what, Message: "differs", Diff: unified(pretty(recorded), pretty(replayed))}
	if d.Diff == "" {
		d.Message = fmt.Sprintf("is the same JSON, written differently: recorded %s, replayed %s",
			display.ClipSize(string(recorded), maxShort), display.ClipSize(string(replayed), maxShort))
	}
	return d
}

// callText formats a call in the syntax of scripts, on several lines.
func callText(c abi.ToolCall) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", callName(c))
	for _, flag := range []struct {
		name string
		set  bool
	}{{"exact", c.Exact}, {"raw", c.Raw}} {
		if flag.set {
			fmt.Fprintf(&b, "%s: true\n", flag.name)
		}
	}
	if c.Timeout != 0 {
		fmt.Fprintf(&b, "timeout: %v\n", c.Timeout)
	}
	if len(c.Meta) > 0 {
		fmt.Fprintf(&b, "meta: %s\n", pretty(c.Meta))
	}
	fmt.Fprintf(&b, "arguments: %s\n", pretty(c.Arguments))
	return b.String()
}

func callName(c abi.ToolCall) string { return c.Server + "." + c.Tool }

// callLine formats a call on a line.
func callLine(c abi.ToolCall) string {
	return fmt.Sprintf("%s(%s)", callName(c), display.ClipSize(string(c.Arguments), maxShort))
}

// callWithOptions formats a complete call on one line, with the options that affect the server or
// the answer.
func callWithOptions(c abi.ToolCall) string {
	line := callName(c)
	if c.Raw {
		line += ".raw"
	}
	line += "(" + string(c.Arguments) + ")"
	if c.Timeout != 0 {
		line += fmt.Sprintf(", timeout %v s", c.Timeout)
	}
	if len(c.Meta) > 0 {
		line += ", meta " + string(c.Meta)
	}
	return line
}

// differCall returns the difference between two calls.
func differCall(what string, recorded, replayed abi.ToolCall) Difference {
	d := Difference{What: what, Diff: unified(callText(recorded), callText(replayed))}
	switch {
	case callName(recorded) != callName(replayed):
		d.Message = fmt.Sprintf("is of %s, recorded was %s", callName(replayed), callName(recorded))
	case d.Diff == "":
		d.Message = fmt.Sprintf("of %s has the same arguments, written differently: recorded %s, replayed %s", callName(replayed),
			display.ClipSize(string(recorded.Arguments), maxShort), display.ClipSize(string(replayed.Arguments), maxShort))
	case !bytes.Equal(recorded.Arguments, replayed.Arguments):
		d.Message = "of " + callName(replayed) + " has other arguments"
	default:
		d.Message = "of " + callName(replayed) + " is made with other options"
	}
	return d
}

// levels are the names of log levels.
var levels = map[abi.LogLevel]string{abi.LogInfo: "info", abi.LogWarn: "warning", abi.LogError: "error"}

func logLine(level abi.LogLevel, text string) string { return levels[level] + ": " + text }

// matcher compares recorded values with values of a replay. In a redacted record, a masked part
// matches any text.
type matcher struct {
	redacted bool
	excused  *bool // set if a value matched only because of a mask
}

// text reports whether two texts match.
func (m matcher) text(recorded, replayed string) bool {
	return recorded == replayed || m.redacted && m.excuse(matchMasked(recorded, replayed))
}

// json reports whether two raw JSON values match.
func (m matcher) json(recorded, replayed []byte) bool {
	if bytes.Equal(recorded, replayed) {
		return true
	}
	if !m.redacted || !bytes.Contains(recorded, []byte(journal.Masked)) {
		return false
	}
	a, okA := decoded(recorded)
	b, okB := decoded(replayed)
	return okA && okB && m.excuse(matchValue(a, b))
}

// call reports whether two calls match.
func (m matcher) call(recorded, replayed abi.ToolCall) bool {
	return recorded.Exact == replayed.Exact && recorded.Raw == replayed.Raw && recorded.Timeout == replayed.Timeout &&
		m.text(recorded.Server, replayed.Server) && m.text(recorded.Tool, replayed.Tool) &&
		m.json(recorded.Meta, replayed.Meta) && m.json(recorded.Arguments, replayed.Arguments)
}

func (m matcher) excuse(matches bool) bool {
	*m.excused = *m.excused || matches
	return matches
}

// maskedName matches the text of a redactor in place of a name or a part of a name: the second
// masked name in an object has a number, and so on.

var maskedName = regexp.MustCompile(regexp.QuoteMeta(journal.Masked) + "[0-9]*")

// matchMasked reports whether replayed equals recorded, with any text in place of the
// masked parts.
func matchMasked(recorded, replayed string) bool {
	return matchParts(strings.Split(recorded, journal.Masked), replayed)
}

// matchParts reports whether text consists of the parts with any text between them.
func matchParts(parts []string, text string) bool {
	last := len(parts) - 1
	if last == 0 {
		return text == parts[0]
	}
	text, found := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:last] {
		if found {
			_, text, found = strings.Cut(text, part)
		}
	}
	return found && strings.HasSuffix(text, parts[last])
}

// matchValue is like matchMasked for decoded JSON. Redacted numbers are strings in the
// record.
func matchValue(recorded, replayed any) bool {
	switch a := recorded.(type) {
	case string:
		switch b := replayed.(type) {
		case string:
			return matchMasked(a, b)
		case json.Number:
			return a == journal.Masked
		}
		return false
	case []any:
		b, ok := replayed.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !matchValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := replayed.(map[string]any)
		return ok && matchMembers(a, b)
	}
	return recorded == replayed
}

// maxMaskedNames limits the members with masked names in an object, since each is compared with all
// remaining members.
const maxMaskedNames = 100

// matchMembers compares objects. A member with a masked name matches any remaining member
// with a matching value.
func matchMembers(recorded, replayed map[string]any) bool {
	if len(recorded) != len(replayed) {
		return false
	}
	var hidden []string // masked recorded names
	left := maps.Clone(replayed)
	for name, value := range recorded {
		other, same := replayed[name]
		switch {
		case same && matchValue(value, other):
			delete(left, name)
		case strings.Contains(name, journal.Masked):
			hidden = append(hidden, name)
		default:
			return false
		}
	}
	if len(hidden) > maxMaskedNames {
		return false
	}
	for _, name := range hidden {
		parts := maskedName.Split(name, -1)
		found := false
		for other, value := range left {
			if found = matchParts(parts, other) && matchValue(recorded[name], value); found {
				delete(left, other)
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// decoded returns a JSON value with numbers as written. The value may be large: replays have the
// process for themselves.
func decoded(raw []byte) (v any, ok bool) {
	t, err := jsonvalue.Options{Room: jsonvalue.Alone}.Decode(raw)
	if err != nil {
		return nil, false
	}
	return t.Value, true
}
