package telemetry

import (
	"context"
	"crypto/rand"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// upstreams implements servers.Observer.
type upstreams struct{ t *Telemetry }

// Upstreams returns the observer of connections with upstreams; nil if t is.
func (t *Telemetry) Upstreams() servers.Observer {
	if t == nil {
		return nil
	}
	return upstreams{t}
}

// connection is a connection with an upstream, as servers.Connection.
type connection struct {
	t        *Telemetry
	about    []attribute.KeyValue // the upstream and the transport
	id       string               // of the session, for records
	start    time.Time
	revision atomic.Pointer[string] // nil before the handshake
}

// Connect implements servers.Observer.
func (u upstreams) Connect(spec servers.Spec, again bool) servers.Connection {
	c := &connection{t: u.t, id: rand.Text()[:16], start: time.Now(), about: []attribute.KeyValue{keyUpstream.String(spec.Name)}}
	if spec.URL == "" {
		c.about = append(c.about, overPipe...)
	} else {
		c.about = append(append(c.about, overHTTP...), maskAttributes(serverOf(spec.URL), u.t.mask)...)
	}
	if again && u.t.meters != nil {
		u.t.restarts.Add(context.Background(), 1, metric.WithAttributes(c.about[0]))
	}
	return c
}

// Agreed implements servers.Connection.
func (c *connection) Agreed(revision string) { c.revision.Store(&revision) }

// Ended implements servers.Connection. A connection without a handshake was no session.
func (c *connection) Ended() {
	revision := c.revision.Load()
	if revision == nil || c.t.meters == nil {
		return
	}
	attributes := append(slices.Clone(c.about), keyRevision.String(*revision))
	c.t.clientSession.Record(context.Background(), time.Since(c.start).Seconds(), metric.WithAttributes(attributes...))
}

// BeginCall implements rpc.Tracer.
func (c *connection) BeginCall(ctx context.Context, id int64, call wire.Call) ([]byte, rpc.Span) {
	about := c.about
	if revision := c.revision.Load(); revision != nil {
		about = append(slices.Clip(about), keyRevision.String(*revision))
	}
	params, span := c.t.call(ctx, id, call, protocol.Client, about)
	if s, ok := span.(*sent); ok && s.span != nil && s.span.IsRecording() {
		s.span.SetAttributes(keySession.String(c.id))
	}
	return params, span
}

// sent is a request to a peer, as rpc.Span.
type sent struct {
	t      *Telemetry
	target target
	method string // of metrics
	about  []attribute.KeyValue
	start  time.Time
	ctx    context.Context // with the span, if any
	span   trace.Span      // nil: no spans
}

// call follows a request to a peer, with sender in the role of the sender. about are attributes of
// the connection; call does not change them.
func (t *Telemetry) call(ctx context.Context, id int64, c wire.Call, sender protocol.Party, about []attribute.KeyValue) ([]byte, rpc.Span) {
	if c.Method == protocol.MethodListen { // lasts as long as the connection
		return c.Params, nil
	}
	s := &sent{t: t, target: targetOf(c.Method, c.Params), about: about, start: time.Now(), ctx: beneath(ctx, c.Owner)}
	if !trace.SpanContextFromContext(s.ctx).IsValid() {
		s.ctx = extract(s.ctx, c.Params)
	}
	s.method = s.target.common(sender)
	params := c.Params
	if t.tracer != nil {
		name := s.method
		if s.target.name != "" {
			name += " " + s.target.name
		}
		s.ctx, s.span = t.tracer.Start(s.ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(s.start))
		if s.span.IsRecording() {
			s.span.SetAttributes(s.target.span()...)
			s.span.SetAttributes(number(id))
			s.span.SetAttributes(about...)
		}
		params = inject(s.ctx, params)
	}
	return params, s
}

// End implements rpc.Span.
func (s *sent) End(reply wire.Reply, err error) {
	now := time.Now()
	how := outcomeOf(reply, err)
	if s.span != nil {
		how.set(s.span)
		s.span.End(trace.WithTimestamp(now))
	}
	if s.t.meters == nil {
		return
	}
	attributes := s.target.metric(s.method, how.errorType == "" || how.errorType == toolError, s.t.mask)
	attributes = append(append(attributes, how.bounded().attributes()...), s.about...)
	s.t.clientDuration.Record(s.ctx, now.Sub(s.start).Seconds(), metric.WithAttributes(attributes...))
}
