package telemetry

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
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

// runs implements compose.Observer.
type runs struct{ t *Telemetry }

// Runs returns the observer of runs of composite tools; nil if t is.
func (t *Telemetry) Runs() compose.Observer {
	if t == nil {
		return nil
	}
	return runs{t}
}

// BeginRun implements compose.Observer. The span is an execute_tool span of the
// conventions for generative AI (docs/gen-ai/gen-ai-spans.md).
func (o runs) BeginRun(ctx context.Context, tool, id string, origin route.Origin) (context.Context, func(journal.Record)) {
	t, start := o.t, time.Now()
	ctx = beneath(ctx, origin)
	var span trace.Span
	if t.tracer != nil {
		ctx, span = t.tracer.Start(ctx, executeTool+" "+tool, trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(start),
			trace.WithAttributes(keyOperation.String(executeTool), keyTool.String(tool), keyRun.String(id)))
	}
	return ctx, func(rec journal.Record) {
		failure := ""
		if !rec.Outcome.Asks { // a run that asks goes on in another run
			failure = string(rec.Outcome.Error)
		}
		attributes := []attribute.KeyValue{keyTool.String(tool)}
		if failure != "" {
			attributes = append(attributes, keyErrorType.String(failure))
		}
		if span != nil {
			if span.IsRecording() {
				span.SetAttributes(keyRunFuel.Int64(int64(rec.Outcome.Fuel)), keyRunMemory.Int64(int64(rec.Outcome.Memory)), keyRunCalls.Int(len(rec.Calls)))
				if failure != "" {
					span.SetAttributes(attributes[1])
					span.SetStatus(codes.Error, "")
				}
			}
			span.End()
		}
		if t.meters == nil {
			return
		}
		set := metric.WithAttributeSet(attribute.NewSet(attributes...))
		t.runDuration.Record(ctx, time.Since(start).Seconds(), set)
		t.runFuel.Record(ctx, int64(rec.Outcome.Fuel), set)
		t.runMemory.Record(ctx, int64(rec.Outcome.Memory), set)
		t.runCalls.Record(ctx, int64(len(rec.Calls)), set)
	}
}
