package rpc

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Tracer follows the calls of a connection, for telemetry. A Tracer is safe for concurrent use and
// must not block.
type Tracer interface {
	// BeginCall is called with each call before the call is sent, with the id on the wire. ctx is
	// the context of Conn.Call; Submit has none and passes an empty context. BeginCall returns the
	// params to send. The end of a call with a nil Span is not reported.
	BeginCall(ctx context.Context, id int64, call wire.Call) (params []byte, span Span)
}

// Span follows one request, in either direction.
type Span interface {
	// End is called once with the outcome: a reply, or the error. End must not block. If a call
	// that Submit could not send is made again with Call, the first Span never ends.
	End(reply wire.Reply, err error)
}

// trace begins the span of a call, and sets the params to send.
func (c *Conn) trace(ctx context.Context, p *call, call *Call) {
	call.Params, p.span = c.opts.Tracer.BeginCall(ctx, p.id, call.Call)
}

// endSpan ends the span of a call, if any.
func (p *call) endSpan(reply wire.Reply, err error) {
	if p.span != nil {
		p.span.End(reply, err)
	}
}

// Observe sets the span that is told the end of the request. The handler calls Observe first.
func (r *Request) Observe(s Span) { r.span = s }

// Span returns the span set by Observe, or nil.
func (r *Request) Span() Span { return r.span }
