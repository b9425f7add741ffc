package budget

import (
	"fmt"
	"math"
)

// part is a part of a Budget. Runs have three quarters; the rest is the memory of messages. Of the
// memory of messages,
//
//   - lists of servers can have a half, sessions with the data kept beyond a request a
//     quarter, and saved tools an eighth: they stay for long. Kept data leaves a quarter of its
//     part for sessions;
//   - messages unread by clients can have a half of the memory left by these three;
//   - messages in reading and handling can have the memory left by these three. Messages of clients
//     leave a quarter of it for answers of servers, without which calls in flight could not finish.
//
// Unread messages of clients are counted separately, since they do not wait: no answer would end
// their wait.
type part int

const (
	ofRuns part = iota
	ofMessages
	ofUnread
	ofSessions
	ofLists
	ofSaved
	parts
)

// partOf is the part of each kind of Hold.
var partOf = [kinds]part{body: ofMessages, request: ofMessages, answer: ofMessages, unread: ofUnread, session: ofSessions, kept: ofSessions, list: ofLists, savedTool: ofSaved}

// part returns the part of h.
func (h *Hold) part() part {
	if h.run != nil {
		return ofRuns
	}
	return partOf[h.kind]
}

// shares returns the bytes of the group and the owner of h in h's part.
func (h *Hold) shares() (group, own int64) {
	own = h.owner.in[h.part()]
	if group = own; h.owner.group != nil {
		group = h.owner.group.in[h.part()]
	}
	return group, own
}

// TooLargeError means that a request can never fit, even after a wait.
type TooLargeError struct {
	Bytes, Most int64 // the requested bytes, and the maximum of one owner
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes exceed the share of %d bytes that one session can have of the memory for messages", e.Bytes, e.Most)
}

// LimitName returns the name of the reached limit; see package limits.
func (e *TooLargeError) LimitName() string { return "total_memory" }

// mostOfMessages returns the most bytes for all messages together, including kept data.
func (b *Budget) mostOfMessages() int64 { return b.total / 4 }

// LargestMessage returns the size of the largest readable message, in bytes; 0 for no limit.
func (b *Budget) LargestMessage() int {
	if b == nil {
		return 0
	}
	return int(min(b.mostOfMessages()/Copies, math.MaxInt))
}

// forMessages returns the bytes that lists, sessions and saved tools leave for messages.
func (b *Budget) forMessages() int64 {
	return b.mostOfMessages() - b.in[ofLists] - b.in[ofSessions] - b.in[ofSaved]
}

// ceiling returns the number of bytes up to which h may fill h's part of the budget.
func (b *Budget) ceiling(h *Hold) int64 {
	switch h.part() {
	case ofRuns:
		return b.mostOfRuns()
	case ofLists:
		return b.mostOfMessages() / 2
	case ofSessions:
		if h.kind == kept {
			return b.mostOfMessages() / 16 * 3
		}
		return b.mostOfMessages() / 4
	case ofSaved:
		return b.mostOfMessages() / 8
	case ofUnread:
		return b.forMessages() / 2
	}
	if h.kind == answer {
		return b.forMessages()
	}
	return b.forMessages() / 4 * 3
}

// most returns the most bytes that h can ever have. A single message may exceed the budget, but not
// by more than the memory of all messages.
func (b *Budget) most(h *Hold) int64 {
	switch {
	case h.run != nil:
		return b.mostOfRuns()
	case h.kind == answer, h.kind == request:
		return b.mostOfMessages()
	case h.kind == body:
		return b.mostOfMessages() / 4 * 3 * leftFactor / (leftFactor + 1)
	}
	return b.ceiling(h) * leftFactor / (leftFactor + 1)
}

// against returns the bytes that count against the ceiling of h.
func (b *Budget) against(h *Hold) int64 {
	if p := h.part(); p != ofMessages {
		return b.in[p]
	}
	return b.in[ofMessages] + b.in[ofUnread]
}

// fits reports whether h can have n more bytes now.
func (b *Budget) fits(h *Hold, n int64) bool {
	if h.run == nil && b.overBudget[h.kind] == h {
		return true
	}
	left := b.ceiling(h) - b.against(h) - n
	if left < 0 {
		return false
	}
	if h.kind == answer && h.owner.key == nil { // of no server in particular
		return true
	}
	group, own := h.shares()
	return group+n <= leftFactor*left && own+n <= leftFactor*left
}
