package stack

import (
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// The reasons why a call has no answer, as records have them.
const (
	NoAnswer = "no answer before the run ended"
	NotMade  = "not made: the run had ended"
)

// Request is a call of a script on its way down a stack. The fields are shared by rows. A value
// that a single row needs between Batch and Call is a note.
type Request struct {
	abi.ToolCall        // as the script made the call
	Server, Tool string // real names, set by the row names
	Err          error  // the names were not found, so the call cannot be made

	// Undoes marks a compensation, which is made because the run failed.
	Undoes bool
	// Unregistered marks a call passed to Undo that is not made if the run fails.
	Unregistered bool
	Batch        int64 // number of the batch in the tree of runs; 0 for a compensation
	// Alone reports that no other call of the batch is made at the same time.
	Alone    bool
	Approved bool // a person has allowed the call
	// Refused is the reason why a compensation may no longer be made, or why a saved tool that
	// had begun may not continue; nil for none.
	Refused *abi.CallError
	// Before is the record of the call in the run that this run continues; nil for a new call.
	Before *journal.CallRecord

	// Repeats reports that the call was answered before the process of a durable run died. A saved
	// tool is then run again only to find the compensations.
	Repeats bool
	// Began reports that the process of a durable run died while a saved tool ran for the call. The
	// tool is run again, even without the permission to call the tool, to find the compensations.
	Began bool

	Record   *journal.Call     // set by the row Record
	Decision *journal.Decision // of policy; nil for a plain decision
	Undos    []Request         // compensations registered by the saved tool that answers the call
	Answer   Answer            // set once the call is answered

	notes []note
}

// Key identifies the notes of a row.
type Key struct{ Name string }

type note struct {
	key   *Key
	value any
}

// Set keeps a note for the row that owns key.
func (r *Request) Set(key *Key, value any) {
	for i := range r.notes {
		if r.notes[i].key == key {
			r.notes[i].value = value
			return
		}
	}
	r.notes = append(r.notes, note{key, value})
}

// Note returns the note kept with Set; nil for none.
func (r *Request) Note(key *Key) any {
	for i := range r.notes {
		if r.notes[i].key == key {
			return r.notes[i].value
		}
	}
	return nil
}

// Seq returns the number of the call in the record of the run.
func (r *Request) Seq() int { return r.Record.Seq() }

// RunBefore returns the run that answered the call of a saved tool in the run before; nil for none.
func (r *Request) RunBefore() *journal.Record {
	if r.Before == nil {
		return nil
	}
	return r.Before.Answer.Run
}

// Fail returns the script's error for the call.
func (r *Request) Fail(class abi.ErrorType, message string) *abi.CallError {
	return &abi.CallError{Type: class, Server: r.Server, Tool: r.Tool, Message: message}
}

// Limit returns the call's own timeout, at most a day.
func (r *Request) Limit() time.Duration {
	const most = 24 * time.Hour
	return min(time.Duration(min(r.Timeout, most.Seconds())*float64(time.Second)), most)
}

// LimitMessage returns the message for a call that took longer than its own timeout.
func (r *Request) LimitMessage() string {
	return fmt.Sprintf("no answer within %v, the timeout of the call", r.Limit())
}

// AnsweredBefore reports whether the script got an answer to a call before its run ended.
func AnsweredBefore(c *journal.CallRecord) bool {
	if c == nil || !c.Done {
		return false
	}
	e := c.Answer.Err
	return e == nil || e.Type != abi.ErrCancelled || e.Message != NoAnswer && e.Message != NotMade
}
