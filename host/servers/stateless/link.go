// Package stateless is a connection with an MCP server of the stateless era (revision
// 2026-07-28), over a link of any transport. Each request carries an envelope, and over
// HTTP headers that repeat what is in it. There is no handshake and no session.
//
//	link.go      Link: calls, start and end
//	request.go   the envelope and the headers of a request
//	answer.go    errors that are about the connection, not about the request
//	discover.go  server/discover, and which era its answer shows
//	tools.go     which arguments of tools are repeated in headers
//	listen.go    subscriptions/listen: what the server sends by itself
//	open.go      opening a subscription, without the resources that the server refuses
//	handover.go  one subscription in place of another, and what may have been missed
//	filter.go    what is listened to
//	inbound.go   notifications that belong to a subscription
//	subscribe.go resources/subscribe and unsubscribe, translated
//	watch.go     listening to tasks of the extension
package stateless

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Options are what a Link gets from its upstream. Errors must be set.
type Options struct {
	// Upstream is the name of the upstream, for errors.
	Upstream string
	// Client is what requests that are made for no client say about us, in the form of
	// wire.Call.Client.
	Client []byte
	// HTTP says that the link below is one over HTTP.
	HTTP bool
	// Errors makes the errors of calls.
	Errors rpc.Errors
	// Relist reads the list of tools again and returns when SetTools has been called, or
	// when that has failed.
	Relist func(ctx context.Context)
	// Changed is called when notifications may have been missed, with the surfaces
	// that are listened to. It must not block.
	Changed func(surfaces []wire.Surface)
	// Updated is called with each resource whose updates may have been missed, once it is
	// watched again. It must not block.
	Updated func(uri string)
	// Doubt is called when an answer suggests that the server does not speak the era any
	// more. It must not block.
	Doubt func()
	// Timings shortens delays in tests; the zero value is for all others.
	Timings Timings
	// Log gets what happens to the link. Nil: nothing is logged.
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

// CallWithin implements link.Link. Requests of the handshake era that the router makes
// are translated.
func (l *Link) CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	switch call.Method {
	case protocol.MethodPing:
		return l.ping(ctx, call, limit)
	case protocol.MethodSetLevel: // each request says its level
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

// marked marks a reply as one of the era, which may ask the client something.
func marked(reply wire.Reply, err error) (wire.Reply, error) {
	reply.Stateless = err == nil
	return reply, err
}

// Submit implements link.Link. Requests that are translated are left to CallWithin.
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

// ping asks the server what it is, because the era has no ping. Whatever a server answers
// to that shows that it works.
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

// Notify implements link.Link. Notifications that only the handshake era has are dropped:
// the server knows from each request what they would say.
func (l *Link) Notify(ctx context.Context, method string, params []byte) error {
	_, now := l.Revision().Method(protocol.Client, method)
	if _, before := protocol.Handshake.Newest().Method(protocol.Client, method); before && !now {
		return nil
	}
	return l.Link.Notify(ctx, method, params)
}

// Negotiated implements link.Link. Each request names its revision, so there is nothing to
// set.
func (l *Link) Negotiated(protocol.Revision) {}

// Shutdown implements link.Link.
func (l *Link) Shutdown(grace time.Duration, kill <-chan struct{}) {
	l.cancel(wire.ErrClosed)
	l.wg.Wait() // so that the link below does not wait for a subscription
	l.Link.Shutdown(grace, kill)
}

// doubtStatus calls doubt if err is a response of a server that may not speak the
// era.
func (l *Link) doubtStatus(err error) {
	var status *httpclient.StatusError
	if errors.As(err, &status) && status.Status/100 == 4 && !saysNothing[status.Status] {
		l.doubt()
	}
}

func (l *Link) doubt() {
	if l.opts.Doubt != nil {
		l.opts.Doubt()
	}
}
