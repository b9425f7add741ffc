// Package stateless answers requests of the stateless era, each of which names the asking client
// and the revision (revision 2026-07-28, basic/index). Begin with Principal, then Exchange.
// Packages front and streamable pass the requests of stdio and of HTTP.
//
// Requests need no session, but the router does: lists, subscriptions and isolated upstreams belong
// to a session. Here the Principal is the session, so lists and subscriptions depend only on the
// credentials of a request.
//
// A question to the client is the answer to the client's request. The call is then parked, until
// the client repeats the request with answers. So a call outlives the first request.
package stateless

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Backend answers the requests of principals.
type Backend interface {
	// Discover returns the current knowledge about this server, and assumptions about the unknown
	// rest. Discover does not wait, and starts no server. The session may not have begun.
	Discover(s route.Session) route.InitializeResult
	// AwaitServers waits until Discover knows the servers, as long as a client may have to wait for
	// the first answer, or until ctx ends.
	AwaitServers(ctx context.Context, s route.Session)
	// Begin begins the session of a principal, without waiting.
	Begin(s route.Session)
	// Handle answers every other request of the revision, and unknown requests.
	Handle(ctx context.Context, call route.Call) wire.Reply
	// EndSession is called after the end of a session begun by Begin.
	EndSession(s route.Session)
	// Hints returns how long a client may keep the result of a request; nil if results of the
	// method have no hints. A result with hints keeps the hints.
	Hints(call route.Call) *envelope.Hints
}

// Submitter is a Backend that can answer some requests without a waiting goroutine; see
// route.Router.Submit.
type Submitter interface {
	Submit(call route.Call, to route.Responder) (cancel func(cause error), ok bool)
}

// TaskWatcher is a Backend that announces changes of tasks of the extension; see
// route.Router.WatchTask.
type TaskWatcher interface {
	WatchTask(ctx context.Context, s route.Session, id string) (stop func(), ok bool)
}

// Tracer follows requests, for telemetry. A Tracer is safe for concurrent use and must not block.
type Tracer interface {
	// BeginRequest is called with each request of a client that is not refused at once, except ping
	// and subscriptions/listen. o may be the origin of the session. id and params are raw. A nil
	// Span is not told the end.
	BeginRequest(o route.Origin, method string, id, params []byte) rpc.Span
}

// Options of a Principal. Backend and Log must be set.
type Options struct {
	Backend       Backend
	Name, Version string // of this server
	// Principal is the principal of route.Session: the holder of the credentials; "" for all
	// clients without credentials.
	Principal string
	// ManyClients is set if the requests may come from several programs.
	ManyClients bool
	// Rights and TokenName return the values for route.Session; nil: none.
	Rights    func() *bearer.Rights
	TokenName func() string
	// Tracer follows requests; may be nil.
	Tracer Tracer
	// Sealer seals the states of parked calls; nil: a Sealer with a random key.
	Sealer *requeststate.Sealer
	// Lost is the method of route.Replicas; nil without a fleet.
	Lost func(replica string) (description string, ended bool)
	// Parking bounds the parked calls of all principals; nil: of this principal only. Budget has
	// the memory of the parked calls; nil: the memory is not counted.
	Parking *Parking
	Budget  *budget.Budget
	// InputTimeout returns how long a parked call waits for the client; nil or 0: the default of
	// limits.InputTime.
	InputTimeout func() time.Duration
	Log          *slog.Logger
}

// ErrNoRequest is the error of a question to a client without a request in progress that allows
// questions.
var ErrNoRequest = errors.New("a client of this revision can only be asked in the middle of tools/call, prompts/get or resources/read")

// Principal is the shared state of requests with the same credentials. It implements route.Session.
type Principal struct {
	id         string // for records
	opts       Options
	submitter  Submitter // the Backend, if the Backend is a Submitter; else nil
	serverInfo []byte
	stamp      envelope.Stamp  // with serverInfo
	ctx        context.Context // of the calls
	cancel     context.CancelCauseFunc

	open   sync.WaitGroup // exchanges and listeners still at work
	timers sync.WaitGroup // functions of timers

	beginning sync.Once
	asked     atomic.Bool // for server/discover

	mu        sync.Mutex // guards the fields below; a leaf
	begun     bool
	client    []byte               // of the request that began the session; with many clients without capabilities
	parked    map[string]*Exchange // exchanges with questions, by id
	held      int                  // by Hold
	listeners map[*listener]bool
	uris      map[string]*subscription // of all listeners
}

// New makes a Principal. The caller passes the requests to Serve, and must call Close. ctx ends the
// calls.
func New(ctx context.Context, opts Options) *Principal {
	p := &Principal{
		id: rand.Text()[:16], opts: opts,
		parked: map[string]*Exchange{}, listeners: map[*listener]bool{}, uris: map[string]*subscription{},
	}
	if p.opts.Parking == nil {
		p.opts.Parking = new(Parking)
	}
	if p.opts.Sealer == nil {
		p.opts.Sealer = requeststate.New(requeststate.NewKey, time.Now)
	}
	p.submitter, _ = opts.Backend.(Submitter)
	var info wire.Object
	info.Text("name", opts.Name)
	info.Text("version", opts.Version)
	p.serverInfo = info.Bytes()
	p.stamp = envelope.NewStamp(p.serverInfo)
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return p
}

// Serve answers a request with an envelope that Check has accepted. The params of the request no
// longer have the envelope. Serve does not block.
func (p *Principal) Serve(r *rpc.Request, e envelope.Envelope) {
	switch r.Method {
	case protocol.MethodDiscover:
		if !p.opts.ManyClients { // servers get to know their client
			p.begin(e)
		}
		if p.asked.Swap(true) {
			r.Reply(wire.Reply{Result: p.discover()})
			return
		}
		r.Start(func(ctx context.Context, _ *rpc.Request) wire.Reply {
			p.opts.Backend.AwaitServers(ctx, p)
			return wire.Reply{Result: p.discover()}
		})
		return
	case protocol.MethodListen:
		p.begin(e)
		p.listen(r, e)
		return
	}
	p.begin(e)
	if p.opts.Tracer != nil {
		r.Observe(p.opts.Tracer.BeginRequest(p, r.Method, r.ID, r.Params))
	}
	if MayAsk(r.Method) && p.retry(r, e) {
		return
	}
	p.exchange(r, e)
}

// begin begins the session with the first request that needs the session. Other requests wait for
// the beginning.
func (p *Principal) begin(e envelope.Envelope) {
	p.beginning.Do(func() {
		if p.opts.ManyClients {
			e.Capabilities = []byte("{}") // each request has capabilities of its own
		}
		p.mu.Lock()
		p.begun, p.client = true, e.Client()
		p.mu.Unlock()
		p.opts.Backend.Begin(p)
	})
}

// inputTimeout returns how long a parked call waits for the client.
func (p *Principal) inputTimeout() (d time.Duration) {
	if p.opts.InputTimeout != nil {
		d = p.opts.InputTimeout()
	}
	return cmp.Or(d, time.Duration(limits.InputTime.Default))
}

// Busy reports whether the principal has a call or a result that waits for the client, or work
// without a request.
func (p *Principal) Busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.parked) > 0 || p.held > 0
}

// Hold implements route.Holder.
func (p *Principal) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held--
	}
}

// End cancels all calls, without blocking.
func (p *Principal) End(cause error) {
	p.cancel(cause)
	p.mu.Lock()
	parked := make([]*Exchange, 0, len(p.parked))
	for _, x := range p.parked {
		parked = append(parked, x)
	}
	p.mu.Unlock()
	for _, x := range parked {
		x.abandon(cause)
	}
}

// Close ends all calls and waits for them, for most at a time. Close returns false if some calls
// continue nevertheless. The connections with the requests must have ended.
func (p *Principal) Close(most time.Duration) (ended bool) {
	p.End(wire.ErrClosed)
	done := make(chan struct{})
	go func() {
		p.open.Wait()
		p.timers.Wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		ended = true
	case <-timer.C:
	}
	p.mu.Lock()
	begun := p.begun
	p.mu.Unlock()
	if begun {
		p.opts.Backend.EndSession(p)
	}
	return ended
}

// ID implements route.Session.
func (p *Principal) ID() string { return p.id }

// Principal implements route.Session.
func (p *Principal) Principal() string { return p.opts.Principal }

// Rights implements route.Session.
func (p *Principal) Rights() *bearer.Rights {
	if p.opts.Rights == nil {
		return nil
	}
	return p.opts.Rights()
}

// TokenName implements route.Session.
func (p *Principal) TokenName() string {
	if p.opts.TokenName == nil {
		return ""
	}
	return p.opts.TokenName()
}

// ManyClients reports whether the requests may come from several clients, so that messages for a
// client must not reach another client; see route.Peer.
func (p *Principal) ManyClients() bool { return p.opts.ManyClients }

// Session implements route.Origin.
func (p *Principal) Session() route.Session { return p }

// Revision implements route.Origin.
func (p *Principal) Revision() protocol.Revision { return protocol.Stateless.Newest() }

// Client implements route.Origin. Each request has capabilities of its own. A Principal has the
// capabilities of the first request, and none with many clients.
func (p *Principal) Client() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// LogLevel implements route.Origin.
func (p *Principal) LogLevel() string { return "" }

// Ask implements route.Origin.
func (p *Principal) Ask(_ context.Context, call wire.Call) (wire.Reply, error) {
	return wire.Reply{}, fmt.Errorf("%s: %w", call.Method, ErrNoRequest)
}

var (
	_ route.Session = (*Principal)(nil)
	_ route.Holder  = (*Principal)(nil)
)

// discover returns the result of server/discover. The result can change when servers start, and
// depends on the asking client.
func (p *Principal) discover() []byte {
	known := p.opts.Backend.Discover(p)
	var versions [][]byte
	for _, name := range slices.Concat(protocol.Stateless.Names(), protocol.Handshake.Names()) {
		versions = append(versions, wire.Quote(name))
	}
	meta, err := wire.Set(known.Meta, p.serverInfo, envelope.KeyServerInfo)
	if err != nil { // the servers' description of themselves is not an object
		meta, _ = wire.Set(nil, p.serverInfo, envelope.KeyServerInfo)
	}
	var result wire.Object
	result.Text("resultType", envelope.TypeComplete)
	result.Raw("supportedVersions", wire.Array(versions))
	result.Raw("capabilities", capabilities(known))
	result.NonEmpty("instructions", known.Instructions)
	result.Int("ttlMs", 0)
	result.Text("cacheScope", envelope.ScopePrivate)
	result.Raw("_meta", meta)
	return result.Bytes()
}

// capabilities returns this server's capabilities in this era.
func capabilities(known route.InitializeResult) []byte {
	all := known.Capabilities
	// The tasks in capabilities are of the handshake era.
	if some, err := wire.Delete(all, "tasks"); err == nil {
		all = some
	}
	return all
}

// Check reads the envelope of a request, and checks that the named revision has the request. h are
// the headers of an HTTP request, or nil. The request is refused with the returned error.
func Check(h http.Header, m wire.Message) (envelope.Envelope, *wire.RPCError) {
	if bad := sameVersion(h, m.Params); bad != nil {
		return envelope.Envelope{}, bad
	}
	e, bad := envelope.Parse(m.Params)
	if bad == nil && h != nil && e.Revision.Has(protocol.StandardHeaders) {
		bad = envelope.CheckHeaders(h, m.Method, m.Params)
	}
	if bad == nil && !hasMethod(e.Revision, m.Method) {
		bad = wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", m.Method)
	}
	return e, bad
}

// sameVersion checks that the header with the revision, if present, agrees with the envelope, if
// present. This check comes before all other checks: a request with two different revisions is not
// interpreted at all.
func sameVersion(h http.Header, params []byte) *wire.RPCError {
	named := h[envelope.HeaderVersion]
	body := envelope.Version(params)
	if body == "" || len(named) == 0 || len(named) == 1 && named[0] == body {
		return nil
	}
	return envelope.Mismatch("the header %s does not match the body", envelope.HeaderVersion)
}

// hasMethod reports whether a revision has a request. A revision may also have a request of an
// extension, which no known revision has.
func hasMethod(r protocol.Revision, method string) bool {
	if m, ok := r.Method(protocol.Client, method); ok {
		return m.Kind == protocol.Request
	}
	if protocol.IsTaskRequest(method) {
		return true
	}
	_, removed := protocol.FindMethod(protocol.Client, method)
	_, other := protocol.FindMethod(protocol.Server, method)
	return !removed && !other
}

// IsStateless reports whether a message is of this era, judged by the body alone. A request for
// server/discover is of this era even without an envelope: no other revision has server/discover.
func IsStateless(m wire.Message) bool {
	return m.Method == protocol.MethodDiscover && m.IsRequest() || m.Method != "" && envelope.IsPresent(m.Params)
}

// HeaderEra is the era of a request according to the header with the revision.
type HeaderEra int

const (
	// NoHeader: the request has no header. Clients send no header with initialize, and some old
	// clients with no request.
	NoHeader HeaderEra = iota
	// HandshakeHeader and StatelessHeader: the header names a revision of this era.
	HandshakeHeader
	StatelessHeader
	// UnknownHeader: the header names no known revision, or several revisions.
	UnknownHeader
)

// EraOfHeader returns the era according to the headers of a request.
func EraOfHeader(h http.Header) HeaderEra {
	named := h[envelope.HeaderVersion]
	if len(named) == 0 {
		return NoHeader
	}
	for _, name := range named[1:] {
		if name != named[0] {
			return UnknownHeader
		}
	}
	revision, ok := protocol.Lookup(named[0])
	switch {
	case named[0] == "":
		return NoHeader
	case !ok:
		return UnknownHeader
	case revision.Era() == protocol.Stateless:
		return StatelessHeader
	}
	return HandshakeHeader
}

// Contradicts returns the error for a request of this era, judged by the body, with a header of
// another revision; nil if header and body agree. A request is never interpreted in an era that
// only the header or only the body names.
func Contradicts(h http.Header, m wire.Message) *wire.RPCError {
	switch EraOfHeader(h) {
	case StatelessHeader, UnknownHeader: // which Check compares with the body
		return nil
	case HandshakeHeader:
		return envelope.Mismatch("the header %s does not match the body", envelope.HeaderVersion)
	}
	if !envelope.IsPresent(m.Params) {
		return nil // Check reports the missing header
	}
	return envelope.Mismatch("the header %s is missing", envelope.HeaderVersion)
}

// Status returns the HTTP status of an answer with a JSON-RPC error code. lacked means that this server
// does not have the method of the request. An error of a single call does not count (revision
// 2026-07-28, basic/transports/streamable-http, "Response Codes").
func Status(code int, lacked bool) int {
	switch code {
	case wire.CodeMethodNotFound:
		if lacked {
			return http.StatusNotFound
		}
	case protocol.CodeMissingCapability, protocol.CodeHeaderMismatch, protocol.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// mayAsk are the requests that a question can answer (revision 2026-07-28, basic/patterns/mrtr).
var mayAsk = []string{protocol.MethodToolsCall, protocol.MethodPromptsGet, protocol.MethodResourcesRead}

// MayAsk reports whether a question can answer a request with a method.
func MayAsk(method string) bool { return slices.Contains(mayAsk, method) }
