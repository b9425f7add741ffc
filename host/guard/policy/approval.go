package policy

import "time"

// Approval says who was asked about a request that a Decision asks about, and what became of
// that. Package approval makes it.
type Approval struct {
	// ID is that of the approval in the queue or of the remembered one; "" if it has none.
	ID string
	// By names who has decided; "" if nobody has.
	By string
	// How is the way in which that was done, such as "client", "queue", "page", "terminal",
	// "remembered", or "nobody".
	How string
	// Allowed reports whether the request may be made.
	Allowed bool
	At      time.Time     // when it was decided
	Waited  time.Duration // how long the request waited for that
	// Remembered reports that it was decided about an earlier request.
	Remembered bool
	// Digest is the keyed digest of what was decided about, in lower-case hex: tool,
	// arguments, definition, rule and client.
	Digest string
	Note   string // what the person has written; may be ""
}
