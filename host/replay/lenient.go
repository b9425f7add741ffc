package replay

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// lenient is the tape of code that is not the recorded one. A call gets the answer
// that the same call got; else that of the first other call of the same tool
// that is left; else there is none, and the script ends there. No answer is given
// twice.
type lenient struct {
	*session
	in                   string
	rec                  *journal.Record
	calls, compensations []*candidate
	missing              *abi.ToolCall // the first call without an answer
}

// candidate is a recorded call.
type candidate struct {
	*journal.CallRecord
	used bool
	args []byte // canonical form of the arguments; nil until it is needed
}

func newLenient(s *session, rec *journal.Record, in string) *lenient {
	t := &lenient{session: s, in: in, rec: rec}
	for i := range rec.Calls {
		c := &candidate{CallRecord: &rec.Calls[i]}
		if c.CallRecord.Undo {
			t.compensations = append(t.compensations, c)
		} else {
			t.calls = append(t.calls, c)
		}
	}
	s.runs++
	return t
}

// find is the recorded call whose answer a call gets, and whether it is the same
// call; nil when there is none.
func find(among []*candidate, asked abi.ToolCall) (found *candidate, same bool) {
	want := canonical(asked.Arguments)
	for _, c := range among {
		if c.used || !sameTool(c.CallRecord.Asked, c.Tool, asked) || unanswered(c.CallRecord) {
			continue
		}
		if c.args == nil {
			c.args = canonical(c.CallRecord.Asked.Arguments)
		}
		if bytes.Equal(c.args, want) {
			return c, true
		}
		if found == nil && !ofArguments(c.Answer) {
			found = c
		}
	}
	return found, false
}

// ofArguments tells whether an answer only says that the arguments are wrong.
func ofArguments(a journal.Answer) bool {
	return a.Err != nil && a.Err.Type == abi.ErrValidation && a.Result == nil && a.RPCError == nil && a.Run == nil
}

// sameTool tells whether a call means the tool of a recorded one, whose real name
// is known too.
func sameTool(recorded abi.ToolCall, real string, asked abi.ToolCall) bool {
	if recorded.Server != asked.Server {
		return false
	}
	return asked.Tool == recorded.Tool || asked.Tool == real || !asked.Exact && asked.Tool == abi.Ident(real)
}

// sameJSON tells whether two JSON values are the same up to white space and the
// order of members.
func sameJSON(a, b []byte) bool { return bytes.Equal(canonical(a), canonical(b)) }

// canonical is a JSON value without white space, with members in order; what is
// no JSON stays. It is not nil.
func canonical(raw []byte) []byte {
	v := append(jsontext.Value{}, raw...)
	if v.Compact(jsontext.ReorderRawObjects(true)) != nil {
		return append([]byte{}, raw...)
	}
	return v
}

// Calls implements compose.Tape.
func (t *lenient) Calls(asked []abi.ToolCall) []compose.Played {
	played := make([]compose.Played, len(asked))
	for i, call := range asked {
		found, same := find(t.calls, call)
		if found == nil || t.missing != nil {
			t.miss(call)
			played[i] = compose.Played{Server: call.Server, Tool: call.Tool, Answer: journal.Answer{Err: &abi.CallError{
				Type: abi.ErrPermission, Server: call.Server, Tool: call.Tool, Message: "replay: the record has no answer to this call"}}}
			continue
		}
		found.used = true
		t.session.calls++
		if !same {
			t.note(t.in, fmt.Sprintf("%s is answered with the answer to call %d, %s", callLine(call), found.Seq, callLine(found.CallRecord.Asked)))
		}
		played[i] = t.play(found, call, same)
	}
	return played
}

func (t *lenient) miss(call abi.ToolCall) {
	if t.missing == nil {
		t.missing = &call
	}
}

// play gives a recorded answer to a call; of a saved tool, it is run anew if it
// was asked something else.
func (t *lenient) play(c *candidate, call abi.ToolCall, same bool) compose.Played {
	p := compose.Played{Server: c.Server, Tool: c.Tool, Answer: c.Answer, Anew: true}
	run := c.Answer.Run
	if run == nil || c.Server != abi.Composites {
		return p
	}
	in := fmt.Sprintf("call of %s.%s", c.Server, c.Tool)
	if t.in != "" {
		in = t.in + ", " + in
	}
	if same {
		p.Anew = call.Raw != c.CallRecord.Asked.Raw
		p.Run = t.session.takeOf(run, newStrict(t.session, run, in))
		return p
	}
	p.Run = &compose.Take{Begin: t.session.begin(run.Begin), Tape: newLenient(t.session, run, in)}
	return p
}

// Undo implements compose.Tape.
func (t *lenient) Undo(asked abi.ToolCall) (server, tool string, failed *abi.CallError) {
	t.undos++
	var known *journal.UndoRecord
	for i := range t.rec.Undos {
		if u := &t.rec.Undos[i]; sameTool(u.Asked, u.Tool, asked) {
			if known = u; sameJSON(u.Asked.Arguments, asked.Arguments) {
				return u.Server, u.Tool, u.Err
			}
		}
	}
	if known != nil {
		return known.Server, known.Tool, nil
	}
	for _, c := range t.calls {
		if sameTool(c.CallRecord.Asked, c.Tool, asked) {
			return c.Server, c.Tool, nil
		}
	}
	t.note(t.in, "undo of "+callLine(asked)+": the record does not know this tool; it is taken as if it were right")
	return asked.Server, asked.Tool, nil
}

// Compensation implements compose.Tape.
func (t *lenient) Compensation(asked abi.ToolCall, server, tool string) journal.Answer {
	if found, _ := find(t.compensations, asked); found != nil && (found.Answer.Err != nil || found.Answer.Value != nil) {
		found.used = true
		t.undone++
		return found.Answer
	}
	return journal.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: server, Tool: tool, Message: "replay: the record has no answer to this call"}}
}

// Log implements compose.Tape.
func (t *lenient) Log(abi.LogLevel, string) { t.logs++ }

// End implements compose.Tape. A saved tool without an answer ends its caller too,
// which has to say why.
func (t *lenient) End(replayed journal.Record) {
	if t.missing != nil && t.in != "" {
		t.note(t.in, "the record has no answer to "+callLine(*t.missing))
	}
}

// judge completes the report on changed code.
func (r *Report) judge(t *lenient, rec, replayed *journal.Record) {
	r.Missing = t.missing
	r.Verdict = Failed
	if r.Missing == nil && replayed.Outcome.Error == "" {
		r.Verdict = Succeeded
	}
	if replayed.Outcome.Error != "" {
		r.Position = position(replayed.Outcome.Failure)
	}
	for _, d := range []Difference{
		{What: "calls", Diff: unified(lines(r.Recorded.Calls), lines(r.Replayed.Calls))},
		{What: "logs", Diff: unified(lines(r.Recorded.Logs), lines(r.Replayed.Logs))},
		{What: "outcome", Diff: unified(outcomeText(rec), outcomeText(replayed))},
	} {
		if d.Diff != "" {
			d.Message = "differ"
			r.Differences = append(r.Differences, d)
		}
	}
}

func lines(all []string) string { return strings.Join(all, "\n") }

func outcomeText(rec *journal.Record) string {
	switch {
	case !rec.Done:
		return "none: the run did not end"
	case rec.Outcome.Error != "":
		text := fmt.Sprintf("%s error: %s\n", rec.Outcome.Error, rec.Outcome.Message)
		if p := position(rec.Outcome.Failure); p != nil {
			text += fmt.Sprintf("at %s:%d:%d\n", p.File, p.Line, p.Column)
		}
		return text
	}
	return "result " + pretty(rec.Outcome.Result)
}

// writeChanged is Text for changed code.
func (r *Report) writeChanged(b *strings.Builder) {
	switch {
	case r.Missing != nil:
		fmt.Fprintf(b, "the changed code makes a call that the record has no answer for: %s\n", callLine(*r.Missing))
		writePosition(b, r.Position)
	case r.Verdict == Failed:
		message, _ := wire.GetString(r.Replayed.Failure, "message")
		fmt.Fprintf(b, "%s error: %s\n", r.Replayed.Outcome, message)
		writePosition(b, r.Position)
	default:
		fmt.Fprintf(b, "result:\n%s\n", pretty(r.Replayed.Result))
	}
	if len(r.Replayed.Logs) > 0 {
		fmt.Fprintf(b, "logs:\n  %s\n", strings.Join(r.Replayed.Logs, "\n  "))
	}
	fmt.Fprintf(b, "%d units of fuel (recorded %d), %d bytes of memory at most (recorded %d); replayed in %v\n",
		r.Replayed.Fuel, r.Recorded.Fuel, r.Replayed.Memory, r.Recorded.Memory, r.Elapsed.Round(time.Microsecond))
	for _, d := range r.Differences {
		fmt.Fprintf(b, "%s, against the record:\n", d.What)
		for line := range strings.Lines(d.Diff) {
			b.WriteString("  " + line)
		}
	}
}
