package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// GuestError reports that a run needs another version of the sandbox's program than the version of
// this process.
type GuestError struct {
	Run, Guest string // ids of the run and of the guest for the run
}

func (e *GuestError) Error() string {
	return fmt.Sprintf("run %s was begun by another version of this program, with guest %.12s (it goes on in a process that has that guest, or cancel it: mcp-metatool runs cancel %s)", e.Run, e.Guest, e.Run)
}

// CanContinue returns a *GuestError if this program cannot go on with a durable run.
func CanContinue(state *durable.State) error {
	if own := sandbox.GuestDigest(); state.Record.Guest != own {
		return &GuestError{state.Record.ID, state.Record.Guest}
	}
	return nil
}

// Continue goes on with a durable run taken by this process, on the goroutine of the caller, in the
// context of durable.Runs.Go. origin stands for the client that had called the tool. The reply is
// the reply of CallSaved. If ctx ends before the run, other processes can take the run.
//
// The script, the arguments, the limits and the time are unchanged since the start of the run.
// Rules that can forbid a call count in their current form, and the tool's current permissions
// count together with the earlier permissions.
func (c *Composer) Continue(ctx context.Context, cancel context.CancelCauseFunc, log *durable.Run, state *durable.State, origin route.Origin) wire.Reply {
	if state.Over { // only the log of the run was left
		return wire.Reply{Result: c.giveUp(ctx, log, log.Close, "it has ended")}
	}
	if f := c.ready(ctx); f != nil {
		return wire.Reply{Result: c.giveUp(ctx, log, log.Leave, f.Message)}
	}
	rec := &state.Record
	before := newResumed(rec, nil)
	before.state = state
	def := rec.Definition
	now, removed := c.cfg.Saved.Get(def.Name)
	def = c.permitted(ctx, def)
	b := beginning{def: def, saved: true, args: rec.Params, meta: rec.Meta, call: route.Call{Origin: origin}, before: before}
	r, f := c.newRun(b)
	if f != nil {
		return wire.Reply{Result: c.giveUp(ctx, log, log.Leave, f.Message)}
	}
	if removed != nil {
		r.permitted.forbidden = fmt.Errorf("the saved tool %q was removed since the run began, or its client may not call it any more: %w", def.Name, removed)
	} else {
		r.permitted.narrow(now)
		if c.cfg.Denies != nil {
			r.permitted.forbidden = c.cfg.Denies(origin, def.Name, rec.Params)
		}
	}
	if err := log.Resumed(ctx, r.journal.ID()); err != nil {
		return wire.Reply{Result: c.giveUp(ctx, log, log.Leave, err.Error())}
	}
	return r.durable(ctx, cancel, log, b)
}

// giveUp settles the log of a run with which this process does not go on.
func (c *Composer) giveUp(ctx context.Context, log *durable.Run, settle func(context.Context) error, why string) []byte {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := settle(ctx); err != nil && !errors.Is(err, durable.ErrLost) {
		c.cfg.Log.Warn("a durable run was taken in vain, and not given back", "run", log.ID(), "err", err)
	}
	return (&Failure{Type: abi.ErrCancelled, Message: fmt.Sprintf("run %s does not go on in this process: %s", log.ID(), why)}).Result()
}

// CancelOpen ends a durable run taken by this process without going on: no call is undone.
// CancelOpen is for runs that this program cannot continue. The reply says so.
func (c *Composer) CancelOpen(ctx context.Context, log *durable.Run, state *durable.State) (wire.Reply, error) {
	begin := state.Record.Begin
	begin.Continues, begin.ContinuesHead = state.LastRecord, ""
	begin.Elapsed, begin.First = state.Used, firstOf(&state.Record)
	run, err := c.cfg.Journal(begin)
	if err != nil {
		return wire.Reply{}, errors.Join(err, log.Leave(ctx))
	}
	f := &Failure{Type: abi.ErrCancelled, Message: "cancelled by its id; this program cannot go on with it, so that nothing was undone"}
	run.Close(journal.Outcome{Error: f.Type, Message: f.Message, Failure: f.body()})
	return wire.Reply{Result: f.Result()}, log.Close(ctx)
}
