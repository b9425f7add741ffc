package compose

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Tape is the world of a run that is replayed: what a record says that the world
// did. It is told all that the script does, in that order. A tape is used by one
// goroutine, and so are all tapes of a tree of runs.
type Tape interface {
	// Calls says what became of a batch of calls: of each, in order.
	Calls(asked []abi.ToolCall) []Played
	// Undo says what a call to undo with is in real names, and what is wrong with
	// it, nil for nothing.
	Undo(asked abi.ToolCall) (server, tool string, failed *abi.CallError)
	// Compensation is the answer to the next call that undoes something, by real
	// names.
	Compensation(asked abi.ToolCall, server, tool string) journal.Answer
	Log(level abi.LogLevel, text string)
	// End takes the record of the run that was replayed.
	End(replayed journal.Record)
}

// Played is what became of one call.
type Played struct {
	Server, Tool string // real names
	// Answer is what the script is given.
	Answer journal.Answer
	// Anew gives the script what is made of the answer's Result and RPCError, or
	// of Run, in place of Value and Err: it may want that in another way than the
	// recorded script.
	Anew bool
	// Unanswered tells that the run ended before there was an answer; it does so
	// once all calls of the batch are played.
	Unanswered bool
	// Run is what the saved tool ran that answered, nil for other calls. It is
	// replayed too.
	Run *Take
}

// Take is a run to replay.
type Take struct {
	journal.Begin
	Tape Tape
	// Failure is the raw failure that the run ended with, nil when it succeeded or
	// nothing is known of it.
	Failure []byte
	// Stopped, when set, is where something outside the script ended the run. Its
	// replay ends there with Failure.
	Stopped *Stop
	// Checked is the fuel that went into checking arguments for upstreams, of the
	// run and those below it: a replay does not check them.
	Checked uint64
	// Orphan tells that whoever had called the tool ended as well: then it is for
	// them to undo what it did.
	Orphan bool
}

// Stop is the place where a run was ended from outside: because its time was
// over, or its request taken back.
type Stop struct {
	// Waiting tells that it waited for answers: Tape says for which.
	Waiting bool
	// Fuel is what it had used of its own if it did not wait; 0 when it had not
	// started.
	Fuel uint64
}

// Why calls have no answer, as their records say it.
const (
	NoAnswer = "no answer before the run ended"
	NotMade  = "not made: the run had ended"
)

// Replay runs what a record says once more, under the limits it had, but by no
// clock: the tape has all that the script learns. Calls are made one after the
// other. Of Options, only Sandbox, Log and Debug count. The error is a *Failure
// when ctx ends before the sandbox is ready; when it ends later, the record's
// outcome says so.
func (c *Composer) Replay(ctx context.Context, take Take) (journal.Record, error) {
	if f := c.ready(ctx); f != nil {
		return journal.Record{}, f
	}
	r := c.replayed(&take)
	r.tree = &tree{account: sandbox.NewAccount(r.budget.Limits, nil), more: semaphore.NewWeighted(0)}
	r.tree.account.Charge(take.Checked)
	var out sandbox.Outcome
	var f *Failure
	if take.Saved {
		r.chain = []string{take.Definition.Name}
		out, f = r.saved(ctx, take.Definition, take.Params)
	} else {
		out, f = r.unsaved(ctx, take.Definition.Code, take.Params)
	}
	return r.end(ctx, out, f), nil
}

// replayed is newRun for a run that is replayed.
func (c *Composer) replayed(take *Take) *run {
	begin := take.Begin
	begin.Guest = sandbox.GuestDigest()
	return &run{
		Composer: c, tool: begin.Definition.Name, meta: begin.Meta, budget: take.budget(), servers: begin.Servers, agentTools: begin.AgentTools,
		journal: journal.Open(begin), take: take,
	}
}

// budget is what the run had. Which limits were the tool's own its failure says;
// else those are that are equal to them.
func (t *Take) budget() budget {
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
	for limit, names := range tunable {
		switch setting {
		case names.member:
			b.own[limit] = true
		case names.setting:
			b.own[limit] = false
		}
	}
	return b
}

// clock is the context of a run's script: it ends when its time is over, or where
// the replayed run was stopped.
func (r *run) clock(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.take == nil {
		return context.WithTimeout(ctx, r.budget.timeout)
	}
	limited, cancel := context.WithCancel(ctx)
	r.stop = cancel
	return limited, cancel
}

// limits are those of the run's instance. A run that was stopped while it computed
// meets a limit on fuel in the same place: the meter, which is what saw that its
// context had ended, finds one unit less than it had used then.
func (r *run) limits() sandbox.Limits {
	l := r.budget.Limits
	if r.take != nil && r.take.Stopped != nil && !r.take.Stopped.Waiting {
		l.Fuel = min(l.WithDefaults().Fuel, max(1, r.take.Stopped.Fuel-1))
	}
	return l
}

// unstarted tells whether a run is replayed that was stopped before its script
// began.
func (r *run) unstarted() bool {
	return r.take != nil && r.take.Stopped != nil && !r.take.Stopped.Waiting && r.take.Stopped.Fuel == 0
}

// orphaned tells whether others undo what a replayed run did.
func (r *run) orphaned() bool { return r.take != nil && r.take.Orphan }

// stopped gives a replayed run the end that the recorded one had, if it is where
// that was stopped.
func (r *run) stopped(ctx, limited context.Context, out *sandbox.Outcome) *Failure {
	if r.take == nil || r.take.Stopped == nil || ctx.Err() != nil {
		return nil
	}
	stop := r.take.Stopped
	switch {
	case stop.Waiting && limited.Err() == nil, !stop.Waiting && out.Fuel+1 < stop.Fuel:
		return nil
	case !stop.Waiting:
		out.Fuel = stop.Fuel
	}
	return readFailure(r.take.Failure)
}

// readFailure reads the failure of a run that was stopped. It has no details of
// the script.
func readFailure(raw []byte) *Failure {
	text := func(path ...string) string { s, _ := wire.GetString(raw, path...); return s }
	details, _ := wire.Get(raw, "details")
	figure := func(name string) float64 { v, _ := number(details, name); return v }
	return &Failure{
		Type: abi.ErrorType(text("type")), Message: text("message"),
		Limit: text("details", "limit"), Setting: text("details", "setting"),
		Value: figure("value"), Used: figure("used"), Queued: figure("queued"),
	}
}

// play is call for a call that is replayed.
func (r *run) play(ctx context.Context, t *target) journal.Answer {
	p := t.played
	switch {
	case p.Run != nil:
		answer := r.composite(ctx, t)
		if !p.Anew {
			below := answer.Run
			answer = p.Answer
			answer.Run = below
		}
		return answer
	case p.Anew && (p.Answer.Result != nil || p.Answer.RPCError != nil):
		return t.answer(wire.Reply{Result: p.Answer.Result, Error: p.Answer.RPCError})
	case p.Unanswered:
		return journal.Answer{Err: t.fail(abi.ErrCancelled, NoAnswer)}
	case p.Answer.Value == nil && p.Answer.Err == nil:
		return journal.Answer{Err: t.fail(abi.ErrInternal, fmt.Sprintf("call %d: the record has neither a value nor an error", t.record.Seq()))}
	}
	return p.Answer
}

// resolveAll resolves a batch of calls.
func (r *run) resolveAll(ctx context.Context, calls []abi.ToolCall) []target {
	targets := make([]target, len(calls))
	if r.take != nil {
		for i, p := range r.take.Tape.Calls(calls) {
			targets[i] = target{ToolCall: calls[i], server: p.Server, tool: p.Tool, played: &p}
		}
		return targets
	}
	for i, call := range calls {
		targets[i] = r.resolve(ctx, call)
	}
	return targets
}

// stopAfter ends a replayed run if it did not get the answers to a batch.
func (r *run) stopAfter(batch []target) {
	for i := range batch {
		if p := batch[i].played; p != nil && p.Unanswered {
			r.stop()
			return
		}
	}
}
