package upstream

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/legacysse"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// subprocess is a link to a server that is a process of ours.
type subprocess interface {
	Pid() int
	// StderrTail is the last lines of the server on stderr.
	StderrTail() []string
}

// linkOptions are what a link gets from the life of its upstream. The callbacks
// run on goroutines of the link; none is nil.
type linkOptions struct {
	// log has the attribute "upstream" already.
	log *slog.Logger
	// budget is what large messages of the server are taken from; nil: none.
	budget *budget.Budget
	// onNotification takes every notification but progress and cancelled.
	onNotification func(m wire.Inbound)
	// onRequest answers requests of the server other than ping. It may wait
	// for people, so it runs on a goroutine of its own. ctx ends with the link
	// (cause: *DownError) or when the server takes the request back (cause:
	// *wire.CancelledError), and then nothing is answered. A link bounds how
	// many run at a time (rpc.Options.MaxRequests).
	onRequest func(ctx context.Context, m wire.Inbound) wire.Reply
	// allowance is what the server may send that belongs to no call in flight, and
	// lines what it may write to stderr; nil: as much as it likes.
	allowance, lines *allowance
	// onGarbage takes what is no usable message, clipped to rpc.MaxExcerpt.
	onGarbage func(reason string, raw []byte)
	// serialIDs is rpc.Options.SerialIDs, for tests.
	serialIDs bool
}

// dial starts or reaches the server of spec and returns a link that is ready
// for initialize. ctx is for dialing only. The error has no name of the
// upstream in it.
func dial(ctx context.Context, spec Spec, opts linkOptions) (link.Link, error) {
	switch spec.transport() {
	case TransportStdio:
		return dialStdio(spec, opts)
	case TransportHTTP:
		return dialHTTP(spec, opts)
	case TransportSSE:
		return dialSSE(ctx, spec, opts)
	}
	return nil, fmt.Errorf("unknown transport %q (use %s, %s or %s)", spec.Transport, TransportStdio, TransportHTTP, TransportSSE)
}

func dialHTTP(spec Spec, opts linkOptions) (link.Link, error) {
	l, err := dialStreamable(spec, opts)
	if err != nil {
		return nil, err
	}
	if spec.Transport == "" {
		return newFallbackLink(spec, opts, l), nil
	}
	return l, nil
}

func dialStreamable(spec Spec, opts linkOptions) (*streamable.Link, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	return streamable.New(client, opts.of(spec)), nil
}

// of are the options of a link for spec.
func (o linkOptions) of(spec Spec) link.Options {
	return link.Options{
		MaxMessage: spec.MaxMessage,
		Budget:     o.budget,
		Handler:    o,
		Errors:     callErrors(spec.Name),
		Unasked:    func(bytes int, done <-chan struct{}) { o.allowance.spend(bytes, done, nil) },
		Garbage:    o.onGarbage,
		SerialIDs:  o.serialIDs,
		Log:        o.log,
	}
}

func dialSSE(ctx context.Context, spec Spec, opts linkOptions) (link.Link, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	l, err := legacysse.Dial(ctx, client, opts.of(spec))
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Request implements rpc.Handler.
func (o linkOptions) Request(r *rpc.Request) { answerWith(r, o.onRequest) }

// Notification implements rpc.Handler.
func (o linkOptions) Notification(m wire.Inbound) { o.onNotification(m) }

// answerWith has onRequest answer a request of the server on a goroutine.
func answerWith(r *rpc.Request, onRequest func(ctx context.Context, m wire.Inbound) wire.Reply) {
	owners := r.Owners() // at the time it came in
	r.Start(func(ctx context.Context, r *rpc.Request) wire.Reply {
		return onRequest(ctx, wire.Inbound{Method: r.Method, Params: r.Params, Owners: func() []any { return owners }})
	})
}

// roomFor is for the messages of a server, until ctx ends.
func roomFor(ctx context.Context, all *budget.Budget) *wire.Room {
	if all == nil {
		return nil
	}
	return &wire.Room{Context: ctx, Open: all.OpenAnswer}
}
