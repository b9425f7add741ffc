// Package stack defines the rows between a script and the servers. Each row is a Handler that holds
// the next row. A row can answer a call itself, change the call, wait, or pass the call on. Begin
// with Handler and Request; Of builds a stack.
//
// A batch goes down the stack once as a whole (Handler.Batch), from the row names to the row Fan,
// and Fan sends each call of the batch down once more (Handler.Call). A row can therefore decide
// about a batch before any call is made, see each answer on arrival, and act after the last answer.
package stack

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// Answer is the answer to a call, as stored in the record of the run.
type Answer = journal.Answer

// Handler is a row of a stack, with all rows below it.
type Handler interface {
	// Batch makes the calls of a batch and sets their answers. An error is the answer to all
	// calls of the batch, and means that no call was made. A batch of one call with Undoes is
	// only opened; the row undo then makes the call with Call.
	Batch(ctx context.Context, all []Request) *abi.CallError
	// Call makes a call. Call can be called at the same time for the calls of a batch, and returns
	// soon after ctx has ended.
	Call(ctx context.Context, r *Request) Answer
	// Undo registers a call that is made, with Undoes set, if the run fails. The error is for
	// the script.
	Undo(ctx context.Context, r *Request) *abi.CallError
	// Undoing announces the compensations that follow, in order. After an error, no
	// compensation is made.
	Undoing(ctx context.Context, e *Ending, all []Request) error
	// Commit reports whether the registered calls are dropped.
	Commit() bool
	// Log takes an entry of the script's log, and does not block.
	Log(level abi.LogLevel, text string)
	// End is called once when the script has ended.
	End(ctx context.Context, e *Ending)
}

// Ending describes the end of a run. Each row adds its part.
type Ending struct {
	// Err is the reason for the run's failure; nil if the run succeeded.
	Err error
	// Outcome is for the record. Until Settle is called, the fuel is the script's own fuel.
	Outcome journal.Outcome
	// Undoes reports that the registered compensations are made.
	Undoes bool
	// Left reports that another process continues the run. The run is then not settled here.
	Left func() bool
	// Settle completes Outcome after the last call.
	Settle func(*Ending)
	// Record is the record of the run, set by the row Record.
	Record journal.Record
}

// Pass is a Handler that passes everything on. A row embeds Pass and overrides the methods of its
// own concern.
type Pass struct{ Handler }

// Middleware makes a row above next.
type Middleware func(next Handler) Handler

// Of builds a stack; the first row is the top. Nil rows are left out.
func Of(rows ...Middleware) Handler {
	var h Handler = Bottom{}
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i] != nil {
			h = rows[i](h)
		}
	}
	return h
}

// Bottom is the handler below all rows. A call that reaches Bottom fails.
type Bottom struct{}

var _ Handler = Bottom{}

// Batch implements Handler.
func (Bottom) Batch(context.Context, []Request) *abi.CallError { return nil }

// Call implements Handler.
func (Bottom) Call(_ context.Context, r *Request) Answer {
	return Answer{Err: r.Fail(abi.ErrInternal, "no row answers this call")}
}

// Undo implements Handler.
func (Bottom) Undo(context.Context, *Request) *abi.CallError { return nil }

// Undoing implements Handler.
func (Bottom) Undoing(context.Context, *Ending, []Request) error { return nil }

// Commit implements Handler.
func (Bottom) Commit() bool { return true }

// Log implements Handler.
func (Bottom) Log(abi.LogLevel, string) {}

// End implements Handler.
func (Bottom) End(_ context.Context, e *Ending) {}
