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

// SoonObserver is an Observer that can be told without waiting for it.
type SoonObserver interface {
	Observer
	// ObserveSoon is Observe that does not block: then is called, by any goroutine
	// and perhaps before it returns, once it has been told. It is false, and
	// nothing has been done, where only Observe will do.
	ObserveSoon(call ObservedCall, then func()) bool
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
