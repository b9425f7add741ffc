package budget

import (
	"fmt"
	"math"
)

// part is a part of a Budget. Runs have three quarters of it; what is left is the memory
// of messages. Of that,
//
//   - lists of servers can have a half, sessions with what is kept for them beyond a request a
//     quarter, and saved tools an eighth: they stay for long. What is kept leaves a quarter of its
//     part for sessions;
//   - messages that clients have not read can have a half of what those three leave;
//   - messages that are being read and handled can have what those three leave. Those of
//     clients leave a quarter of that for answers of servers, without which calls in
//     flight could not finish.
//
// Messages that clients have not read are counted by themselves, since they do not wait:
// there is no answer that they could wait for.
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

// partOf is the part that each kind of Hold is of.
var partOf = [kinds]part{body: ofMessages, request: ofMessages, answer: ofMessages, unread: ofUnread, session: ofSessions, kept: ofSessions, list: ofLists, savedTool: ofSaved}

// part returns the part that h is of.
func (h *Hold) part() part {
	if h.run != nil {
		return ofRuns
	}
	return partOf[h.kind]
}

// shares returns the bytes that the group and the owner of h have in h's part.
func (h *Hold) shares() (group, own int64) {
	own = h.owner.in[h.part()]
	if group = own; h.owner.group != nil {
		group = h.owner.group.in[h.part()]
	}
	return group, own
}

// TooLargeError says that something can never fit, however long it waits.
type TooLargeError struct {
	Bytes, Most int64 // the bytes requested, and the most that one owner can have
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes are more than the %d that one session can have of the memory for messages", e.Bytes, e.Most)
}

// LimitName returns the name of the limit that was reached; see package limits.
func (e *TooLargeError) LimitName() string { return "total_memory" }

// mostOfMessages returns the most bytes that all messages together can have, with what is
// kept.
func (b *Budget) mostOfMessages() int64 { return b.total / 4 }

// LargestMessage returns the size of the largest message that can be read, in bytes; 0 for no
// limit.
func (b *Budget) LargestMessage() int {
	if b == nil {
		return 0
	}
	return int(min(b.mostOfMessages()/Copies, math.MaxInt))
}

// forMessages returns what lists, sessions and saved tools leave for messages.
func (b *Budget) forMessages() int64 {
	return b.mostOfMessages() - b.in[ofLists] - b.in[ofSessions] - b.in[ofSaved]
}

// ceiling returns how far h may fill its part of the budget.
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

// most returns the most bytes that h can ever have. A single message may exceed the
// budget, but not by more than all messages can have.
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

// against returns what counts against the ceiling of h.
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
