package approval

import (
	"errors"
	"fmt"
	"strings"
)

// DeniedError says that a call was not approved.
type DeniedError struct {
	Target string // policy.Request.Target
	Rule   string // the rule that asks
	How    string // one of the constants such as HowClient
	By     string // who has denied it; "" if nobody was asked
	Note   string // what that person has written; may be ""
	Text   string // why nobody has allowed it, if nobody has denied it
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

// WaitingError says that a call waits in the queue. The caller can make it again.
type WaitingError struct {
	ID     string // of the approval
	Target string
	Rule   string
}

// Error does not name the command that allows the call: agents read it, and some can run
// commands.
func (e *WaitingError) Error() string {
	return fmt.Sprintf("waiting for approval %s: a person must allow %s first (rule %s). "+
		"Call it again with the same arguments when it is allowed", e.ID, quote(e.Target, maxTarget), quote(e.Rule, maxName))
}

// Errors of a Queue.
var (
	// ErrUnknown says that there is no approval with an id: it was used, has expired, or its
	// call was cancelled.
	ErrUnknown = errors.New("there is no such approval (it was used, has expired, or its call was cancelled)")
	// ErrFull says that too many calls wait.
	ErrFull = errors.New("too many calls wait for approval")
)

// DecidedError says that somebody has decided before.
type DecidedError struct{ Entry Entry }

func (e *DecidedError) Error() string {
	verb := "denied"
	if e.Entry.State == Allowed {
		verb = "allowed"
	}
	return fmt.Sprintf("approval %s was %s already, by %s at %s", e.Entry.ID, verb, e.Entry.Decided.By, e.Entry.Decided.At.Local().Format("15:04:05"))
}

// errUnaskable is matched by errors after which somebody else can be asked.
var errUnaskable = errors.New("the client cannot be asked")

// errExpired is the cause of the end of a wait for a decision.
var errExpired = errors.New("nobody has decided in time")

// errDropped says that a call is not in the queue any more, although it waits.
var errDropped = errors.New("it is not in the queue any more: this process was taken for dead, or somebody has removed it (make the call again)")
