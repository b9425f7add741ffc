// Package legacysse is a connection with an MCP server over HTTP with SSE (revision 2024-11-05,
// basic/transports): a stream of events with everything that the server sends, and a POST for each
// message of ours. Begin with Link.
package legacysse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

var _ link.Link = (*Link)(nil)

// Link is a connection with a server; see link.Link.
type Link struct {
	opts   link.Options
	client *httpclient.Client
	rpc    *rpc.Conn
	out    *rpc.Writer
	stream stream
	heard  atomic.Int64 // see Heard

	// ctx ends with the stream. All requests use it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // of the reading and writing goroutines
	posts  sync.WaitGroup

	mu    sync.Mutex          // guards calls; a leaf
	calls map[string]*posting // requests with a POST that has no response yet, by raw id
}

// Dial opens the stream of client's server. Shutdown closes client; after an error, client has been
// closed. ctx is for dialing only.
func Dial(ctx context.Context, client *httpclient.Client, opts link.Options) (*Link, error) {
	l := &Link{opts: opts, client: client, calls: map[string]*posting{}}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { l.cancel(context.Cause(ctx)) })
	err := l.open()
	if !stop() && err == nil {
		l.stream.close()
		err = context.Cause(ctx)
	}
	if err != nil {
		l.cancel(err)
		client.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	l.out = rpc.NewWriter(poster{l})
	l.rpc = l.opts.Conn(l.out, l.ctx.Done())
	l.stream.events.Wasted = l.charge
	l.wg.Go(l.out.Run)
	l.wg.Go(l.read)
	return l, nil
}

// Call implements link.Link.
func (l *Link) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return l.rpc.Call(ctx, rpc.Call{Call: call})
}

// CallWithin implements link.Link.
func (l *Link) CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	return l.rpc.Call(ctx, rpc.Call{Call: call, Limit: limit})
}

// Submit implements link.Link.
func (l *Link) Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	return l.rpc.Submit(rpc.Call{Call: call, Limit: limit}, complete)
}

// Notify implements link.Link.
func (l *Link) Notify(ctx context.Context, method string, params []byte) error {
	if err := l.rpc.Err(); err != nil {
		return l.opts.Errors.Unsent(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.rpc.Notify(ctx, nil, method, params)
}

// Negotiated implements link.Link.
func (l *Link) Negotiated(revision protocol.Revision) {
	l.client.SetRevision(revision)
	l.rpc.SetBatches(revision.Has(protocol.Batches))
}

// Done implements link.Link.
func (l *Link) Done() <-chan struct{} { return l.rpc.Done() }

// Err implements link.Link.
func (l *Link) Err() error { return l.rpc.Err() }

// Heard returns a number that changes with each event. The number is odd while an event is being
// processed.
func (l *Link) Heard() int64 { return l.heard.Load() }

// Shutdown implements link.Link. Shutdown ends the stream and thereby the session.
func (l *Link) Shutdown(time.Duration, <-chan struct{}) {
	closed := l.opts.Errors.Down("connection closed", wire.ErrClosed)
	l.rpc.End(closed)
	l.out.Close()
	l.cancel(wire.ErrClosed)
	l.wg.Wait()
	l.rpc.Close(closed)
	l.posts.Wait()
	l.client.Close()
}

// read is the read loop.
func (l *Link) read() {
	err := l.receiveAll()
	l.stream.close()
	reason := "it ended its event stream"
	if !errors.Is(err, io.EOF) {
		reason = "its event stream broke off: " + link.Excerpt(err.Error())
	}
	l.rpc.End(l.opts.Errors.Down(reason, err))
	l.cancel(io.EOF)
	l.out.Close()
}

// receiveAll reads events until the stream ends, and returns why.
func (l *Link) receiveAll() error {
	for l.ctx.Err() == nil {
		ev, err := l.stream.events.Next()
		var large *wire.TooLargeError
		l.heard.Add(1)
		switch {
		case errors.As(err, &large):
			l.rpc.Oversized(rpc.Excerpt{Head: ev.Head, Tail: ev.Tail}, large, l.out)
		case err != nil && l.ctx.Err() != nil:
			return context.Cause(l.ctx)
		case err != nil:
			return err
		case len(bytes.TrimSpace(ev.Data)) == 0 || ev.Name != "" && ev.Name != "message":
			l.charge(len(ev.Data))
		default:
			l.rpc.Receive(ev.Data, l.out)
		}
		l.heard.Add(1)
	}
	return context.Cause(l.ctx)
}

// charge charges the server for bytes that belong to no call in flight.
func (l *Link) charge(bytes int) {
	if l.opts.Unsolicited != nil {
		l.opts.Unsolicited(bytes, l.ctx.Done())
	}
}

// stream is the server's stream of events, for use by a single goroutine.
type stream struct {
	body   io.ReadCloser
	events *wire.EventReader
}

func (s *stream) close() {
	s.body.Close()
	s.events.Release()
}

// open opens the stream and reads up to the endpoint event.
func (l *Link) open() error {
	resp, err := l.client.Do(l.ctx, http.MethodGet, nil, "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("its event stream does not open: %w", httpclient.NewStatusError(resp))
	}
	if t := httpclient.ContentType(resp.Header); t != httpclient.ContentEvents {
		resp.Body.Close()
		return fmt.Errorf("its event stream does not open: the content type is %q, not %s", link.Excerpt(t), httpclient.ContentEvents)
	}
	l.stream = stream{resp.Body, wire.NewEventReader(resp.Body, l.opts.MaxMessage).WithBudget(l.opts.ReadBudget(l.ctx))}
	if err := l.readEndpoint(); err != nil {
		l.stream.close()
		return err
	}
	return nil
}

// readEndpoint reads events up to the event with the address for posting messages.
func (l *Link) readEndpoint() error {
	for {
		ev, err := l.stream.events.Next()
		switch {
		case err != nil:
			return fmt.Errorf("its event stream does not begin with the event endpoint: %w", err)
		case ev.Name == "endpoint":
			return l.setEndpoint(string(ev.Data))
		}
	}
}

// setEndpoint sets the address for posting messages. The address must have the origin of the
// stream, because credentials are sent with messages.
func (l *Link) setEndpoint(ref string) error {
	from := l.client.URL()
	to, err := from.Parse(ref)
	if err != nil {
		return errors.New("its event endpoint has no usable URL")
	}
	if !httpclient.SameOrigin(from, to) {
		other := url.URL{Scheme: to.Scheme, Host: to.Host}
		return fmt.Errorf("its event endpoint names another server, %s, which is not followed", link.Excerpt(other.String()))
	}
	l.client.SetEndpoint(to)
	return nil
}
