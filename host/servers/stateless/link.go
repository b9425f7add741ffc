// Package stateless is a connection with an MCP server of the stateless era (revision 2026-07-28),
// over a link of any transport. Each request carries an envelope, and over HTTP headers that repeat
// parts of the envelope, without a handshake and without a session. Begin with Link, then
// Link.Listen for the subscriptions.
package stateless

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Options are the upstream's options for a Link. Errors must be set.
type Options struct {
	// Upstream is the name of the upstream, for errors.
	Upstream string
	// Client is the description of us in requests for no client of ours, in the form of
	// wire.Call.Client.
	Client []byte
	// HTTP is set if the link below uses HTTP.
	HTTP bool
	// Errors makes the errors of calls.
	Errors rpc.Errors
	// Relist reads the list of tools again and returns after the call of SetTools, or after a
	// failure.
	Relist func(ctx context.Context)
	// Changed is called when notifications may have been missed, with the surfaces of the filter.
	// Changed must not block.
	Changed func(surfaces []wire.Surface)
	// Updated is called with each resource with possibly missed updates, once the resource is
	// watched again. Updated must not block.
	Updated func(uri string)
	// Doubt is called when an answer suggests that the server no longer speaks the era. Doubt must
	// not block.
	Doubt func()
	// Timings shortens delays in tests; otherwise zero.
	Timings Timings
	// Log gets the events of the link. Nil: nothing is logged.
	Log *slog.Logger
}

var _ link.Link = (*Link)(nil)

// Link is a connection with a server of the stateless era; see link.Link.
type Link struct {
	link.Link // of the transport
	opts      Options
	revision  atomic.Value // protocol.Revision

	ctx    context.Context // of listening; ends with Shutdown
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	tools         tools
	subscriptions subscriptions
}

// New makes a link of a revision over the link of a transport, which Shutdown ends too.
// Nothing is sent before the first call.
func New(below link.Link, revision protocol.Revision, opts Options) *Link {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Timings.setDefaults()
	l := &Link{Link: below, opts: opts}
	l.revision.Store(revision)
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.subscriptions.init()
	return l
}

// Below returns the link of the transport.
func (l *Link) Below() link.Link { return l.Link }

// Revision returns the revision of the link's requests.
func (l *Link) Revision() protocol.Revision { return l.revision.Load().(protocol.Revision) }

// Call implements link.Link.
func (l *Link) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return l.CallWithin(ctx, call, rpc.Limit{})
}

// CallWithin implements link.Link. CallWithin translates the router's requests of the handshake
// era.
func (l *Link) CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	switch call.Method {
	case protocol.MethodPing:
		return l.ping(ctx, call, limit)
	case protocol.MethodSetLevel: // each request has the level
		return wire.Reply{Result: []byte("{}")}, nil
	case protocol.MethodResourcesSubscribe:
		return l.subscribe(ctx, call, limit)
	case protocol.MethodResourcesUnsubscribe:
		return l.unsubscribe(call), nil
	case protocol.MethodListen:
		return l.watch(ctx, call)
	}
	out, err := l.request(call)
	if err != nil {
		return wire.Reply{}, err
	}
	reply, err := l.Link.CallWithin(ctx, out, limit)
	return marked(l.conclude(ctx, call, limit, reply, err))
}

// marked marks a reply as a reply of the era, which may have questions to the client.
func marked(reply wire.Reply, err error) (wire.Reply, error) {
	reply.Stateless = err == nil
	return reply, err
}

// Submit implements link.Link. Requests that need a translation are left to CallWithin.
func (l *Link) Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	switch call.Method {
	case protocol.MethodPing, protocol.MethodSetLevel, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe,
		protocol.MethodListen:
		return rpc.Pending{}, rpc.ErrFull
	}
	out, err := l.request(call)
	if err != nil {
		return rpc.Pending{}, err
	}
	return l.Link.Submit(out, limit, func(reply wire.Reply, next wire.Continuation) {
		if next == nil && reply.Error == nil {
			reply.Stateless = true
			complete(reply, nil)
			return
		}
		complete(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) {
			var err error
			if next != nil {
				reply, err = next(ctx)
			}
			return marked(l.conclude(ctx, call, limit, reply, err))
		})
	})
}

// ping sends server/discover, because the era has no ping. Any answer shows that the server works.
func (l *Link) ping(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	out, err := l.request(wire.Call{Method: protocol.MethodDiscover, Permit: call.Permit})
	if err != nil {
		return wire.Reply{}, err
	}
	reply, err := l.Link.CallWithin(ctx, out, limit)
	if err == nil && reply.Error == nil {
		reply.Result = []byte("{}")
	}
	return reply, err
}

// Notify implements link.Link. Notifications that only the handshake era has are dropped: each
// request tells the server the same.
func (l *Link) Notify(ctx context.Context, method string, params []byte) error {
	_, now := l.Revision().Method(protocol.Client, method)
	if _, before := protocol.Handshake.Newest().Method(protocol.Client, method); before && !now {
		return nil
	}
	return l.Link.Notify(ctx, method, params)
}

// Negotiated implements link.Link. Each request names the revision, so Negotiated sets nothing.
func (l *Link) Negotiated(protocol.Revision) {}

// Shutdown implements link.Link.
func (l *Link) Shutdown(grace time.Duration, kill <-chan struct{}) {
	l.cancel(wire.ErrClosed)
	l.wg.Wait() // so that the link below does not wait for a subscription
	l.Link.Shutdown(grace, kill)
}

// doubtStatus calls doubt if err is a response of a server that may not speak the era.
func (l *Link) doubtStatus(err error) {
	var status *httpclient.StatusError
	if errors.As(err, &status) && status.Status/100 == 4 && !inconclusive[status.Status] {
		l.doubt()
	}
}

func (l *Link) doubt() {
	if l.opts.Doubt != nil {
		l.opts.Doubt()
	}
}

// conclude returns the outcome of a call for the caller. Errors about the hop between us and the
// server are not for the client, because the client's own requests may be of another era or have
// other headers.
func (l *Link) conclude(ctx context.Context, call wire.Call, limit rpc.Limit, reply wire.Reply, err error) (wire.Reply, error) {
	if err != nil {
		l.doubtStatus(err)
		return reply, err
	}
	if reply.Error == nil {
		return reply, nil
	}
	switch bad := wire.ParseError(reply.Error); bad.Code {
	case protocol.CodeHeaderMismatch:
		again, ok, err := l.callAgain(ctx, call, limit)
		if ok && err == nil && again.Error != nil {
			bad = wire.ParseError(again.Error)
		}
		if !ok || err == nil && again.Error != nil && bad.Code == protocol.CodeHeaderMismatch {
			return l.hopError("it refuses the headers of the request, which are made from its body (is there a proxy that changes them?): %s", bad), nil
		}
		if err == nil && again.Error != nil {
			return l.hopAnswer(again, bad), nil
		}
		return again, err
	default:
		return l.hopAnswer(reply, bad), nil
	}
}

// hopAnswer returns an error of the server in the form for the caller. bad is the error.
func (l *Link) hopAnswer(reply wire.Reply, bad *wire.RPCError) wire.Reply {
	switch bad.Code {
	case protocol.CodeHTTPRefused, protocol.CodeSessionNotFound, wire.CodeInvalidRequest, wire.CodeMethodNotFound:
		// Servers of the handshake era answer requests outside of a session like this.
		l.doubt()
	case protocol.CodeUnsupportedVersion:
		l.doubt()
		return l.hopError("it no longer supports the revision "+l.Revision().String()+" (call again): %s", bad)
	case protocol.CodeMissingCapability:
		required, ok := wire.Get(reply.Error, "data", "requiredCapabilities")
		if !ok || !wire.IsObject(required) {
			required = []byte("{}")
		}
		return wire.Reply{Error: envelope.MissingCapability(required,
			"upstream %q needs a capability that the client has not declared: %s", l.opts.Upstream, link.Excerpt(bad.Message)).Raw()}
	}
	return reply
}

func (l *Link) hopError(format string, bad *wire.RPCError) wire.Reply {
	return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "upstream %q: "+format, l.opts.Upstream, link.Excerpt(bad.Message)).Raw()}
}

// callAgain makes a call of a tool again after the server has refused the headers, because the
// known definition of the tool may be old. ok is false if another call is of no use.
func (l *Link) callAgain(ctx context.Context, call wire.Call, limit rpc.Limit) (reply wire.Reply, ok bool, err error) {
	if call.Method != protocol.MethodToolsCall || !l.opts.HTTP || l.opts.Relist == nil {
		return wire.Reply{}, false, nil
	}
	l.opts.Relist(ctx)
	out, err := l.request(call)
	if err != nil {
		return wire.Reply{}, true, err
	}
	reply, err = l.Link.CallWithin(ctx, out, limit)
	return reply, true, err
}

// request returns a call in the form for sending: with the envelope of the call's client, and with
// the headers for this server. The error is a *wire.RPCError.
func (l *Link) request(call wire.Call) (wire.Call, error) {
	client := call.Client
	if client == nil {
		client = l.opts.Client
	}
	revision := l.Revision()
	e := envelope.Of(revision, client, call.LogLevel)
	e.Capabilities = onlyStateless(e.Capabilities)
	params, err := e.Put(call.Params)
	if err == nil {
		params, err = putInputs(params, call.Inputs)
	}
	if err != nil {
		return call, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	header := http.Header{}
	envelope.SetHeaders(header, revision, call.Method, params)
	if call.Method == protocol.MethodToolsCall && l.opts.HTTP {
		name, _ := wire.GetString(params, "name")
		arguments, _ := wire.Get(params, "arguments")
		if err := l.tools.of(name).SetHeaders(header, arguments); err != nil {
			return call, wire.Errorf(wire.CodeInvalidParams, "%s: %v", call.Method, err)
		}
	}
	call.Params, call.Header = params, header
	return call, nil
}

// putInputs adds the answers to the server's questions, and the server's state.
func putInputs(params []byte, in wire.Inputs) ([]byte, error) {
	var err error
	if in.Responses != nil {
		params, err = wire.Set(params, in.Responses, "inputResponses")
	}
	if err == nil && in.State != nil {
		params, err = wire.Set(params, in.State, "requestState")
	}
	return params, err
}

// onlyHandshake are the capabilities of clients that only the handshake era has.
var onlyHandshake = [][]string{{"tasks"}, {"roots", "listChanged"}}

// onlyStateless returns the capabilities of a client without the capabilities that only the
// handshake era has.
func onlyStateless(capabilities []byte) []byte {
	for _, path := range onlyHandshake {
		if _, ok := wire.Get(capabilities, path...); !ok {
			continue
		}
		if rest, err := wire.Delete(capabilities, path...); err == nil {
			capabilities = rest
		}
	}
	return capabilities
}

// tools knows which arguments of which tools are repeated in headers.
type tools struct {
	mu     sync.Mutex
	params map[string]envelope.Params // of the tools with any
}

func (t *tools) of(name string) envelope.Params {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.params[name]
}

// SetTools sets the server's tools, and returns the tools that clients may see. Over HTTP, tools
// with wrong definitions of headers for arguments are left out with a warning (revision 2026-07-28,
// basic/transports/streamable-http, "Schema Extension").
func (l *Link) SetTools(items [][]byte) [][]byte {
	if !l.opts.HTTP {
		return items
	}
	params, valid := map[string]envelope.Params{}, make([][]byte, 0, len(items))
	for _, item := range items {
		name, _ := wire.GetString(item, "name")
		schema, _ := wire.Get(item, "inputSchema")
		p, err := envelope.ParseParams(schema)
		if err != nil {
			l.opts.Log.Warn("a tool was left out because the headers for its arguments are defined wrongly",
				slog.String("tool", link.Excerpt(name)), slog.String("err", link.Excerpt(err.Error())))
			continue
		}
		if !p.IsEmpty() {
			params[name] = p
		}
		valid = append(valid, item)
	}
	l.tools.mu.Lock()
	defer l.tools.mu.Unlock()
	l.tools.params = params
	return valid
}
