// Package streamable is a connection with an MCP server over streamable HTTP (revision 2025-11-25,
// basic/transports): a POST for each message, with a JSON answer or a stream of events with the
// answer as the response, and a GET for the messages that belong to no request. Begin with Link,
// then post, the call.
package streamable

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

const (
	// maxPosts is the largest number of calls in flight on a link, including cancelled calls with
	// an unsent notification. More calls wait.
	maxPosts = 4096
	// backgroundTimeout is the timeout of a request without a waiting caller: a cancellation, or an
	// answer to the server.
	backgroundTimeout = 10 * time.Second
	// maxIdle is how many idle goroutines are kept for further calls, so that their stacks need not
	// grow again.
	maxIdle = 64
)

var _ link.Link = (*Link)(nil)

// Link is a connection with a server; see link.Link.
type Link struct {
	opts   link.Options
	log    *slog.Logger
	client *httpclient.Client
	rpc    *rpc.Conn
	main   mainStream

	acceptTime time.Duration // see defaultAcceptTime

	// ctx ends with the link. All requests use it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	slots  chan struct{} // a token for each POST of a call
	queue  chan *post    // received by idle goroutines
	idle   atomic.Int32  // the number of idle goroutines

	hasAnswered  atomic.Bool // the server has answered a call after the handshake
	hasGetStream atomic.Bool // the server accepts GET, so an answer may come on the GET stream
	listening    sync.Once
	suspicions   atomic.Int32 // answers in a row that a forgotten session would explain; see suspect

	mu      sync.Mutex
	calls   int           // without an outcome
	closing bool          // Shutdown was called
	drained chan struct{} // made by Shutdown; closed when calls is 0
	err     error         // why the link ended; see Err
}

// New makes a link to the server of client. Shutdown closes client. Nothing is
// sent before the first call.
func New(client *httpclient.Client, opts link.Options) *Link {
	if opts.MaxMessage <= 0 {
		opts.MaxMessage = wire.DefaultMaxMessage
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	l := &Link{
		opts: opts, log: opts.Log, client: client, acceptTime: defaultAcceptTime,
		slots: make(chan struct{}, maxPosts), queue: make(chan *post),
	}
	l.main.link = l
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.rpc = l.opts.Conn(&l.main, l.ctx.Done())
	return l
}

// HasSession reports whether the server has begun a session.
func (l *Link) HasSession() bool { return l.client.HasSession() }

// Call implements link.Link.
func (l *Link) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return l.CallWithin(ctx, call, rpc.Limit{})
}

// CallWithin implements link.Link.
func (l *Link) CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	return l.rpc.Call(ctx, l.call(call, limit))
}

// Submit implements link.Link.
func (l *Link) Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	return l.rpc.Submit(l.call(call, limit), complete)
}

func (l *Link) call(call wire.Call, limit rpc.Limit) rpc.Call {
	p := &post{link: l, owner: call.Owner, method: call.Method, header: call.Header}
	p.anyStream = !p.stateless() && l.hasGetStream.Load()
	return rpc.Call{Call: call, Stream: p, AnyStream: p.anyStream, Limit: limit}
}

// Notify implements link.Link. Notify waits until the server has accepted the notification. After
// notifications/initialized, Notify opens the GET stream.
func (l *Link) Notify(ctx context.Context, method string, params []byte) error {
	if err := l.refusal(); err != nil {
		return l.opts.Errors.Unsent(err)
	}
	posting, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	status, err := l.postMessage(posting, wire.Notification(method, params))
	switch {
	case ctx.Err() != nil && (err != nil || status != nil):
		return context.Cause(ctx)
	case err != nil:
		f := l.failure(err)
		if f.ends {
			l.end(f.err, false)
		}
		return f.marked(l.opts.Errors)
	case status != nil && l.lostSession(status.Status):
		return l.opts.Errors.Unsent(l.loseSession())
	case status != nil:
		return l.opts.Errors.Unusable(method, status)
	}
	if method == protocol.NotificationInitialized {
		l.listening.Do(func() { l.start(l.listen) })
	}
	return nil
}

// Negotiated implements link.Link.
func (l *Link) Negotiated(revision protocol.Revision) {
	l.client.SetRevision(revision)
	l.rpc.SetBatches(revision.Has(protocol.Batches))
}

// Done implements link.Link.
func (l *Link) Done() <-chan struct{} { return l.rpc.Done() }

// Err implements link.Link.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// postMessage posts a message without an answer. status is not nil if the response is not a
// success.
func (l *Link) postMessage(ctx context.Context, msg []byte) (status *httpclient.StatusError, err error) {
	resp, err := l.client.Do(ctx, http.MethodPost, msg, "", nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		httpclient.Discard(resp.Body)
		return nil, nil
	}
	return httpclient.NewStatusError(resp), nil
}

// postInBackground posts a message without a waiting caller, on a goroutine of the link, and then
// calls done. A failure is logged at level. If the link has ended, postInBackground returns false
// and does not call done.
func (l *Link) postInBackground(msg []byte, label string, level slog.Level, done func()) bool {
	return l.start(func() {
		defer done()
		ctx, cancel := context.WithTimeout(l.ctx, backgroundTimeout)
		defer cancel()
		status, err := l.postMessage(ctx, msg)
		if status != nil {
			err = status
			if l.lostSession(status.Status) {
				l.loseSession()
			}
		}
		if err != nil && l.ctx.Err() == nil {
			l.log.Log(ctx, level, label+" was not accepted by the server", "err", err)
		}
	})
}

// start runs f on a goroutine of the link, and returns false if the link has ended.
func (l *Link) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused() != nil {
		return false
	}
	l.wg.Go(f)
	return true
}

// refusal returns why no further request may be made, or nil.
func (l *Link) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused()
}

// refused is refusal for a caller that holds l.mu.
func (l *Link) refused() error {
	if l.err == nil && l.closing {
		return l.closed()
	}
	return l.err
}

// closed returns the error of calls after Shutdown.
func (l *Link) closed() error { return l.opts.Errors.Down("connection closed", wire.ErrClosed) }

// charge charges the server for bytes that belong to no call in flight.
func (l *Link) charge(bytes int) {
	if l.opts.Unsolicited != nil {
		l.opts.Unsolicited(bytes, l.ctx.Done())
	}
}

// end ends the link. Only the first call counts. down is the error of calls in
// flight. With atOnce, a new link is made without delay.
func (l *Link) end(down error, atOnce bool) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = down
	if atOnce {
		l.err = l.opts.Errors.Unsent(down)
	}
	l.mu.Unlock()
	l.rpc.End(down) // before the requests are aborted, so that calls end with this error
	l.cancel(down)
}

// Shutdown implements link.Link. Shutdown waits for calls in flight, and deletes the server's
// session.
func (l *Link) Shutdown(grace time.Duration, kill <-chan struct{}) {
	l.mu.Lock()
	l.closing = true
	alive := l.err == nil
	var drained chan struct{}
	if l.calls > 0 && alive {
		drained = make(chan struct{})
		l.drained = drained
	}
	l.mu.Unlock()
	if drained != nil {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-drained:
		case <-l.Done():
		case <-t.C:
		case <-kill:
		}
	}
	closed := l.closed()
	l.end(closed, false)
	if alive {
		l.deleteSession(grace, kill)
	}
	l.wg.Wait()
	l.rpc.Close(closed)
	l.client.Close()
}

// deleteSession asks the server to end the session. Not every server supports the deletion.
func (l *Link) deleteSession(grace time.Duration, kill <-chan struct{}) {
	if !l.client.HasSession() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	l.wg.Go(func() {
		select {
		case <-kill:
			cancel()
		case <-ctx.Done():
		}
	})
	resp, err := l.client.Do(ctx, http.MethodDelete, nil, "", nil)
	if err != nil {
		l.log.Debug("session not deleted", "err", err)
		return
	}
	httpclient.Discard(resp.Body)
}

// listen reads the GET stream, and opens the stream again after each end, until the link ends.
// listen stops if the server has no GET stream.
func (l *Link) listen() {
	at := cursor{retry: -1}
	opened := false
	for {
		resp, err := l.client.Do(l.ctx, http.MethodGet, nil, at.id, nil)
		switch {
		case l.ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return
		case err != nil:
			f := l.failure(err)
			l.log.Debug("the GET stream could not be opened", "err", f.err)
			if f.ends {
				l.end(f.err, false)
			}
			at.failures++
		case resp.StatusCode == http.StatusOK && httpclient.ContentType(resp.Header) == httpclient.ContentEvents:
			opened = true
			l.hasGetStream.Store(true)
			at.failures = 0
			l.readStream(resp, &at)
		default:
			at.failures++
			if status := httpclient.NewStatusError(resp); !l.retriable(status, opened) {
				return
			}
		}
		if !at.wait(l.ctx) {
			return
		}
	}
}

// readStream reads a response of the GET stream to the end.
func (l *Link) readStream(resp *http.Response, at *cursor) {
	s := l.open(l.ctx, resp, at.id)
	defer s.close()
	for since, received := time.Now(), false; ; received = true {
		if err := l.next(s, &l.main); err != nil {
			at.update(s.events, received || time.Since(since) > maxRetry, err)
			return
		}
	}
}

// retriable reports whether the stream is to be tried again after the server has refused the stream
// with this status. Servers without the stream answer 405; some answer 404, which otherwise means a
// lost session.
func (l *Link) retriable(status *httpclient.StatusError, opened bool) bool {
	switch {
	case status.Status == http.StatusNotFound && opened && l.lostSession(status.Status):
		l.loseSession()
		return false
	case status.Status/100 == 5 && status.Status != http.StatusNotImplemented,
		status.Status == http.StatusTooManyRequests, status.Status == http.StatusConflict:
		l.log.Debug("the GET stream could not be opened", "err", status)
		return true
	}
	l.hasGetStream.Store(false)
	if status.Status != http.StatusMethodNotAllowed {
		l.log.Debug("the server has no GET stream", "err", status)
	}
	return false
}

// mainStream is the stream of messages that belong to no call: the server's messages come on the
// GET stream, and each of ours is sent with a POST.
type mainStream struct{ link *Link }

// TrySend implements rpc.Stream. Calls have streams of their own.
func (m *mainStream) TrySend(f rpc.Frame) bool {
	m.send(f, "a message", slog.LevelWarn)
	return true
}

// Send implements rpc.Stream.
func (m *mainStream) Send(_ context.Context, f rpc.Frame) error {
	m.send(f, "a message", slog.LevelWarn)
	return nil
}

// Push implements rpc.Stream.
func (m *mainStream) Push(f rpc.Frame) error {
	m.send(f, "a cancellation", slog.LevelDebug)
	return nil
}

// Withdraw implements rpc.Stream.
func (m *mainStream) Withdraw(int64) bool { return false }

// Finish implements rpc.Stream: Finish posts the answer to a request of the server.
func (m *mainStream) Finish(f rpc.Frame) {
	if f.Data != nil {
		m.send(f, "the answer to a request of the server", slog.LevelWarn)
	}
}

func (m *mainStream) send(f rpc.Frame, label string, level slog.Level) {
	if !m.link.postInBackground(f.Data, label, level, func() { f.Done(rpc.Written, nil) }) {
		f.Done(rpc.Unsent, nil)
	}
}
