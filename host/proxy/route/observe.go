package route

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Observer sees the calls of upstreams' tools that clients make themselves, without
// a script, and what else clients ask for if the Gate asks for it or denies it. It is called
// by the goroutine that answers the call, before the answer is sent. It must be safe for
// concurrent use.
type Observer interface {
	// Observes reports whether it wants to see calls at all. It is asked before each
	// call.
	Observes() bool
	// Observe is called when a call is over.
	Observe(call ObservedCall)
}

// AsyncObserver is an Observer that can also take calls without blocking.
type AsyncObserver interface {
	Observer
	// ObserveAsync does what Observe does, but does not block. It calls then when it is
	// done, on any goroutine and perhaps before it returns. If it returns false, it has
	// done nothing, and the caller must use Observe.
	ObserveAsync(call ObservedCall, then func()) bool
}

// ObservedCall is a call that is over.
type ObservedCall struct {
	Origin       Origin // of the request
	Kind         policy.Kind
	Server, Tool string // real names; for another kind than a tool, what policy.Request has
	Params       []byte // as they were sent to the server, or would have been
	Unsent       bool   // the server did not get Params, since the call was denied, for example
	Reply        wire.Reply
	Cancelled    bool // the client has cancelled the call, so it gets no answer
	Start        time.Time
	Duration     time.Duration
	Decision     policy.Decision // of the Gate; zero if there is none
}
