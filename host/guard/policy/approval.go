package policy

import "time"

// Approval says who was asked about a request, after a Decision with the action Ask, and with which
// result. Package approval makes Approvals.
type Approval struct {
	// ID is the id of the approval in the queue or of the remembered approval; "" for none.
	ID string
	// By is the name of the person who decided; "" for none.
	By string
	// How is the way of the decision, for example "client", "queue", "page", "terminal",
	// "remembered", or "nobody".
	How string
	// Allowed reports whether the request may be made.
	Allowed bool
	At      time.Time     // time of the decision
	Waited  time.Duration // how long the request waited for the decision
	// Remembered reports: the decision was about an earlier request.
	Remembered bool
	// Digest is the keyed digest of the subject of the decision, in lower-case hex: tool,
	// arguments, definition, rule and client.
	Digest string
	Note   string // the person's note; may be ""
}
