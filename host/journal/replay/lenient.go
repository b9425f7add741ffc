package replay

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// lenient is the compose.Recording for changed code. A call gets the recorded answer to the same
// call, or else the first unused answer to another call of the same tool. Without an unused answer,
// the script ends. Each answer is used once.
type lenient struct {
	*session
	in                   string
	rec                  *journal.Record
	calls, compensations []*candidate
	missing              *abi.ToolCall // the first call without an answer
	undoable             bool          // a compensation is registered and not committed
}

// candidate is a recorded call.
type candidate struct {
	*journal.CallRecord
	used bool
	args []byte // canonical arguments; nil until needed
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

// find returns the recorded call with the answer for request, or nil, and whether the call is the
// same.
func find(among []*candidate, request abi.ToolCall) (found *candidate, same bool) {
	want := canonical(request.Arguments)
	for _, c := range among {
		if c.used || !sameTool(c.CallRecord.Request, c.Tool, request) || unanswered(c.CallRecord) {
			continue
		}
		if c.args == nil {
			c.args = canonical(c.CallRecord.Request.Arguments)
		}
		if bytes.Equal(c.args, want) {
			return c, true
		}
		if found == nil && !rejectsArguments(c.Answer) {
			found = c
		}
	}
	return found, false
}

// rejectsArguments reports whether an answer is an error about the arguments.
func rejectsArguments(a journal.Answer) bool {
	return a.Err != nil && a.Err.Type == abi.ErrValidation && a.Result == nil && a.RPCError == nil && a.Run == nil
}

// sameTool reports whether request is a call of the recorded tool, by the name in the script or by
// the real name.
func sameTool(recorded abi.ToolCall, real string, request abi.ToolCall) bool {
	if recorded.Server != request.Server {
		return false
	}
	return request.Tool == recorded.Tool || request.Tool == real || !request.Exact && request.Tool == abi.Ident(real)
}

// sameJSON reports whether two JSON values differ at most in white space and in the
// order of members.
func sameJSON(a, b []byte) bool { return bytes.Equal(canonical(a), canonical(b)) }

// canonical returns a JSON value without white space and with sorted members. Invalid JSON stays
// unchanged. The result is never nil.
func canonical(raw []byte) []byte {
	v := append(jsontext.Value{}, raw...)
	if v.Compact(jsontext.ReorderRawObjects(true)) != nil {
		return append([]byte{}, raw...)
	}
	return v
}

// Calls implements compose.Recording.
func (t *lenient) Calls(requests []abi.ToolCall) []compose.ReplayedCall {
	replayed := make([]compose.ReplayedCall, len(requests))
	for i, call := range requests {
		found, same := find(t.calls, call)
		if found == nil || t.missing != nil {
			t.miss(call)
			replayed[i] = compose.ReplayedCall{Server: call.Server, Tool: call.Tool, Answer: journal.Answer{Err: &abi.CallError{
				Type: abi.ErrPermission, Server: call.Server, Tool: call.Tool, Message: "replay: the record has no answer to this call"}}}
			continue
		}
		found.used = true
		t.session.calls++
		if !same {
			t.note(t.in, fmt.Sprintf("%s is answered with the answer to call %d, %s", callLine(call), found.Seq, callLine(found.CallRecord.Request)))
		}
		replayed[i] = t.answer(found, call, same)
	}
	return replayed
}

func (t *lenient) miss(call abi.ToolCall) {
	if t.missing == nil {
		t.missing = &call
	}
}

// answer returns a recorded answer to a call. A saved tool runs with a lenient recording of its own
// if the call differs from the recorded call.
func (t *lenient) answer(c *candidate, call abi.ToolCall, same bool) compose.ReplayedCall {
	p := compose.ReplayedCall{Server: c.Server, Tool: c.Tool, Answer: c.Answer, Recompute: true}
	run := c.Answer.Run
	if run == nil || c.Server != abi.Composites {
		return p
	}
	in := fmt.Sprintf("call of %s.%s", c.Server, c.Tool)
	if t.in != "" {
		in = t.in + ", " + in
	}
	if same {
		p.Recompute = call.Raw != c.CallRecord.Request.Raw
		p.Run = t.session.replayRun(run, newStrict(t.session, run, in))
		return p
	}
	p.Run = &compose.ReplayRun{Begin: t.session.begin(run.Begin), Recording: newLenient(t.session, run, in)}
	return p
}

// Undo implements compose.Recording.
func (t *lenient) Undo(request abi.ToolCall) (server, tool string, failed *abi.CallError) {
	t.undos++
	t.undoable = true
	t.step(callWithOptions(request))
	var known *journal.UndoRecord
	for i := range t.rec.Undos {
		if u := &t.rec.Undos[i]; sameTool(u.Request, u.Tool, request) {
			if known = u; sameJSON(u.Request.Arguments, request.Arguments) {
				return u.Server, u.Tool, u.Err
			}
		}
	}
	if known != nil {
		return known.Server, known.Tool, nil
	}
	for _, c := range t.calls {
		if sameTool(c.CallRecord.Request, c.Tool, request) {
			return c.Server, c.Tool, nil
		}
	}
	t.note(t.in, "undo of "+callLine(request)+": the record does not know this tool; the undo is accepted as valid")
	return request.Server, request.Tool, nil
}

// step adds a step about compensations.
func (t *lenient) step(text string) {
	if t.in != "" {
		text = t.in + ": " + text
	}
	t.undoing = append(t.undoing, text)
}

// Commit implements an optional method of a compose.Recording in package compose.
func (t *lenient) Commit() {
	if t.undoable {
		t.undoable = false
		t.step("commit()")
	}
}

// Compensation implements compose.Recording.
func (t *lenient) Compensation(request abi.ToolCall, server, tool string) journal.Answer {
	if found, _ := find(t.compensations, request); found != nil && (found.Answer.Err != nil || found.Answer.Value != nil) {
		found.used = true
		t.undone++
		return found.Answer
	}
	return journal.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: server, Tool: tool, Message: "replay: the record has no answer to this call"}}
}

// Log implements compose.Recording.
func (t *lenient) Log(abi.LogLevel, string) { t.logs++ }

// End implements compose.Recording. If a saved tool ends because of a missing answer, so does the
// caller, and the note gives the reason.
func (t *lenient) End(replayed journal.Record) {
	if t.missing != nil && t.in != "" {
		t.note(t.in, "the record has no answer to "+callLine(*t.missing))
	}
}

// complete fills in the report for changed code. before is the recording with which the recorded
// code was run.
func (r *Report) complete(t, before *lenient, rec, replayed *journal.Record) {
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
		{What: "undo", Diff: unified(lines(before.undoing), lines(t.undoing))},
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

// writeChanged writes the text of a report for changed code.
func (r *Report) writeChanged(b *strings.Builder) {
	switch {
	case r.Missing != nil:
		fmt.Fprintf(b, "the record has no answer for a call of the changed code: %s\n", callLine(*r.Missing))
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
