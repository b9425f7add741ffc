package rpc

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Tracer follows the calls of a connection, for telemetry. It is safe for concurrent use
// and must not block.
type Tracer interface {
	// BeginCall is called with each call before it is sent, with the id that it has on
	// the wire. ctx is that of Conn.Call; Submit has none and passes an empty one.
	// BeginCall returns the params to send. A nil Span is not told the end.
	BeginCall(ctx context.Context, id int64, call wire.Call) (params []byte, span Span)
}

// Span follows one request, in either direction.
type Span interface {
	// End is called once with the outcome: a reply, or why there is none. It must not
	// block. A call that Submit could not send, and that is made again with Call, has a
	// Span that never ends.
	End(reply wire.Reply, err error)
}

// trace begins the span of a call, and sets the params to send.
func (c *Conn) trace(ctx context.Context, p *call, call *Call) {
	call.Params, p.span = c.opts.Tracer.BeginCall(ctx, p.id, call.Call)
}

// endSpan ends the span of a call, if it has one.
func (p *call) endSpan(reply wire.Reply, err error) {
	if p.span != nil {
		p.span.End(reply, err)
	}
}

// Observe sets the span that is told how the request ends. The handler calls it before
// anything else.
func (r *Request) Observe(s Span) { r.span = s }

// Span returns what Observe has set, nil for nothing.
func (r *Request) Span() Span { return r.span }
