package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Front follows requests from and to the clients of a front end. Front implements clients.Tracer,
// and is safe for concurrent use.
type Front struct {
	t       *Telemetry
	network network
	known   func(tool string) bool

	mu       sync.Mutex // guards sessions; a leaf
	sessions map[route.Session]time.Time
}

var _ clients.Tracer = (*Front)(nil)

// Front follows a front end over HTTP, or over standard input and output. known reports whether a
// tool exists; invented names do not get into metrics. The result is nil if t is.
func (t *Telemetry) Front(http bool, known func(tool string) bool) *Front {
	if t == nil {
		return nil
	}
	f := &Front{t: t, network: overPipe, known: known, sessions: map[route.Session]time.Time{}}
	if http {
		f.network = overHTTP
	}
	return f
}

// BeginSession notes that a session has begun. A nil Front does nothing.
func (f *Front) BeginSession(s route.Session) {
	if f == nil || f.t.meters == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[s] = time.Now()
}

// EndSession notes that a session has ended, if a BeginSession came before. A nil Front does
// nothing.
func (f *Front) EndSession(s route.Session) {
	if f == nil || f.t.meters == nil {
		return
	}
	f.mu.Lock()
	began, ok := f.sessions[s]
	delete(f.sessions, s)
	f.mu.Unlock()
	if ok {
		attributes := append(revisionOf(s), f.network...)
		f.t.serverSession.Record(context.Background(), time.Since(began).Seconds(), metric.WithAttributes(attributes...))
	}
}

// revisionOf returns the attribute for the revision of an origin, none for an unknown revision.
func revisionOf(o route.Origin) []attribute.KeyValue {
	if name := o.Revision().String(); name != "" {
		return []attribute.KeyValue{keyRevision.String(name)}
	}
	return nil
}

// served is a request of a client. served implements rpc.Span.
type served struct {
	front  *Front
	origin route.Origin
	target target
	method string // of metrics
	known  bool   // the target exists
	start  time.Time
	ctx    context.Context // with the span, if any
	span   trace.Span      // nil: no spans
}

// BeginRequest implements clients.Tracer.
func (f *Front) BeginRequest(o route.Origin, method string, id, params []byte) rpc.Span {
	r := &served{front: f, origin: o, target: targetOf(method, params), start: time.Now(), ctx: context.Background()}
	r.method = r.target.common(protocol.Client)
	r.known = r.isKnown()
	if f.t.tracer != nil {
		r.ctx, r.span = f.t.tracer.Start(extract(r.ctx, params), r.spanName(), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.start))
		if r.span.IsRecording() {
			r.span.SetAttributes(r.target.span()...)
			r.span.SetAttributes(requestID(id)...)
			r.span.SetAttributes(f.network...)
		}
	}
	if f.t.meters != nil {
		f.t.active.Add(r.ctx, 1, metric.WithAttributes(keyMethod.String(r.method)))
	}
	return r
}

// isKnown reports whether the request is about an existing tool or prompt, as far as is known.
func (r *served) isKnown() bool {
	return r.target.key == keyTool && r.target.name != "" && r.front.known(r.target.name)
}

// spanName returns the name of the span.
func (r *served) spanName() string {
	if r.known {
		return r.method + " " + r.target.name
	}
	return r.method
}

// End implements rpc.Span.
func (r *served) End(reply wire.Reply, err error) {
	now := time.Now()
	how := outcomeOf(reply, err)
	revision := revisionOf(r.origin) // now also known for initialize
	if !r.known {
		// The first requests come before the lists of upstreams.
		r.known = r.isKnown() || r.target.key == keyPrompt && r.target.name != "" && how.errorType == ""
		if r.known && r.span != nil {
			r.span.SetName(r.spanName())
		}
	}
	if r.span != nil {
		if r.span.IsRecording() {
			r.span.SetAttributes(revision...)
			if revision != nil && r.origin.Revision().Era() == protocol.Handshake {
				r.span.SetAttributes(keySession.String(r.origin.Session().ID()))
			}
			how.set(r.span)
		}
		r.span.End(trace.WithTimestamp(now))
	}
	t := r.front.t
	if t.meters == nil {
		return
	}
	t.active.Add(r.ctx, -1, metric.WithAttributes(keyMethod.String(r.method)))
	attributes := r.target.metric(r.method, r.known, t.mask)
	attributes = append(append(append(attributes, how.bounded().attributes()...), revision...), r.front.network...)
	t.serverDuration.Record(r.ctx, now.Sub(r.start).Seconds(), metric.WithAttributes(attributes...))
}

// BeginCall implements clients.Tracer, for requests to a client. They continue the trace named by
// the upstream, or else the trace of the client's request that the upstream is answering.
func (f *Front) BeginCall(ctx context.Context, id int64, c wire.Call) ([]byte, rpc.Span) {
	return f.t.call(extract(ctx, c.Params), id, c, protocol.Server, f.network)
}
