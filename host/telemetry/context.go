package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// The members of params._meta that hold the trace context. They have no prefix (MCP SEP-414;
// revision 2026-07-28, basic, _meta). baggage, the third member, is forwarded unchanged.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

// maxContext bounds the parsed size of a client's trace context, in bytes.
const maxContext = 4096

var w3c = propagation.TraceContext{}

// metaCarrier is the trace context of a request. metaCarrier implements propagation.TextMapCarrier.
type metaCarrier struct{ parent, state string }

// Get implements propagation.TextMapCarrier.
func (c *metaCarrier) Get(key string) string {
	switch key {
	case traceparent:
		return c.parent
	case tracestate:
		return c.state
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c *metaCarrier) Set(key, value string) {
	switch key {
	case traceparent:
		c.parent = value
	case tracestate:
		c.state = value
	}
}

// Keys implements propagation.TextMapCarrier.
func (c *metaCarrier) Keys() []string { return []string{traceparent, tracestate} }

// extract returns ctx with the trace context of a request, if valid.
func extract(ctx context.Context, params []byte) context.Context {
	meta, ok := wire.Get(params, "_meta")
	if !ok {
		return ctx
	}
	var c metaCarrier
	c.parent, _ = wire.GetString(meta, traceparent)
	if c.parent == "" || len(c.parent) > maxContext {
		return ctx
	}
	if c.state, _ = wire.GetString(meta, tracestate); len(c.state) > maxContext {
		c.state = ""
	}
	return w3c.Extract(ctx, &c)
}

// inject returns params with the trace context of ctx. All other members stay unchanged. Params
// that cannot hold a trace context are returned unchanged.
func inject(ctx context.Context, params []byte) []byte {
	var c metaCarrier
	w3c.Inject(ctx, &c)
	if c.parent == "" {
		return params
	}
	out := params
	if out == nil {
		out = []byte("{}")
	}
	out, err := wire.Set(out, wire.Quote(c.parent), "_meta", traceparent)
	if err != nil {
		return params
	}
	before, has := wire.GetString(out, "_meta", tracestate)
	switch {
	case c.state == before:
		return out
	case c.state != "":
		out, err = wire.Set(out, wire.Quote(c.state), "_meta", tracestate)
	case has:
		out, err = wire.Delete(out, "_meta", tracestate) // of another trace
	}
	if err != nil {
		return params
	}
	return out
}

// spanned is a request of a client with a span; see front.request and stateless.Exchange.
type spanned interface{ Span() rpc.Span }

// beneath returns ctx with the parent span of work on behalf of owner: the span in ctx, or the span
// of owner, if owner is a request with a span.
func beneath(ctx context.Context, owner any) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	if o, ok := owner.(spanned); ok {
		if r, ok := o.Span().(*served); ok {
			return trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(r.ctx))
		}
	}
	return ctx
}
