package approval

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
)

// State is how far an Entry is.
type State string

// The states of an Entry. One that was used, or whose call was cancelled, is gone.
const (
	Open    State = "open"
	Allowed State = "allowed" // one call may be made
	Denied  State = "denied"
)

// Entry is a call in the queue.
type Entry struct {
	ID       string    `json:"id"`
	State    State     `json:"state"`
	Subject  Subject   `json:"subject"`
	Question Question  `json:"question"`
	Asker    string    `json:"asker"` // of whom MaxWaiting is
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"` // then it is as if it had never been
	// Holder is the process in which the call waits; "" if the call was answered.
	Holder  string   `json:"holder,omitempty"`
	Decided *Decided `json:"decided,omitempty"` // nil while it is open
}

// Decided is what somebody has decided about an Entry.
type Decided struct {
	By       string    `json:"by"`
	How      string    `json:"how"` // HowQueue or HowPage
	At       time.Time `json:"at"`
	Note     string    `json:"note,omitempty"`
	Remember Remember  `json:"remember,omitempty"`
}

// verdict returns what was decided.
func (e *Entry) verdict() Verdict {
	return Verdict{Allow: e.State == Allowed, By: e.Decided.By, Note: e.Decided.Note}
}

func (e *Entry) name() documents.Name { return documents.Name{Kind: documents.Queue, ID: e.ID} }

// expired reports whether an entry does not count any more. How long a call waits in a process
// is for that one to say, also until it takes the decision: its clock may be that of another
// machine, and so may that of whoever has decided.
func (q *Queue) expired(e *Entry) bool {
	if e.Holder != "" {
		if e.State == Open && q.place.Abandoned(e.Holder) {
			return true
		}
		if q.place.Holds(e.Holder) {
			return false
		}
	}
	return over(q.now(), e.Created, e.Expires)
}

// maxClockStep is by how much the clock may be set back without ending approvals.
const maxClockStep = time.Minute

// over reports whether something of this time does not count any more. A clock that was set
// back does not make it last longer.
func over(now, created, expires time.Time) bool {
	return !now.Before(expires) || created.Sub(now) > maxClockStep
}
