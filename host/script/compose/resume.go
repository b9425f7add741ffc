package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// resumed is the part of a run that continues another run. The script runs again from the
// beginning. The answered calls get the same answers and are not made. The unanswered calls are
// made, and the questions of servers during these calls are answered with the client's answers. So
// the fuel and the calls of all rounds count. A run can be continued once.
type resumed struct {
	rec     *journal.Record               // of the run before; shared, so rec is not changed
	state   *durable.State                // from the log of a durable run; nil for another run
	answers map[string][]byte             // of the client, by the names of the questions
	inputs  map[int][]journal.InputRecord // of rec by call, with the answers
	next    int                           // index of the next call in rec
	// nextUndo is the index of the next compensation in rec.
	nextUndo   int
	nextUndone int  // index in rec.Calls of the next compensation that was made
	live       bool // the script has passed the calls of the run before
}

func newResumed(rec *journal.Record, answers map[string][]byte) *resumed {
	s := &resumed{rec: rec, answers: answers, inputs: map[int][]journal.InputRecord{}}
	for _, in := range rec.Inputs {
		if in.Answer == nil {
			in.Answer = answers[in.Name]
		}
		s.inputs[in.Call] = append(s.inputs[in.Call], in)
	}
	return s
}

// firstOf returns the id of the first run in the chain of a run.
func firstOf(rec *journal.Record) string { return cmp.Or(rec.First, rec.ID) }

// knownAnswers returns the questions of servers during repeated calls, in this run and the runs
// below, and the questions that may have been asked during these calls.
func (s *resumed) knownAnswers() []*knownAnswer {
	if s == nil {
		return nil
	}
	var all []*knownAnswer
	for i := range s.rec.Calls {
		c := &s.rec.Calls[i]
		if c.Answer.Run != nil {
			all = append(all, newResumed(c.Answer.Run, s.answers).knownAnswers()...)
			continue
		}
		for _, in := range s.inputs[c.Seq] {
			if in.Unsure || !stack.AnsweredBefore(c) {
				all = append(all, &knownAnswer{InputRecord: in, run: s.rec.ID, server: c.Server, key: questionKey(in.Own, in.Method, in.Params)})
			}
		}
	}
	return all
}

// silent reports whether the script only repeats the run before, so that the client has got the log
// and the progress already.
func (s *resumed) silent() bool { return s != nil && !s.live }

// take returns the record of the next call; nil if the run before did not make the call.
func (s *resumed) take(call abi.ToolCall) (*journal.CallRecord, error) {
	if !s.more() {
		return nil, nil
	}
	c := &s.rec.Calls[s.next]
	s.next++
	if !sameCall(c.Request, call) {
		return nil, fmt.Errorf("call %d is another one than %s (%s.%s, not %s.%s)",
			s.next, s.since(), call.Server, call.Tool, c.Request.Server, c.Request.Tool)
	}
	return c, nil
}

// more reports whether the run before made more calls.
func (s *resumed) more() bool {
	return s != nil && s.next < len(s.rec.Calls) && !s.rec.Calls[s.next].Undo
}

// since names the point up to which the run repeats the run before, with "before".
func (s *resumed) since() string {
	if s.state != nil {
		return "before its process died"
	}
	return "before the client was asked"
}

// point names the point in the past.
func (s *resumed) point() string {
	if s.state != nil {
		return "the run's process died"
	}
	return "the client was asked"
}

func sameCall(a, b abi.ToolCall) bool {
	return a.Server == b.Server && a.Tool == b.Tool && a.Exact == b.Exact && a.Raw == b.Raw && a.Timeout == b.Timeout &&
		string(a.Meta) == string(b.Meta) && string(a.Arguments) == string(b.Arguments)
}

// repeat returns the answer to a call of the run before. The record has the complete call again, so
// that the record can be read, and continued, without the record of the run before.
func (r *run) repeat(t *stack.Request) journal.Answer {
	for _, in := range r.resumed.inputs[t.Seq()] {
		if !in.Unsure { // otherwise the question is in the record of the call that gets the answer
			r.journal.Input(in)
		}
	}
	return t.Before.Answer
}

// divergedError is the error for a script whose call differs from the call made before. The script
// cannot catch the error.
type divergedError struct{ error }

// resolveResumed finds the names of a batch for a run that continues another run. If a call differs
// from the call before, no call of the batch is made.
func (r *run) resolveResumed(ctx context.Context, all []stack.Request) {
	var diverged error
	live := false
	for i := range all {
		t := &all[i]
		before, err := r.resumed.take(t.ToolCall)
		if diverged == nil {
			diverged = err
		}
		t.Server, t.Tool, t.Before = t.ToolCall.Server, t.ToolCall.Tool, before
	}
	for i := range all {
		t := &all[i]
		switch {
		case diverged != nil:
			t.Before, t.Err = nil, &divergedError{diverged}
		case stack.AnsweredBefore(t.Before):
			t.Server, t.Tool = t.Before.Server, t.Before.Tool
		default:
			r.resolve(ctx, t)
			t.Began = r.began(t)
			if t.Err != nil && t.Began {
				t.Tool = t.Before.Tool
				t.Refused, t.Err = t.Fail(abi.ErrPermission, r.removedSince(t, t.Err)), nil
			}
			if r.began(t) {
				goOn, over := r.hold(), r.tree.behind.begin()
				t.Set(passedKey, sync.OnceFunc(func() {
					goOn()
					over()
				}))
			}
			live = true
		}
		t.Began, t.Repeats = r.began(t), r.repeats(t)
	}
	if live {
		r.goLive()
	}
}

// passedKey is the note that lets the clocks of the callers go on. The clocks stand still until a
// saved tool that had begun has passed the earlier calls.
var passedKey = &stack.Key{Name: "passed"}

// passedOf returns the function of passedKey; nil for another call.
func passedOf(t *stack.Request) func() {
	passed, _ := t.Note(passedKey).(func())
	return passed
}

// removedSince returns the message for a saved tool removed since an earlier call.
func (r *run) removedSince(t *stack.Request, err error) string {
	return fmt.Sprintf("since %s, saved tool %q was removed: %v", r.resumed.point(), t.Tool, err)
}

// undoBefore returns the record of the next compensation that the script registers; nil if the run
// before did not register the compensation. The compensation is not checked again: the script must
// get the same answer.
func (s *resumed) undoBefore(call abi.ToolCall) *journal.UndoRecord {
	if s == nil || s.nextUndo == len(s.rec.Undos) || !sameCall(s.rec.Undos[s.nextUndo].Request, call) {
		return nil
	}
	s.nextUndo++
	return &s.rec.Undos[s.nextUndo-1]
}

// continueFrom makes the run continue another run: all initial input of the script is the same.
func (r *run) continueFrom(before *resumed) {
	r.resumed, r.servers, r.agentTools = before, before.rec.Servers, before.rec.AgentTools
	r.moment = Moment{Now: before.rec.Now, Seed: before.rec.Seed}
}

// elapsed returns the duration of the earlier runs continued by this run.
func (r *run) elapsed() time.Duration {
	if r.resumed != nil && r.resumed.state != nil && !r.inner {
		return r.resumed.state.Used
	}
	if r.resumed == nil || !r.resumed.rec.Outcome.Asks { // a saved tool that has answered is not limited anew
		return 0
	}
	return r.resumed.elapsed()
}

// elapsed returns how long the runs took, without the time in which people decided.
func (s *resumed) elapsed() time.Duration {
	if s.state != nil {
		return s.state.Used
	}
	return max(0, s.rec.Elapsed+s.rec.Duration-s.rec.Outcome.Waited)
}

// ErrUndecided reports that the process that continues a run cannot be decided now.
var ErrUndecided = errors.New("it cannot be decided now who goes on with it")

// resume returns the run that a client wants to continue, and claims the run. The failure is the
// reason why the run cannot be continued. Nil continues nothing.
func (c *Composer) resume(def tools.Definition, from *route.Resume) (*resumed, *Failure) {
	if from == nil {
		return nil, nil
	}
	refuse := func(format string, args ...any) (*resumed, *Failure) {
		return nil, &Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("%s cannot go on with the client's answers: ", def.Name) +
			fmt.Sprintf(format, args...) + " (call it again without requestState)"}
	}
	answers, bad := readAnswers(from.Responses)
	if bad != nil {
		return refuse("%v", bad)
	}
	rec, err := c.asked.find(from.Run)
	if errors.Is(err, errForgotten) && c.cfg.Recorded != nil {
		rec, err = c.cfg.Recorded(from.Run)
	}
	if err == nil {
		if why := c.changed(def, &rec); why != nil {
			return refuse("%v", why)
		}
		err = c.claim(rec.ID)
	}
	switch {
	case errors.Is(err, journal.ErrClaimed):
		return refuse("its run %s was continued already, and answers are used once", from.Run)
	case errors.Is(err, ErrUndecided):
		return nil, &Failure{Type: abi.ErrResource, Message: fmt.Sprintf("%s cannot go on with the client's answers now: %v (send the same answers again later)", def.Name, err)}
	case from.Elsewhere != "" && (errors.Is(err, errForgotten) || errors.Is(err, journal.ErrNotFound)):
		return nil, &Failure{Type: abi.ErrResource, Message: fmt.Sprintf(
			"%s cannot go on with the client's answers: the record of its run %s is only in %s (send the answers again later, or call it again without requestState)",
			def.Name, from.Run, from.Elsewhere)}
	case errors.Is(err, errForgotten), errors.Is(err, journal.ErrNotFound):
		return refuse("its run %s is not known any more: %v", from.Run, err)
	case err != nil:
		return refuse("its run %s cannot be continued: %v", from.Run, err)
	}
	return newResumed(&rec, answers), nil
}

// changed returns why a run cannot be continued despite its record.
func (c *Composer) changed(def tools.Definition, rec *journal.Record) error {
	b := c.budget(def.Limits)
	switch {
	case !rec.Done || rec.Any(func(r *journal.Record) bool { return r.Incomplete }):
		return fmt.Errorf("the record of its run %s is not complete", rec.ID)
	case rec.Any(func(r *journal.Record) bool { return r.Redacted }):
		return fmt.Errorf("the record of its run %s is on disk only, where secrets are masked", rec.ID)
	case !rec.Outcome.Asks:
		return fmt.Errorf("its run %s has not asked anything", rec.ID)
	case rec.Definition.Hash() != def.Hash():
		return errors.New("it was changed since it asked")
	case rec.Limits != b.record():
		return errors.New("the limits were changed since it asked")
	case rec.Guest != sandbox.GuestDigest():
		return errors.New("the program was updated since it asked")
	}
	return nil
}

// readAnswers returns the client's answers by the names of the questions.
func readAnswers(responses []byte) (map[string][]byte, error) {
	answers := map[string][]byte{}
	members, _ := wire.Members(responses)
	for _, m := range members {
		if !wire.IsObject(m.Value) {
			return nil, fmt.Errorf("the answer %q is not an object", m.Name)
		}
		answers[m.Name] = m.Value
	}
	return answers, nil
}

// claim takes the right to continue a run, so that no call is made twice: neither by another
// request of the client with the same state, nor by another process.
func (c *Composer) claim(id string) error {
	err := c.asked.claim(id)
	if err == nil && c.cfg.Claims != nil {
		if err = c.cfg.Claims.Claim(id); err != nil && !errors.Is(err, journal.ErrClaimed) {
			c.asked.release(id)
		}
	}
	return err
}

// release gives a claim back.
func (c *Composer) release(before *resumed) {
	if before == nil || before.state != nil {
		return
	}
	id := before.rec.ID
	if c.cfg.Claims != nil {
		if err := c.cfg.Claims.Release(id); err != nil {
			c.cfg.Log.Warn("a run cannot be continued any more", "run", id, "err", err)
			return
		}
	}
	c.asked.release(id)
}

// settleClaim ends the claim on the run before. If this run has failed before its first call, the
// client can try again.
func (r *run) settleClaim(failed bool) {
	switch {
	case r.resumed == nil, r.resumed.state != nil:
	case failed && !r.tree.live.Load():
		r.release(r.resumed)
	default:
		r.asked.forget(r.resumed.rec.ID)
	}
}
