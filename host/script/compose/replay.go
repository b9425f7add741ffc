package compose

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// Recording has the recorded answers for a replay, and receives every action of the script, in
// order. One goroutine uses all recordings of a tree of runs.
type Recording interface {
	// Calls returns the recorded answer to each call of a batch, in order.
	Calls(requests []abi.ToolCall) []ReplayedCall
	// Undo resolves a compensation of the script to real names. failed is the mistake in the call;
	// nil for none.
	Undo(request abi.ToolCall) (server, tool string, failed *abi.CallError)
	// Compensation returns the recorded answer to the next compensation, by real
	// names.
	Compensation(request abi.ToolCall, server, tool string) journal.Answer
	Log(level abi.LogLevel, text string)
	// End gets the record of the replay after the end.
	End(replayed journal.Record)
}

// ReplayedCall is a recorded call and the answer.
type ReplayedCall struct {
	Server, Tool string // real names
	// Answer is the answer for the script.
	Answer journal.Answer
	// Recompute derives the script's answer from the answer's Result and
	// RPCError, or from Run, instead of using the recorded Value and Err: changed code
	// may ask for the answer in another form.
	Recompute bool
	// Unanswered reports that the recorded run ended before the answer arrived. The replay ends
	// too, once all calls of the batch are answered.
	Unanswered bool
	// Run is the run of the saved tool that answered, which is replayed too; nil for calls of
	// upstreams.
	Run *ReplayRun
}

// ReplayRun is a recorded run to replay: the start, the end, and the recording.
type ReplayRun struct {
	journal.Begin
	Recording Recording
	// Failure is the raw failure of the run; nil if the run succeeded or the end was not recorded.
	Failure []byte
	// Stopped, if set, is where a cause outside the script ended the run. The replay ends there
	// too, with Failure.
	Stopped *Stop
	// Checked is the fuel used by the run and the runs below for checking arguments for upstreams,
	// which a replay does not do.
	Checked uint64
	// Asks reports that the run ended to ask the client.
	Asks bool
	// Orphan reports that the caller of the tool ended as well. Then the caller undoes the calls of
	// the tool.
	Orphan bool
}

// Stop is the point at which a run was ended from outside, by the timeout or by cancellation.
type Stop struct {
	// Waiting reports that the run was waiting for answers; the recording knows which.
	Waiting bool
	// Fuel is the fuel that the run itself had used by then, if the run was not waiting; 0 if the
	// run had not started.
	Fuel uint64
}

// The recorded reasons why a call has no answer.
const (
	NoAnswer = stack.NoAnswer
	NotMade  = stack.NotMade
)

// Replay runs a recorded run again, with the recorded limits but without a clock: all input of the
// script comes from the recording. Calls are made one after the other. Only the options Sandbox,
// Log and Debug matter. The error is a *Failure if ctx ends before the sandbox is ready; if ctx
// ends later, the outcome in the returned record has the error.
func (c *Composer) Replay(ctx context.Context, replay ReplayRun) (journal.Record, error) {
	return c.replay(ctx, replay, nil, func(*sandbox.Account) {})
}

// replay is Replay with an owner of the account, which using gets.
func (c *Composer) replay(ctx context.Context, replay ReplayRun, owner any, using func(*sandbox.Account)) (journal.Record, error) {
	if f := c.ready(ctx); f != nil {
		return journal.Record{}, f
	}
	r := c.replayed(&replay)
	r.tree = &tree{account: sandbox.NewAccount(r.budget.Limits, owner), extraCalls: semaphore.NewWeighted(0)}
	using(r.tree.account)
	r.build()
	r.tree.account.Charge(replay.Checked)
	var out sandbox.Outcome
	var f *Failure
	if replay.Saved {
		r.chain = []string{replay.Definition.Name}
		out, f = r.saved(ctx, replay.Definition, replay.Params)
	} else {
		out, f = r.unsaved(ctx, replay.Definition.Code, replay.Params)
	}
	return r.end(ctx, out, f), nil
}

// replayed is newRun for a replay.
func (c *Composer) replayed(replay *ReplayRun) *run {
	begin := replay.Begin
	begin.Guest = sandbox.GuestDigest()
	return &run{
		Composer: c, tool: begin.Definition.Name, meta: begin.Meta, budget: replay.budget(), servers: begin.Servers,
		agentTools: begin.AgentTools, journal: journal.Open(begin), replay: replay,
		moment: Moment{Now: begin.Now, Seed: begin.Seed}, marker: begin.Marker(),
	}
}

// budget returns the budget of the recorded run. The failure names the limit that was the tool's
// own; without a failure, the limits equal to the tool's own were.
func (t *ReplayRun) budget() budget {
	l, own := t.Limits, t.Definition.Limits
	b := budget{
		Limits: sandbox.Limits{
			Memory: l.Memory, Fuel: l.Fuel, Calls: l.Calls, Arguments: l.Arguments, Answer: l.Answer, Result: l.Result, Logs: l.Logs,
		},
		timeout: l.Timeout,
		own: map[sandbox.Limit]bool{
			sandbox.LimitFuel: own.Fuel != 0 && own.Fuel == l.Fuel, sandbox.LimitMemory: own.Memory != 0 && own.Memory == l.Memory,
			limitTime: own.Timeout != 0 && own.Timeout == l.Timeout, sandbox.LimitCalls: own.Calls != 0 && own.Calls == l.Calls,
		},
	}
	setting, _ := wire.GetString(t.Failure, "details", "setting")
	for limit, member := range ownLimits {
		switch setting {
		case member:
			b.own[limit] = true
		case settingOf(limit):
			b.own[limit] = false
		}
	}
	return b
}

// scriptContext returns the context of a run's script. The context ends when the run's time is
// over, or where the recorded run was stopped.
func (r *run) scriptContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.replay == nil {
		start := startClock
		if r.continues() {
			start = startHeld
		}
		limited, clock, stop := start(ctx, r.budget.timeout-r.elapsed())
		r.clock = clock
		return limited, stop
	}
	limited, cancel := context.WithCancel(ctx)
	r.stop = cancel
	return limited, cancel
}

// limits returns the limits of the run's instance. A replay of a run that was stopped during a
// computation reaches a limit on fuel in the same place: the limit is a unit less than the fuel
// used when the meter noticed the end of the context.
func (r *run) limits() sandbox.Limits {
	l := r.budget.Limits
	if r.replay != nil && r.replay.Stopped != nil && !r.replay.Stopped.Waiting {
		l.Fuel = min(l.WithDefaults().Fuel, max(1, r.replay.Stopped.Fuel-1))
	}
	return l
}

// unstarted reports whether the replayed run was stopped before the script began.
func (r *run) unstarted() bool {
	return r.replay != nil && r.replay.Stopped != nil && !r.replay.Stopped.Waiting && r.replay.Stopped.Fuel == 0
}

// orphaned reports whether the caller undoes the calls of a replayed run.
func (r *run) orphaned() bool { return r.replay != nil && r.replay.Orphan }

// stopped ends a replayed run like the recorded run, if the replay has reached the point at which
// the recorded run was stopped.
func (r *run) stopped(ctx, limited context.Context, out *sandbox.Outcome) *Failure {
	if r.replay == nil || r.replay.Stopped == nil || ctx.Err() != nil {
		return nil
	}
	stop := r.replay.Stopped
	switch {
	case stop.Waiting && limited.Err() == nil, !stop.Waiting && out.Fuel+1 < stop.Fuel:
		return nil
	case !stop.Waiting:
		out.Fuel = stop.Fuel
	}
	return readFailure(r.replay.Failure)
}

// readFailure reads the failure of a stopped run. The failure of a stopped run has no details of
// the script.
func readFailure(raw []byte) *Failure {
	text := func(path ...string) string { s, _ := wire.GetString(raw, path...); return s }
	details, _ := wire.Get(raw, "details")
	figure := func(name string) float64 { v, _ := number(details, name); return v }
	return &Failure{
		Type: abi.ErrorType(text("type")), Message: text("message"),
		Server: text("details", "server"), Limit: text("details", "limit"), Setting: text("details", "setting"),
		Value: figure("value"), Used: figure("used"), Queued: figure("queued"),
	}
}

// recorded has the rows of a replay: names and answers are found in a Recording, in the order of
// the script.
type recorded struct {
	stack.Pass
	run *run
}

// names is the row above the record.
func (d *recorded) names(next stack.Handler) stack.Handler {
	return &recordedNames{stack.Pass{Handler: next}, d.run}
}

// answers is the row at the bottom.
func (d *recorded) answers(stack.Handler) stack.Handler { return d }

type recordedNames struct {
	stack.Pass
	run *run
}

// replayKey is for the *ReplayedCall of a call.
var replayKey = &stack.Key{Name: "recorded"}

// Batch ends the replay if the recorded run got no answers to the batch.
func (n *recordedNames) Batch(ctx context.Context, all []stack.Request) *abi.CallError {
	if all[0].Undoes {
		return n.Pass.Batch(ctx, all)
	}
	requests := make([]abi.ToolCall, len(all))
	for i := range all {
		requests[i] = all[i].ToolCall
	}
	replayed := n.run.replay.Recording.Calls(requests)
	for i := range all {
		all[i].Server, all[i].Tool = replayed[i].Server, replayed[i].Tool
		all[i].Set(replayKey, &replayed[i])
	}
	failed := n.Pass.Batch(ctx, all)
	for i := range replayed {
		if replayed[i].Unanswered {
			n.run.stop()
			break
		}
	}
	return failed
}

// Undo keeps with the request why the compensation is not registered.
func (n *recordedNames) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	var failed *abi.CallError
	t.Server, t.Tool, failed = n.run.replay.Recording.Undo(t.ToolCall)
	t.Refused = failed
	return n.Pass.Undo(ctx, t)
}

func (d *recorded) Undo(_ context.Context, t *stack.Request) *abi.CallError { return t.Refused }

// Commit implements stack.Handler.
func (d *recorded) Commit() bool {
	if of, ok := d.run.replay.Recording.(interface{ Commit() }); ok {
		of.Commit()
	}
	return true
}

func (d *recorded) Log(level abi.LogLevel, text string) { d.run.replay.Recording.Log(level, text) }

func (d *recorded) Undoing(_ context.Context, e *stack.Ending, _ []stack.Request) error {
	if of, ok := d.run.replay.Recording.(interface{ Undoing(*Failure) }); ok {
		of.Undoing(e.Err.(*Failure))
	}
	return nil
}

func (d *recorded) End(_ context.Context, e *stack.Ending) { d.run.replay.Recording.End(e.Record) }

// Batch implements stack.Handler. The row above makes the calls.
func (d *recorded) Batch(context.Context, []stack.Request) *abi.CallError { return nil }

// Call implements stack.Handler.
func (d *recorded) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if t.Undoes {
		return d.run.replay.Recording.Compensation(t.ToolCall, t.Server, t.Tool)
	}
	switch p := t.Note(replayKey).(*ReplayedCall); {
	case p.Run != nil:
		answer := d.run.compositeAgain(ctx, t, p.Run)
		if !p.Recompute {
			below := answer.Run
			answer = p.Answer
			answer.Run = below
		}
		return answer
	case p.Recompute && (p.Answer.Result != nil || p.Answer.RPCError != nil):
		return answerOf(t, wire.Reply{Result: p.Answer.Result, Error: p.Answer.RPCError})
	case p.Unanswered:
		return stack.Answer{Err: t.Fail(abi.ErrCancelled, NoAnswer)}
	case p.Answer.Value == nil && p.Answer.Err == nil:
		return stack.Answer{Err: t.Fail(abi.ErrInternal, fmt.Sprintf("call %d: the record has neither a value nor an error", t.Seq()))}
	default:
		return p.Answer
	}
}
