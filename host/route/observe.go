package route

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Observer is told of the calls that clients make of upstreams' tools, without a
// script. It is called by the goroutine that answers the call, before the answer
// is sent, and by several at once.
type Observer interface {
	// Observes tells whether it wants to be told at all; it is asked before each
	// call.
	Observes() bool
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

// observed passes a call on to an upstream.
func (r *Router) observed(ctx context.Context, call Call, entry catalog.Entry) wire.Reply {
	of := toolOf{r.Catalog, entry.Server, entry.Tool, true}
	out := wire.Call{Params: call.Params, Progress: call.Progress}
	if r.Observer == nil || !r.Observer.Observes() {
		return r.callTool(ctx, call.Origin, of, out)
	}
	start := time.Now()
	var sent []byte
	out.Sent = func(params []byte) { sent = params }
	reply := r.callTool(ctx, call.Origin, of, out)
	r.Observer.Observe(ObservedCall{
		Session: call.Origin.Session(), Server: entry.Server, Tool: entry.Tool, Params: sent,
		Reply: reply, Cancelled: ctx.Err() != nil, Start: start, Duration: time.Since(start),
	})
	return reply
}
