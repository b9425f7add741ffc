// Package route routes requests and notifications between clients and upstreams: requests of
// clients go to an upstream or to the handler of built-in and composite tools, requests of
// upstreams go to the right client. Messages are moved as raw bytes.
//
// Begin with [Router.Handle], which routes each request of a client, and with [Peer], which does so
// for the messages of an upstream. [Session], [Origin] and [Call] are the router's view of clients,
// [Upstreams] finds the connections to servers, and [Gate] decides which requests policy permits.
//
// Handlers are registered, so that the handler of composite tools can call the router without an
// import cycle.
package route

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// Handler answers calls of built-in or composite tools. The reply is ignored when
// ctx has ended.
type Handler interface {
	CallTool(ctx context.Context, name string, call Call) wire.Reply
}

// Options of a Router. All but Instructions, HandshakeWait, Started,
// Refreshed, Availability, Refresh, Version, Budget, Gate, Observer, Sealer and Runs must be set.
type Options struct {
	Catalog   *catalog.Catalog
	Upstreams Upstreams
	// Instructions returns our own part of the instructions in the answer to a
	// session's initialize; nil: none.
	Instructions func(s Session) string
	// HandshakeWait is how long the answer to initialize waits for the handshakes of
	// upstreams; 0 means DefaultHandshakeWait.
	HandshakeWait time.Duration
	// Listing are the turns of making the answers to requests for lists; nil: no limit.
	Listing *budget.Turns
	// Budget has the memory kept for sessions; nil: memory is not counted.
	Budget *budget.Budget
	// Settled waits until the lists of every upstream are known, as long as a client may have to
	// wait for lists, or until ctx ends. Remembered lists of an earlier run count as known.
	Settled func(ctx context.Context)
	// Refreshed, when set, waits until the changes of lists announced by the upstreams of a session
	// are in the catalog, for a while at most.
	Refreshed func(ctx context.Context, s Session, surfaces ...wire.Surface)
	// Started is like Settled, but remembered lists do not count; nil means Settled.
	Started func(ctx context.Context)
	// Availability, when set, explains why upstreams are unavailable.
	Availability Availability
	// Refresh, when set, updates the saved tools in the catalog, since another process may have
	// changed them. Refresh is called before the catalog is read for the client of a session.
	Refresh func(s Session)
	// RefreshCalled is Refresh before a call of a saved tool in the catalog. The handler of the
	// tool makes sure that the definition is the latest. Nil means Refresh.
	RefreshCalled func(s Session)
	// Version, when set, returns the current policy.Request.Version of the saved tool with a name,
	// as called by the client of a session.
	Version func(s Session, name string) string
	// Gate, when set, decides which requests may be made.
	Gate Gate
	// Observer, when set, sees proxied calls.
	Observer Observer
	// Sealer seals the states that clients return with their answers. Nil: a Sealer with a new key,
	// so that sealed states cannot be opened after a restart.
	Sealer *requeststate.Sealer
	// Labels, when set, returns the labels of an answer given to a client: of a tool, or of a
	// resource or prompt by URI or name. result is the raw result.
	Labels func(server, name string, result []byte) flow.Labels
	// Runs, when set, makes tasks of long calls of composite tools.
	Runs Runs
	// Replicas are the other replicas of a fleet; nil for none.
	Replicas Replicas
	Log      *slog.Logger
}

// Availability explains why upstreams are unavailable to a session, in sentences for models,
// without secrets. The methods do not wait.
type Availability interface {
	// Unavailable returns why a server is unavailable, "" if available. starting reports that the
	// server is unavailable because it is still starting.
	Unavailable(s Session, server string) (why string, starting bool)
	// OwnerUnavailable explains a public name that no server lists: why is the reason for which the
	// server that may have the name is unavailable, "" without a matching server. sure reports that
	// the name has the prefix of the server.
	OwnerUnavailable(s Session, name string) (why string, sure bool)
}

// DefaultHandshakeWait is the default of Options.HandshakeWait.
const DefaultHandshakeWait = time.Second

// Router routes messages; see the package comment. A Router is safe for concurrent use.
type Router struct {
	Options
	handlers map[catalog.Kind]Handler

	ctx        context.Context // of work without a waiting request; ends with Close
	cancel     context.CancelCauseFunc
	background sync.WaitGroup

	subscribing keyedMutex[topic]   // serializes subscribing and unsubscribing
	leveling    keyedMutex[connKey] // serializes setting the log level
	headers     headerCache
	hasLevels   atomic.Bool // a session has set a log level
	bridged     bridgedTasks
	runTasks    runTasks

	mu      sync.Mutex // guards the fields below; a leaf, but for the budget
	closed  bool
	clients map[Session]*client
	topics  map[topic]map[Session]*gated // subscribers, and the decisions about them; nil until the upstream has answered
	levels  map[connKey]string           // the log level last told to the upstream
	ready   map[connKey]bool             // upstreams that were ready at least once
	asleep  map[connKey]bool             // upstreams asleep, with requests answered in their place; see Peer.OnAsleep
	early   recent[taskKey, []byte]      // statuses of upstreams' tasks not known yet
	watched map[watchKey]*taskWatch      // tasks of the extension
}

// New makes a router. The caller must Register the handlers before the first request, and Close the
// router.
func New(opts Options) *Router {
	if opts.HandshakeWait <= 0 {
		opts.HandshakeWait = DefaultHandshakeWait
	}
	if opts.Refresh == nil {
		opts.Refresh = func(Session) {}
	}
	if opts.Sealer == nil {
		opts.Sealer = requeststate.New(requeststate.NewKey, time.Now)
	}
	if opts.RefreshCalled == nil {
		opts.RefreshCalled = opts.Refresh
	}
	r := &Router{
		Options: opts, handlers: map[catalog.Kind]Handler{},
		clients: map[Session]*client{}, topics: map[topic]map[Session]*gated{}, levels: map[connKey]string{}, ready: map[connKey]bool{},
		asleep:  map[connKey]bool{},
		watched: map[watchKey]*taskWatch{},
		early:   recent[taskKey, []byte]{limit: maxEarly},
	}
	r.runTasks.byRun = map[string]*runTask{}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// awaitLists waits until upstreams have listed the current items of some surfaces.
func (r *Router) awaitLists(ctx context.Context, s Session, surfaces ...wire.Surface) {
	if r.Started != nil {
		r.Started(ctx)
	} else {
		r.Settled(ctx)
	}
	if r.Refreshed != nil {
		r.Refreshed(ctx, s, surfaces...)
	}
}

// Register sets the handler of the tools of a kind, Builtin or Composite.
func (r *Router) Register(kind catalog.Kind, h Handler) { r.handlers[kind] = h }

// Close ends the router's own work and waits for its end: unsubscribing for ended sessions, and
// delivering notifications of clients. The sessions should have ended before.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	clients := make([]*client, 0, len(r.clients))
	for _, c := range r.clients {
		clients = append(clients, c)
	}
	r.mu.Unlock()
	r.cancel(wire.ErrClosed)
	for _, c := range clients {
		r.drainNotifications(c)
	}
	r.background.Wait()
}

// inBackground runs f on a goroutine for which Close waits. After Close, f runs in the caller's
// goroutine: r.ctx has ended, so f does not wait.
func (r *Router) inBackground(f func()) {
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.background.Go(f)
	}
	r.mu.Unlock()
	if closed {
		f()
	}
}

// Handle answers a request of a client. The reply is ignored when ctx has ended. A request without
// an answer of the upstream gets a JSON-RPC error with the reason; tools/call gets an isError
// result.
func (r *Router) Handle(ctx context.Context, call Call) wire.Reply {
	call, bad := r.receive(call)
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	r.lowerLevel(ctx, call.Origin)
	reply := r.handle(ctx, call)
	if r.awaitVisits(ctx, call, reply) {
		reply = r.handle(ctx, call)
	}
	return r.adapt(call, reply)
}

// handle answers a request prepared by receive.
func (r *Router) handle(ctx context.Context, call Call) wire.Reply {
	switch call.Method {
	case protocol.MethodToolsCall:
		return r.CallTool(ctx, call)
	case protocol.MethodPromptsGet:
		return r.getPrompt(ctx, call)
	case protocol.MethodComplete:
		return r.complete(ctx, call)
	case protocol.MethodResourcesRead:
		return r.readResource(ctx, call)
	case protocol.MethodResourcesSubscribe:
		return r.subscribe(ctx, call)
	case protocol.MethodResourcesUnsubscribe:
		return r.unsubscribe(ctx, call)
	case protocol.MethodSetLevel:
		return r.setLevel(ctx, call)
	case protocol.MethodTasksGet, protocol.MethodTasksUpdate, protocol.MethodTasksResult, protocol.MethodTasksCancel:
		if isStateless(call.Origin) {
			return r.extensionTask(ctx, call)
		}
		if call.Method == protocol.MethodTasksUpdate { // only of the extension
			return notFound(call.Method)
		}
		return r.task(ctx, call)
	case protocol.MethodListen: // of the stateless era, answered by the front end
		return notFound(call.Method)
	case protocol.MethodTasksList:
		return r.listTasks(ctx, call)
	}
	for _, surface := range wire.Surfaces {
		if call.Method == surface.ListMethod() {
			return r.list(ctx, call, surface)
		}
	}
	return r.unknownMethod(ctx, call)
}

// unknownMethod answers a request with an unknown method. The method may be of a later revision, so
// the request is forwarded if the client has a single upstream.
func (r *Router) unknownMethod(ctx context.Context, call Call) wire.Reply {
	if all := r.connections(call.Origin.Session()); len(all) == 1 {
		return r.forward(ctx, call, all[0], call.Params, r.method(call, all[0]))
	}
	return notFound(call.Method)
}

// notFound returns the error for a method that we do not have. The same error of a server may be
// about this server only, or about a faulty tool.
func notFound(method string) wire.Reply {
	reply := fail(wire.CodeMethodNotFound, "method not found: %s", method)
	reply.Own = true
	return reply
}

// method decides about a request that is forwarded for the method alone.
func (r *Router) method(call Call, to serverConn) *gated {
	return r.decide(call.Origin, policy.Request{Kind: policy.KindMethod, Server: to.server, Name: call.Method}, nil)
}

// forward sends a request to an upstream, with other params, if g permits the request.
func (r *Router) forward(ctx context.Context, call Call, to serverConn, params []byte, g *gated) wire.Reply {
	start := time.Now()
	reply := r.forwardGated(ctx, call, to, params, g)
	if g != nil {
		g.mu.Lock()
		server, name := g.request.Server, g.request.Name
		g.mu.Unlock()
		r.given(call.Origin, server, name, reply)
		r.noteURIs(sessionOf(call.Origin), server, reply)
	}
	g.observe(ctx, call, start, reply)
	return reply
}

func (r *Router) forwardGated(ctx context.Context, call Call, to serverConn, params []byte, g *gated) wire.Reply {
	try := func(ctx context.Context, in wire.Inputs) (wire.Reply, error) {
		out := wire.Call{Method: call.Method, Params: params, Progress: call.Progress, Inputs: in}
		if g != nil {
			out.Permit = g
		} else {
			out.Permit = present{sessionOf(call.Origin)}
		}
		r.onBehalf(&out, call.Origin)
		return to.Call(ctx, out)
	}
	var reply wire.Reply
	err := g.pass(ctx, call.Origin, &waiter{progress: call.Progress})
	if err == nil {
		r.levelBefore(ctx, call.Origin, to)
		reply, err = try(ctx, call.inputs)
	}
	if err == nil && asks(reply) && !isStateless(call.Origin) {
		b := bridge{origin: call.Origin, server: to.server, budget: r.Budget, again: try}
		reply, err = b.finish(ctx, reply)
	}
	if err == nil {
		r.noteElicitations(call.Origin, to.server, reply)
		return reply
	}
	r.warn(ctx, err, "request failed", "upstream", to.server, "method", call.Method)
	var bad *wire.RPCError
	var denied *wire.DeniedError
	switch {
	case errors.As(err, &bad):
		return wire.Reply{Error: bad.Raw()}
	case errors.As(err, &denied):
		reply = fail(wire.CodeInvalidParams, "%s: %v", call.Method, err)
		reply.Denied = denied.Err
		return reply
	}
	return fail(wire.CodeInternal, "%s: %v", call.Method, err)
}

// firstOf tries upstreams in turn until an upstream answers without an error. When none does, the
// reply is from the first upstream with a denied request, else from the first.
func firstOf(ctx context.Context, candidates []serverConn, try func(serverConn) wire.Reply) (reply wire.Reply, from serverConn, ok bool) {
	for i, c := range candidates {
		answer := try(c)
		if answer.Error == nil {
			return answer, c, true
		}
		if i == 0 || answer.Denied != nil && reply.Denied == nil {
			reply, from = answer, c
		}
		if ctx.Err() != nil {
			break
		}
	}
	return reply, from, false
}

// warn logs a failure other than the end of ctx.
func (r *Router) warn(ctx context.Context, err error, msg string, args ...any) {
	if cause := context.Cause(ctx); cause == nil || !errors.Is(err, cause) {
		r.Log.Warn(msg, append(args, "err", err)...)
	}
}
