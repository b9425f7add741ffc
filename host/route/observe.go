package route

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Observer sees the calls of upstreams' tools that clients make themselves, without
// a script. It is called by the goroutine that answers the call, before the answer is
// sent. It must be safe for concurrent use.
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
	// ObserveAsync is Observe that does not block. It calls then when it is done, on any
	// goroutine and perhaps before it returns. If it returns false, it has done nothing,
	// and Observe must be called.
	ObserveAsync(call ObservedCall, then func()) bool
}

// ObservedCall is a call that is over.
type ObservedCall struct {
	Session      Session
	Server, Tool string // real names
	Params       []byte // as they left for the server; nil if they did not
	Reply        wire.Reply
	Cancelled    bool // and so not answered
	Start        time.Time
	Duration     time.Duration
}
