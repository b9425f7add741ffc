package approval

import (
	"errors"
	"fmt"
	"strings"
)

// DeniedError says why a call was not approved.
type DeniedError struct {
	Target string // policy.Request.Target
	Rule   string // the rule with the effect "ask"
	How    string // a constant like HowClient
	By     string // who denied the call; "" if no person was asked
	Note   string // the note of that person; may be ""
	Text   string // why the call is not allowed, if no person has denied the call
}

func (e *DeniedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s was not approved", quote(e.Target, maxTarget))
	switch {
	case e.By != "" && e.How == HowRemembered:
		fmt.Fprintf(&b, ": denied by %s before (rule %s)", e.By, quote(e.Rule, maxName))
	case e.By != "":
		fmt.Fprintf(&b, ": denied by %s (rule %s)", e.By, quote(e.Rule, maxName))
	default:
		fmt.Fprintf(&b, " (rule %s)", quote(e.Rule, maxName))
	}
	for _, text := range []string{e.Text, quoteNote(e.Note)} {
		if text != "" {
			b.WriteString(": " + text)
		}
	}
	return b.String()
}

// WaitingError says: the call waits in the queue, and the caller can make the call again.
type WaitingError struct {
	ID     string // of the approval
	Target string
	Rule   string
}

// Error does not name the command that allows the call: agents read the text, and some can run
// commands.
func (e *WaitingError) Error() string {
	return fmt.Sprintf("waiting for approval %s: a person must allow %s first (rule %s). "+
		"Call it again with the same arguments when it is allowed", e.ID, quote(e.Target, maxTarget), quote(e.Rule, maxName))
}

// Errors of a Queue.
var (
	// ErrUnknown is the error for an id without an approval: the approval was used, has expired, or
	// its call was cancelled.
	ErrUnknown = errors.New("there is no such approval (it was used, has expired, or its call was cancelled)")
	// ErrFull is the error for a call beyond the bound of waiting calls.
	ErrFull = errors.New("too many calls wait for approval")
)

// DecidedError is the error for a second decision.
type DecidedError struct{ Entry Entry }

func (e *DecidedError) Error() string {
	verb := "denied"
	if e.Entry.State == Allowed {
		verb = "allowed"
	}
	return fmt.Sprintf("approval %s was %s already, by %s at %s", e.Entry.ID, verb, e.Entry.Decided.By, e.Entry.Decided.At.Local().Format("15:04:05"))
}

// errUnaskable is matched by errors after which another person can be asked.
var errUnaskable = errors.New("the client cannot be asked")

// errExpired is the cause of the end of a wait for a decision.
var errExpired = errors.New("nobody has decided in time")

// errDropped is the error of a waiting call whose entry has left the queue.
var errDropped = errors.New("it is not in the queue any more: this process was taken for dead, or somebody has removed it (make the call again)")
