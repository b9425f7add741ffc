package approval

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
)

// State is how far an Entry is.
type State string

// The states of an Entry. A used entry is removed, and so is the entry of a cancelled call.
const (
	Open    State = "open"
	Allowed State = "allowed" // the call may be made once
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
	Expires  time.Time `json:"expires"` // from then on the entry does not count
	// Holder is the process in which the call waits; "" if the call was answered.
	Holder  string   `json:"holder,omitempty"`
	Decided *Decided `json:"decided,omitempty"` // nil while the entry is open
}

// Decided is the decision of a person about an Entry.
type Decided struct {
	By       string    `json:"by"`
	How      string    `json:"how"` // HowQueue or HowPage
	At       time.Time `json:"at"`
	Note     string    `json:"note,omitempty"`
	Remember Remember  `json:"remember,omitempty"`
}

// verdict returns the decision.
func (e *Entry) verdict() Verdict {
	return Verdict{Allow: e.State == Allowed, By: e.Decided.By, Note: e.Decided.Note}
}

func (e *Entry) name() documents.Name { return documents.Name{Kind: documents.Queue, ID: e.ID} }

// expired reports whether an entry no longer counts. While a call waits in a process, only that
// process judges how long, also until the process takes the decision: the process and the person
// who decides may have the clocks of different machines.
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

// over reports whether an object with these times no longer counts. A clock that was set back does
// not prolong the object's life.
func over(now, created, expires time.Time) bool {
	return !now.Before(expires) || created.Sub(now) > maxClockStep
}
