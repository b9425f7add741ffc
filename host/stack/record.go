package stack

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Book is a second record of a run, written at the same events. The record of a call is set by then.
type Book interface {
	// Opened records the calls of a batch, or a compensation.
	Opened(all []Request)
	// Answered records an answered call.
	Answered(ctx context.Context, r *Request)
	// Registered records a compensation that the script has registered.
	Registered(u journal.UndoRecord, r *Request)
	// Undoing records the compensations that follow, in order. After an error, no compensation
	// is made.
	Undoing(ctx context.Context, e *Ending, all []Request) error
}

// record is the row that writes the record of a run.
type record struct {
	Pass
	run   *journal.Run
	books []Book
}

// Record is a row that writes all calls and the end of a run to the record of the run and to books.
// The row stands above all rows that answer calls, and below the row names.
func Record(run *journal.Run, books ...Book) Middleware {
	return func(next Handler) Handler { return &record{Pass{next}, run, books} }
}

// Batch implements Handler.
func (d *record) Batch(ctx context.Context, all []Request) *abi.CallError {
	if r := &all[0]; r.Undoes {
		r.Record = d.run.OpenUndo(r.ToolCall, r.Server, r.Tool)
	} else {
		opened := make([]journal.Opened, len(all))
		for i := range all {
			opened[i] = journal.Opened{Request: all[i].ToolCall, Server: all[i].Server, Tool: all[i].Tool}
		}
		for i, record := range d.run.OpenCalls(opened) {
			all[i].Record = record
		}
	}
	for _, b := range d.books {
		b.Opened(all)
	}
	failed := d.Pass.Batch(ctx, all)
	if failed == nil {
		return nil
	}
	for i := range all { // not in the books: a continuation decides about the batch again
		r, own := &all[i], *failed
		own.Server, own.Tool = r.Server, r.Tool
		r.Answer = Answer{Err: &own}
		r.Record.Begin()
		r.Record.Close(r.Answer)
	}
	return failed
}

// Call implements Handler.
func (d *record) Call(ctx context.Context, r *Request) Answer {
	if !r.Undoes {
		r.Record.Begin()
	}
	answer := d.Pass.Call(ctx, r)
	answer.Decision = decided(r)
	r.Record.Close(answer)
	for _, b := range d.books {
		b.Answered(ctx, r)
	}
	return answer
}

// decided returns the decision of policy about a call. A person may have approved the call in the
// earlier run.
func decided(r *Request) *journal.Decision {
	d := r.Decision
	if d == nil || d.Approval != nil || r.Undoes || r.Before == nil || r.Before.Answer.Decision == nil || r.Before.Answer.Decision.Rule != d.Rule {
		return d
	}
	return r.Before.Answer.Decision
}

// Recorded returns the record of a decision; nil for a plain decision.
func Recorded(d policy.Decision) *journal.Decision {
	if d.Plain() && d.Approval == nil {
		return nil
	}
	return &journal.Decision{Action: string(d.Action), Rule: d.Rule, Reason: d.Reason, Approval: (*journal.Approval)(d.Approval)}
}

// Undo implements Handler.
func (d *record) Undo(ctx context.Context, r *Request) *abi.CallError {
	failed := d.Pass.Undo(ctx, r)
	u := journal.UndoRecord{Request: r.ToolCall, Server: r.Server, Tool: r.Tool, Err: failed}
	d.run.Undo(u)
	for _, b := range d.books {
		b.Registered(u, r)
	}
	return failed
}

// Undoing implements Handler.
func (d *record) Undoing(ctx context.Context, e *Ending, all []Request) error {
	for _, b := range d.books {
		if err := b.Undoing(ctx, e, all); err != nil {
			return err
		}
	}
	return d.Pass.Undoing(ctx, e, all)
}

// Log implements Handler.
func (d *record) Log(level abi.LogLevel, text string) {
	d.run.Log(level, text)
	d.Pass.Log(level, text)
}

// End implements Handler.
func (d *record) End(ctx context.Context, e *Ending) {
	if e.Left() { // another process ends the record
		e.Record = d.run.Record()
		return
	}
	e.Settle(e)
	d.run.Close(e.Outcome)
	e.Record = d.run.Record()
	d.Pass.End(ctx, e)
}
