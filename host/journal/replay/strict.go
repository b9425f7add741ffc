package replay

import (
	"bytes"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// strict is the compose.Recording for recorded code. A strict gives the recorded answers in order,
// and compares each step with the record.
type strict struct {
	*session
	rec *journal.Record
	in  string // see Difference.In; "" for the run itself

	calls, compensations []*journal.CallRecord
	// The replayed steps of each kind.
	call, compensation, undo, log int

	// diverged is the first call that differs from the record; later steps cannot be compared.
	// ended is set after the end of an unfinished record.
	diverged *Difference
	ended    bool
	// undoing is set while compensations are made after the end of the script.
	undoing bool
	// extendable is set if the replay may take more steps than the record has: the run did not end,
	// or was stopped at an incomparable amount of fuel.
	extendable bool

	match matcher
	// sameFuel is set if fuel and memory must be the same: the guest is the same, and neither the
	// run nor nested runs are redacted.
	sameFuel bool
}

func newStrict(s *session, rec *journal.Record, in string) *strict {
	t := &strict{session: s, rec: rec, in: in}
	for i := range rec.Calls {
		if c := &rec.Calls[i]; c.Undo {
			t.compensations = append(t.compensations, c)
		} else {
			t.calls = append(t.calls, c)
		}
	}
	redacted := rec.Any(func(r *journal.Record) bool { return r.Redacted })
	t.match = matcher{redacted, &s.excused}
	t.sameFuel = s.sameGuest && !redacted
	stop := stopOf(rec)
	t.extendable = !rec.Done || stop != nil && !stop.Waiting && !t.sameFuel
	s.runs++
	return t
}

// Calls implements compose.Recording.
func (t *strict) Calls(requests []abi.ToolCall) []compose.ReplayedCall {
	replayed := make([]compose.ReplayedCall, len(requests))
	for i, call := range requests {
		if t.follows(call) {
			replayed[i] = t.answer(t.calls[t.call])
			t.call++
			t.session.calls++
		}
	}
	if t.diverged != nil || t.ended {
		for i := range replayed {
			replayed[i] = compose.ReplayedCall{Server: requests[i].Server, Tool: requests[i].Tool, Answer: journal.Answer{Err: t.refusal(requests[i])}}
		}
	}
	return replayed
}

// follows reports whether call is the next call in the record. If not, follows sets diverged or
// ended.
func (t *strict) follows(call abi.ToolCall) bool {
	what := fmt.Sprintf("call %d", t.call+1)
	switch {
	case t.diverged != nil || t.ended:
		return false
	case t.call == len(t.calls) && t.extendable:
		t.ended = true
	case t.call == len(t.calls):
		t.diverge(Difference{What: what, Message: "was not recorded: " + callLine(call)})
	case !t.match.call(t.calls[t.call].Request, call):
		t.diverge(differCall(what, t.calls[t.call].Request, call))
	default:
		return true
	}
	return false
}

// diverge records the difference after which nothing can be compared.
func (t *strict) diverge(d Difference) {
	t.differ(d)
	t.diverged = &d
}

// refusal returns the error for a call without a recorded answer. Scripts cannot catch the error,
// so the script ends at the call.
func (t *strict) refusal(c abi.ToolCall) *abi.CallError {
	message := "replay: the record has no answer to this call"
	if t.ended {
		message = "replay: the record ends before this call"
	}
	return &abi.CallError{Type: abi.ErrPermission, Server: c.Server, Tool: c.Tool, Message: message}
}

// answer returns the recorded answer to a recorded call.
func (t *strict) answer(c *journal.CallRecord) compose.ReplayedCall {
	p := compose.ReplayedCall{Server: c.Server, Tool: c.Tool, Answer: c.Answer, Unanswered: unanswered(c)}
	if p.Unanswered && !t.rec.Done {
		t.ended = true
	}
	if c.Answer.Run != nil && c.Server == abi.Composites {
		in := fmt.Sprintf("call %d (%s.%s)", c.Seq, c.Server, c.Tool)
		if t.in != "" {
			in = t.in + ", " + in
		}
		p.Run = t.session.replayRun(c.Answer.Run, newStrict(t.session, c.Answer.Run, in))
	}
	return p
}

// Undo implements compose.Recording.
func (t *strict) Undo(request abi.ToolCall) (server, tool string, failed *abi.CallError) {
	what := fmt.Sprintf("undo %d", t.undo+1)
	switch {
	case t.diverged != nil || t.ended:
	case t.undo == len(t.rec.Undos) && t.extendable:
		t.ended = true
	case t.undo == len(t.rec.Undos):
		t.diverge(Difference{What: what, Message: "was not recorded: " + callLine(request)})
	case !t.match.call(t.rec.Undos[t.undo].Request, request):
		t.diverge(differCall(what, t.rec.Undos[t.undo].Request, request))
	default:
		u := &t.rec.Undos[t.undo]
		t.undo++
		t.undos++
		return u.Server, u.Tool, u.Err
	}
	return request.Server, request.Tool, t.refusal(request)
}

// Compensation implements compose.Recording.
func (t *strict) Compensation(request abi.ToolCall, server, tool string) journal.Answer {
	t.undoing = t.undoing || t.diverged == nil && !t.ended
	what := fmt.Sprintf("compensation %d", t.compensation+1)
	switch {
	case t.diverged != nil || t.ended || t.extendable && t.compensation == len(t.compensations):
		t.ended = t.ended || t.diverged == nil
	case t.compensation == len(t.compensations):
		t.diverge(Difference{What: what, Message: "was not recorded: " + callLine(request)})
	case !t.match.call(t.compensations[t.compensation].Request, request):
		t.diverge(differCall(what, t.compensations[t.compensation].Request, request))
	default:
		c := t.compensations[t.compensation]
		t.compensation++
		t.undone++
		if c.Done && (c.Answer.Err != nil || c.Answer.Value != nil) {
			return c.Answer
		}
	}
	return journal.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: server, Tool: tool, Message: "replay: the record has no answer to this call"}}
}

// Log implements compose.Recording.
func (t *strict) Log(level abi.LogLevel, text string) {
	if t.diverged != nil || t.ended {
		return
	}
	t.log++
	t.logs++
	what := fmt.Sprintf("log %d", t.log)
	switch {
	case t.log <= len(t.rec.Logs):
		if e := t.rec.Logs[t.log-1]; e.Level != level || !t.match.text(e.Text, text) {
			t.differ(Difference{What: what, Message: "differs", Diff: unified(logLine(e.Level, e.Text), logLine(level, text))})
		}
	case !t.extendable:
		t.differ(Difference{What: what, Message: "was not recorded: " + display.ClipSize(logLine(level, text), maxShort)})
	}
}

// differ adds a difference of this run.
func (t *strict) differ(d Difference) {
	d.In = t.in
	t.add(d)
}

// End implements compose.Recording.
func (t *strict) End(replayed journal.Record) {
	switch {
	case t.diverged != nil && !t.undoing:
		t.cut = t.cut || t.in == ""
		t.locate(*t.diverged, t.in, position(replayed.Outcome.Failure))
		return
	case t.diverged != nil:
		return
	case !t.rec.Done:
		t.unfinished(&replayed)
		return
	}
	t.stopped()
	if t.ended {
		return
	}
	if !t.extendable {
		t.missing()
	}
	t.outcome(t.rec.Outcome, replayed)
	t.figures(&replayed)
}

// missing adds the recorded steps missing in the replay.
func (t *strict) missing() {
	for _, c := range t.calls[t.call:] {
		t.differ(Difference{What: fmt.Sprintf("call %d", c.Seq), Message: "is not made, recorded was " + callLine(c.Request)})
	}
	for i, u := range t.rec.Undos[t.undo:] {
		t.differ(Difference{What: fmt.Sprintf("undo %d", t.undo+i+1), Message: "is not asked for, recorded was " + callLine(u.Request)})
	}
	for i, e := range t.rec.Logs[min(t.log, len(t.rec.Logs)):] {
		t.differ(Difference{What: fmt.Sprintf("log %d", t.log+i+1), Message: "is missing, recorded was " + display.ClipSize(logLine(e.Level, e.Text), maxShort)})
	}
	for i, c := range t.compensations[t.compensation:] {
		t.differ(Difference{What: fmt.Sprintf("compensation %d", t.compensation+i+1), Message: "is not made, recorded was " + callLine(c.Request)})
	}
}

// outcome compares how the runs ended.
func (t *strict) outcome(recorded journal.Outcome, replayed journal.Record) {
	got := replayed.Outcome
	switch {
	case recorded.Error == "" && got.Error == "":
		if !t.match.json(recorded.Result, got.Result) {
			t.differ(differJSON("result", recorded.Result, got.Result))
		}
	case recorded.Error == "":
		t.differ(Difference{What: "outcome", Message: "is a failure, recorded was a result", Position: position(got.Failure),
			Diff: unified(pretty(recorded.Result), pretty(got.Failure))})
	case got.Error == "":
		t.differ(Difference{What: "outcome", Message: "is a result, recorded was a failure", Position: position(recorded.Failure),
			Diff: unified(pretty(recorded.Failure), pretty(got.Result))})
	default:
		if recorded.Error == abi.ErrInternal { // the only error with the run id
			got.Failure = bytes.ReplaceAll(got.Failure, []byte(replayed.ID), []byte(t.rec.ID))
		}
		want, have := t.withoutFigures(recorded.Failure), t.withoutFigures(got.Failure)
		if recorded.Error != got.Error || !t.match.json(want, have) {
			d := differJSON("failure", want, have)
			d.Position = position(got.Failure)
			t.differ(d)
		}
	}
}

// withoutFigures returns a failure without the figures, which are compared separately.
func (t *strict) withoutFigures(failure []byte) []byte {
	names := []string{"fuel"}
	if !t.sameFuel {
		names = append(names, "used")
	}
	for _, name := range names {
		if without, err := wire.Delete(failure, "details", name); err == nil {
			failure = without
		}
	}
	return failure
}

// figures compares the fuel and memory of the run itself. With a different guest or redacted parts,
// a difference is only a note.
func (t *strict) figures(replayed *journal.Record) {
	used := replayed.Outcome.Fuel
	if t.in == "" {
		used = withoutBelow(replayed)
	}
	for _, f := range []struct {
		what               string
		recorded, replayed uint64
	}{
		{"fuel", recordedFuel(t.rec), used},
		{"memory", t.rec.Outcome.Memory, replayed.Outcome.Memory},
	} {
		switch {
		case f.recorded == f.replayed:
		case f.what == "memory" && f.recorded == 0:
			t.note(t.in, "the memory was not recorded: the process of the script died, and another process undid the calls")
		case t.sameFuel:
			t.differ(Difference{What: f.what, Message: fmt.Sprintf("is %d, recorded was %d", f.replayed, f.recorded)})
		case t.sameGuest:
			t.match.excuse(true)
			t.note(t.in, fmt.Sprintf("%s is %d, recorded was %d: the redaction may be the reason", f.what, f.replayed, f.recorded))
		default:
			t.note(t.in, fmt.Sprintf("%s is %d, recorded was %d: with another guest, the difference means nothing", f.what, f.replayed, f.recorded))
		}
	}
}

// stopped notes the extent of the comparison of a stopped run.
func (t *strict) stopped() {
	stop := stopOf(t.rec)
	switch {
	case stop == nil:
	case stop.Waiting:
		t.note(t.in, fmt.Sprintf("ended by %s while waiting for an answer: compared up to this point", stopCause(t.rec)))
	case stop.Fuel == 0:
		t.note(t.in, fmt.Sprintf("ended by %s before the script began: nothing to compare", stopCause(t.rec)))
	default:
		t.note(t.in, fmt.Sprintf("ended by %s after %d units of fuel: compared up to this point", stopCause(t.rec), stop.Fuel))
	}
}

// stopCause returns the reason why a run was stopped.
func stopCause(rec *journal.Record) string {
	switch rec.Outcome.Error {
	case abi.ErrTimeout:
		return "time"
	case abi.ErrCancelled:
		return "cancellation"
	}
	return "the limit on waiting runs"
}

// unfinished notes how the replay of an unfinished run continued.
func (t *strict) unfinished(replayed *journal.Record) {
	switch {
	case t.ended && !t.undoing:
		t.short = t.short || t.in == ""
		t.note(t.in, "the recorded run did not end: replayed up to the end of the record")
	case replayed.Outcome.Error == "":
		t.note(t.in, "the recorded run did not end; replayed, it ends with the result "+display.ClipSize(string(replayed.Outcome.Result), maxShort))
	default:
		t.note(t.in, "the recorded run did not end; replayed, it fails: "+display.ClipSize(replayed.Outcome.Message, maxShort))
	}
}
