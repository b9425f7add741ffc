package route

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Observer sees the calls of upstreams' tools that clients make themselves, without a script, and
// the other requests of clients about which the Gate asks or that the Gate denies. An Observer is
// called by the goroutine that answers the call, before the answer is sent, and must be safe for
// concurrent use.
type Observer interface {
	// Observes reports whether the Observer wants to see calls at all. Observes is called before
	// each call.
	Observes() bool
	// Observe is called when a call is over.
	Observe(call ObservedCall)
}

// AsyncObserver is an Observer that can also take calls without blocking.
type AsyncObserver interface {
	Observer
	// ObserveAsync is Observe without blocking. When done, ObserveAsync calls then, on any
	// goroutine and perhaps before the return. If the result is false, nothing was done, and the
	// caller must use Observe.
	ObserveAsync(call ObservedCall, then func()) bool
}

// ObservedCall is a finished call.
type ObservedCall struct {
	Origin       Origin // of the request
	Kind         policy.Kind
	Server, Tool string // real names; for another kind than a tool, the names in policy.Request
	Params       []byte // as they were sent to the server, or would have been
	Unsent       bool   // the server did not get Params, since the call was denied, for example
	Reply        wire.Reply
	Cancelled    bool // the client has cancelled the call and gets no answer
	Start        time.Time
	Duration     time.Duration
	Decision     policy.Decision // of the Gate; zero without a Gate
}
