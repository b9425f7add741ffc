// Package route takes requests to whoever answers them: those of clients to an
// upstream, or to a handler for built-in and composite tools; those of
// upstreams to the client they are for. It moves raw bytes.
//
//	route.go       the router, and what each request of a client needs
//	connect.go     connections to upstreams, shared or of one session
//	session.go     what the router needs of sessions
//	clients.go     what is remembered of each session
//	welcome.go     the answer to initialize, the beginning and end of a session
//	list.go        tools/list and the other lists
//	tool.go        tools/call: which tool it is of
//	call.go        calls of upstreams' tools
//	begin.go       calls without a goroutine that waits
//	observe.go     telling of calls that are passed on
//	resource.go    resources/read
//	subscribe.go   resources/subscribe and resources/unsubscribe
//	prompt.go      prompts/get and completion/complete
//	level.go       logging/setLevel
//	task.go        tasks of upstreams
//	inbound.go     requests of upstreams
//	notice.go      notifications of upstreams
//	owner.go       which session a message of an upstream belongs to
//	notify.go      notifications of clients
//	announce.go    log messages of our own
//	result.go      results that we make ourselves
//	recent.go      a bounded memory
//	turn.go        taking turns
//
// Handlers are registered, so that a composite's handler can call back into
// the router without an import circle.
package route

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Handler answers calls of built-in or composite tools. When ctx has ended,
// the reply does not matter.
type Handler interface {
	CallTool(ctx context.Context, name string, call Call) wire.Reply
}

// Options of a Router. All but Instructions, HandshakeWait, Started,
// Absences, Refresh and Observer must be set.
type Options struct {
	Catalog   *catalog.Catalog
	Upstreams Upstreams
	// Instructions returns ours, for the answer to a session's initialize; nil:
	// none.
	Instructions func(s Session) string
	// HandshakeWait is how long the answer to initialize waits for the
	// handshakes of upstreams; 0: DefaultHandshakeWait.
	HandshakeWait time.Duration
	// Settled waits until it is known of every upstream what it lists, or for as
	// long as a client shall wait for that, or for ctx. What an upstream listed
	// when it ran before may do.
	Settled func(ctx context.Context)
	// Started is Settled where only what upstreams list now will do; nil: Settled.
	Started func(ctx context.Context)
	// Absences, when set, tells of upstreams that are not there.
	Absences Absences
	// Refresh, when set, is called before the catalog is asked for saved tools:
	// another process may have changed them.
	Refresh func()
	// Observer, when set, is told of calls that are passed on.
	Observer Observer
	Log      *slog.Logger
}

// Absences tells why upstreams are not there for a session: sentences for models,
// without secrets. Nothing is waited for.
type Absences interface {
	// Absent is why a server is not there, and whether that is because it is still
	// starting; "" if it is there.
	Absent(s Session, server string) (why string, starting bool)
	// AbsentOwner is why the server is not there that a public name, which nobody
	// lists, may belong to; "" if there is none such. It is sure where the name
	// has the prefix of that server.
	AbsentOwner(s Session, name string) (why string, sure bool)
}

// DefaultHandshakeWait is the default of Options.HandshakeWait.
const DefaultHandshakeWait = time.Second

// Router is safe for concurrent use.
type Router struct {
	Options
	handlers map[catalog.Kind]Handler

	ctx    context.Context // of work that no request waits for; ends with Close
	cancel context.CancelCauseFunc
	later  sync.WaitGroup

	subscribing turns[topic] // one subscribes or unsubscribes at a time
	leveling    turns[place] // one sets the log level at a time

	mu      sync.Mutex // guards what follows; a leaf
	closed  bool
	clients map[Session]*client
	topics  map[topic]map[Session]bool // subscribers
	levels  map[place]string           // what the upstream was told last
	ready   map[place]bool             // upstreams that have been ready
	early   recent[taskKey, []byte]    // status of tasks of upstreams that are not known yet
}

// New makes a router. The caller must Register the handlers before the first
// request, and Close it.
func New(opts Options) *Router {
	if opts.HandshakeWait <= 0 {
		opts.HandshakeWait = DefaultHandshakeWait
	}
	if opts.Refresh == nil {
		opts.Refresh = func() {}
	}
	r := &Router{
		Options: opts, handlers: map[catalog.Kind]Handler{},
		clients: map[Session]*client{}, topics: map[topic]map[Session]bool{}, levels: map[place]string{}, ready: map[place]bool{},
		early: recent[taskKey, []byte]{limit: maxEarly},
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// awaitLists waits for what upstreams list now.
func (r *Router) awaitLists(ctx context.Context) {
	if r.Started != nil {
		r.Started(ctx)
	} else {
		r.Settled(ctx)
	}
}

// Register sets the handler of the tools of a kind, Builtin or Composite.
func (r *Router) Register(kind catalog.Kind, h Handler) { r.handlers[kind] = h }

// Close ends what the router does on its own account, and waits for it:
// unsubscribing for sessions that have left, and notifications of clients
// that are still on their way. The sessions should have ended before.
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
		r.hangUp(c)
	}
	r.later.Wait()
}

// inBackground runs f on a goroutine that Close waits for, or right here when
// the router is closed: then it has nothing to wait for.
func (r *Router) inBackground(f func()) {
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.later.Go(f)
	}
	r.mu.Unlock()
	if closed {
		f()
	}
}

// Handle answers a request of a client. When ctx has ended, the reply does not
// matter. A request that its upstream did not answer gets a JSON-RPC error that
// says why, tools/call an isError result.
func (r *Router) Handle(ctx context.Context, call Call) wire.Reply {
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
	case protocol.MethodTasksGet, protocol.MethodTasksResult, protocol.MethodTasksCancel:
		return r.task(ctx, call)
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

// unknownMethod passes a request of which we know nothing, of a later revision
// perhaps, where there is no doubt to whom.
func (r *Router) unknownMethod(ctx context.Context, call Call) wire.Reply {
	if all := r.reach(call.Origin.Session()); len(all) == 1 {
		return r.forward(ctx, call, all[0], call.Params)
	}
	return notFound(call.Method)
}

func notFound(method string) wire.Reply {
	return fail(wire.CodeMethodNotFound, "method not found: %s", method)
}

// forward sends a request on to an upstream, with params in place of its own.
func (r *Router) forward(ctx context.Context, call Call, to reached, params []byte) wire.Reply {
	reply, err := to.Call(ctx, wire.Call{Method: call.Method, Params: params, Progress: call.Progress, Owner: call.Origin})
	if err == nil {
		r.noteElicitations(call.Origin, to.server, reply)
		return reply
	}
	r.warn(ctx, err, "request failed", "upstream", to.server, "method", call.Method)
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		return wire.Reply{Error: bad.Raw()}
	}
	return fail(wire.CodeInternal, "%s: %v", call.Method, err)
}

// firstOf tries upstreams in turn until one answers without an error. When
// none does, the reply is that of the first.
func firstOf(ctx context.Context, candidates []reached, try func(reached) wire.Reply) (reply wire.Reply, from reached, ok bool) {
	for i, c := range candidates {
		answer := try(c)
		if answer.Error == nil {
			return answer, c, true
		}
		if i == 0 {
			reply, from = answer, c
		}
		if ctx.Err() != nil {
			break
		}
	}
	return reply, from, false
}

// warn logs a failure, unless it is just the end of ctx.
func (r *Router) warn(ctx context.Context, err error, msg string, args ...any) {
	if cause := context.Cause(ctx); cause == nil || !errors.Is(err, cause) {
		r.Log.Warn(msg, append(args, "err", err)...)
	}
}
