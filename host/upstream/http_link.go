package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

const (
	// maxFlights is how many calls may be under way on one link, cancelled ones
	// included whose notification is not out yet. More wait.
	maxFlights = 4096
	// asideTime bounds a request that nobody waits for: a cancellation, or an
	// answer to the server.
	asideTime = 10 * time.Second
)

// httpLink is the link to a server over streamable HTTP (revision 2025-11-25,
// basic/transports): one POST for each message, whose response is a JSON answer
// or a stream of events with the answer among them, and one GET for what the
// server has to say otherwise.
//
// A call is read by the goroutine that makes it, so a callback holds up no
// other call.
type httpLink struct {
	name   string
	log    *slog.Logger
	opts   linkOptions
	max    int // bytes of a message
	client *httpclient.Client

	// ctx is the life of the link; its cause is err.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	done   chan struct{}
	slots  chan struct{} // one token per flight

	batches   atomic.Bool // the negotiated revision has JSON-RPC batches
	worked    atomic.Bool // the session has answered something after the handshake
	hears     atomic.Bool // the server takes a GET, so that an answer may come there
	listening sync.Once
	tasks     taskTokens
	serving   chan struct{} // one token per running onRequest
	answers   chan struct{} // one token per request of the server until its answer is sent

	mu      sync.Mutex
	ids     ids
	flights map[int64]*flight
	late    []given             // owners of calls given up a moment ago, oldest first
	asked   map[string]*inbound // requests of the server that are being answered
	closing bool                // shutDown was called
	empty   chan struct{}       // made by shutDown; closed when flights is empty
	err     error               // why the link ended
	garbage limiter
}

// flight is a request of ours that waits for its answer.
type flight struct {
	id       int64
	method   string
	params   []byte // as the caller gave them
	progress func(params []byte)
	permit   wire.Permit
	owner    any
	owners   func() []any // made when first needed, on the goroutine of the call
	answer   chan outcome // gets an answer that comes on the GET stream; nil if there is none

	// turn is held while progress runs; nil if there is none. over says that
	// progress must not run any more, and is guarded by it.
	turn chan struct{}
	over bool
}

func dialHTTP(_ context.Context, spec Spec, opts linkOptions) (link, error) {
	l, err := newHTTPLink(spec, opts)
	if err != nil {
		return nil, err
	}
	if spec.Transport == "" {
		return newFallbackLink(spec, opts, l), nil
	}
	return l, nil
}

func newHTTPLink(spec Spec, opts linkOptions) (*httpLink, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	l := &httpLink{
		name:    spec.Name,
		log:     opts.log,
		opts:    opts,
		max:     spec.MaxMessage,
		client:  client,
		ids:     newIDs(),
		done:    make(chan struct{}),
		slots:   make(chan struct{}, maxFlights),
		serving: make(chan struct{}, maxServing),
		answers: make(chan struct{}, maxAnswers),
		flights: make(map[int64]*flight),
		asked:   make(map[string]*inbound),
	}
	if l.max <= 0 {
		l.max = wire.DefaultMaxMessage
	}
	if opts.serialIDs {
		l.ids = ids{}
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l, nil
}

func (l *httpLink) negotiated(revision protocol.Revision) {
	l.client.SetRevision(revision)
	l.batches.Store(revision.Has(protocol.Batches))
}

func (l *httpLink) Done() <-chan struct{} { return l.done }

func (l *httpLink) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *httpLink) pid() int             { return 0 }
func (l *httpLink) stderrTail() []string { return nil }

// Call sends a request; see link. It runs the progress callback itself, so it
// does not return while that runs.
func (l *httpLink) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	f, err := l.takeOff(ctx, call)
	if err != nil {
		return wire.Reply{}, notSent(err)
	}
	params, err := withToken(call, &l.ids, f.id)
	if err != nil {
		l.land(f, nil)
		return wire.Reply{}, err
	}
	if call.Sent != nil {
		call.Sent(params)
	}
	// The request ends with the link and, until its answer is there, with ctx.
	// What is left of its stream then is read after we have returned.
	rctx, cancel := context.WithCancel(l.ctx)
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	reply, rest, err := l.exchange(rctx, f, wire.Request(f.id, call.Method, params))
	if rest != nil {
		stop()
		l.wg.Go(func() { rest.drain(cancel) })
	} else {
		cancel()
	}
	if err == nil {
		l.answered(f, reply)
		l.land(f, nil)
		return reply, nil
	}
	if ctx.Err() == nil {
		err = l.failure(err)
		l.land(f, nil)
		return wire.Reply{}, err
	}
	var aside func()
	if !httpclient.NotDialed(err) && !surelyUnsent(err) && call.Method != protocol.MethodInitialize {
		aside = func() { l.takeBack(f.id, context.Cause(ctx)) }
	}
	l.land(f, aside)
	return wire.Reply{}, context.Cause(ctx)
}

// takeOff registers a call.
func (l *httpLink) takeOff(ctx context.Context, call wire.Call) (*flight, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.done:
		return nil, l.Err()
	}
	f := &flight{method: call.Method, params: call.Params, progress: call.Progress, permit: call.Permit, owner: call.Owner}
	if call.Progress != nil {
		f.turn = make(chan struct{}, 1)
	}
	if l.hears.Load() {
		f.answer = make(chan outcome, 1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.shut(); err != nil {
		<-l.slots
		return nil, err
	}
	f.id = l.ids.next()
	l.flights[f.id] = f
	return f, nil
}

// shut is why no request may be made any more, or nil. The caller holds l.mu.
func (l *httpLink) shut() error {
	if l.err == nil && l.closing {
		return l.closed()
	}
	return l.err
}

func (l *httpLink) closed() *DownError {
	return &DownError{Upstream: l.name, Reason: "connection closed", Err: wire.ErrClosed}
}

// answered looks at an answer before its caller owns it.
func (l *httpLink) answered(f *flight, reply wire.Reply) {
	if f.method != protocol.MethodInitialize {
		l.worked.Store(true)
	}
	if f.progress != nil && asksForTask(f.params) {
		l.tasks.begin(f.id, f.afterwards, reply.Result)
	}
	l.tasks.answered(f.method, f.params, reply)
}

// land ends a flight: its progress is not called any more. aside, if not nil,
// is still to be done for it, and nobody waits for that.
func (l *httpLink) land(f *flight, aside func()) {
	if f.turn != nil {
		f.turn <- struct{}{}
		f.over = true
		<-f.turn
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flights, f.id)
	if len(l.flights) == 0 && l.empty != nil {
		close(l.empty)
		l.empty = nil
	}
	if aside == nil || l.shut() != nil {
		<-l.slots
		return
	}
	if f.owner != nil {
		l.late = linger(l.late, given{f.id, f.owner, time.Now().Add(lingering)})
	}
	l.wg.Go(func() {
		defer func() { <-l.slots }()
		aside()
	})
}

// linger adds to the owners of calls that were given up.
func linger(late []given, g given) []given {
	late = expire(late, time.Now())
	if len(late) == maxLingering {
		late = append(late[:0], late[1:]...)
	}
	return append(late, g)
}

// deliver hands progress to a call and tells whether it was still wanted.
func (f *flight) deliver(params []byte) bool {
	if f.turn == nil {
		return false
	}
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if f.over {
		return false
	}
	f.progress(params)
	return true
}

// afterwards hands progress to a call that was answered with a task.
func (f *flight) afterwards(params []byte) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.progress(params)
}

// takeBack tells the server that a request was cancelled.
func (l *httpLink) takeBack(id int64, cause error) {
	ctx, cancel := context.WithTimeout(l.ctx, asideTime)
	defer cancel()
	msg := wire.Notification(protocol.NotificationCancelled, wire.CancelParams(cause, id))
	if err := l.tell(ctx, protocol.NotificationCancelled, msg); err != nil {
		l.log.Debug("cancellation not sent", "id", id, "err", err)
	}
}

// Notify sends a notification; see link. The one that ends the handshake opens
// the stream of the server's own messages.
func (l *httpLink) Notify(ctx context.Context, method string, params []byte) error {
	l.mu.Lock()
	err := l.shut()
	l.mu.Unlock()
	if err != nil {
		return notSent(err)
	}
	rctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if err := l.tell(rctx, method, wire.Notification(method, params)); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return l.failure(err)
	}
	if method == protocol.NotificationInitialized {
		l.listening.Do(func() { l.start(l.listen) })
	}
	return nil
}

// tell posts a message that has no answer.
func (l *httpLink) tell(ctx context.Context, method string, msg []byte) error {
	resp, err := l.client.Do(ctx, http.MethodPost, msg, "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 == 2 {
		httpclient.Discard(resp.Body)
		return nil
	}
	status := httpclient.NewStatusError(resp)
	if l.lostSession(status.Status) {
		return l.lose()
	}
	return &AnswerError{Upstream: l.name, Method: method, Err: status}
}

// start runs f on a goroutine of the link, unless that has ended.
func (l *httpLink) start(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut() == nil {
		l.wg.Go(f)
	}
}

// lostSession tells whether a status means that the server has forgotten our
// session.
func (l *httpLink) lostSession(status int) bool {
	return status == http.StatusNotFound && l.client.HasSession()
}

// lose ends the link because its session is lost. The request that the server
// said so to was not acted upon.
func (l *httpLink) lose() error {
	down := &DownError{Upstream: l.name, Reason: "it has forgotten our session"}
	if l.worked.Load() { // else the next one may fare no better: no hurry
		down.unsent = true
	}
	l.end(down)
	return notSent(down)
}

// end ends the link, once.
func (l *httpLink) end(down *DownError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = down
	l.cancel(down)
	close(l.done)
}

// ended is why the link has ended, for a request that the end is not about: it
// may have been acted on. It is nil while the link lives.
func (l *httpLink) ended() error {
	down, ok := l.Err().(*DownError)
	if !ok {
		return nil
	}
	copied := *down
	copied.unsent = false
	return &copied
}

// failure makes of what went wrong with a request, whose ctx is good, what its
// caller is told.
func (l *httpLink) failure(err error) error {
	ended := l.ended()
	var down *DownError
	var answer *AnswerError
	var auth *httpclient.AuthError
	var timeout net.Error
	var denied *wire.DeniedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer), errors.As(err, &denied), errors.As(err, &down) && error(down) != l.Err():
		return err
	case ended != nil:
		return ended
	case errors.As(err, &auth):
		return &DownError{Upstream: l.name, Reason: auth.Error(), Err: err}
	case httpclient.NotDialed(err):
		down = &DownError{Upstream: l.name, Reason: "it cannot be reached: " + clip(err.Error()), Err: err}
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			l.end(down) // nobody listens there
		}
		return notSent(down)
	}
	return &DownError{Upstream: l.name, Reason: fmt.Sprintf("its connection failed before the answer came: %s", clip(err.Error())), Err: err}
}

// shutDown ends the link and the server's session.
func (l *httpLink) shutDown(grace time.Duration, kill <-chan struct{}) {
	l.mu.Lock()
	l.closing = true
	var empty chan struct{}
	if len(l.flights) > 0 {
		empty = make(chan struct{})
		l.empty = empty
	}
	alive := l.err == nil
	l.mu.Unlock()
	if empty != nil && alive {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-empty:
		case <-l.done:
		case <-t.C:
		case <-kill:
		}
	}
	l.end(l.closed())
	if alive {
		l.deleteSession(grace, kill)
	}
	if empty != nil {
		<-empty
	}
	l.wg.Wait()
	l.client.Close()
}

// deleteSession tells the server that the session is over. Not every server
// lets clients do that.
func (l *httpLink) deleteSession(grace time.Duration, kill <-chan struct{}) {
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
