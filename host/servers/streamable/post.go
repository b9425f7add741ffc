package streamable

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// post is a call: a POST with the server's messages in the response. It implements rpc.CallStream.
// The method run does the work on a goroutine of the link, so that a slow callback delays no other
// call.
type post struct {
	link      *Link
	owner     any
	method    string
	header    http.Header // of a request of the stateless era; nil otherwise
	anyStream bool        // the answer may also come on the GET stream
	frame     rpc.Frame

	ctx    context.Context // of the POST; ends with the link, or when the call is cancelled
	cancel context.CancelFunc

	mu           sync.Mutex
	state        state
	counted      bool          // among Link.calls
	sent         bool          // the server may have seen the request
	attempted    bool          // the request is being sent
	accepted     bool          // the server has begun to respond
	withdrawn    bool          // Withdraw was called
	hasOutcome   bool          // the call has an outcome
	answered     bool          // the outcome is an answer
	outcomeChan  chan struct{} // made by outcome; closed when hasOutcome is set
	cancellation []byte        // the notification that cancels the call, or nil
}

// state is the progress of a post.
type state int

const (
	waiting   state = iota // nothing has been sent
	withdrawn              // nothing has been sent, and nothing will be
	running                // the POST is being made
	finished               // run has returned or is about to return
)

// stateless reports whether the request is of the stateless era. Closing the request's stream
// cancels the request, and the stream is not resumed (revision 2026-07-28,
// basic/transports/streamable-http).
func (p *post) stateless() bool { return p.header != nil }

// Call implements rpc.CallStream.
func (p *post) Call() (id int64, owner any) { return p.frame.ID, p.owner }

// TrySend implements rpc.Stream.
func (p *post) TrySend(f rpc.Frame) bool {
	select {
	case p.link.slots <- struct{}{}:
	default:
		return false
	}
	p.begin(f)
	return true
}

// Send implements rpc.Stream.
func (p *post) Send(ctx context.Context, f rpc.Frame) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case p.link.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.link.Done():
		return p.link.Err()
	}
	p.begin(f)
	return nil
}

// begin starts the POST. The caller has taken a slot, which run releases.
func (p *post) begin(f rpc.Frame) {
	l := p.link
	p.mu.Lock()
	p.frame = f
	over := p.state == withdrawn || p.hasOutcome
	var err error
	if !over {
		p.ctx, p.cancel = context.WithCancel(l.ctx)
		err = l.run(p)
	}
	if over || err != nil {
		p.state = withdrawn
	}
	p.counted = p.state == waiting
	p.mu.Unlock()
	if !over && err == nil {
		return
	}
	if p.cancel != nil {
		p.cancel()
	}
	<-l.slots
	f.Done(rpc.Unsent, err)
}

// run passes a post to a goroutine, and returns an error if the link has ended.
func (l *Link) run(p *post) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refused(); err != nil {
		return err
	}
	l.calls++
	select {
	case l.queue <- p:
	default:
		l.wg.Go(func() { l.runAll(p) })
	}
	return nil
}

// runAll runs a post, and then further posts, until enough goroutines are idle.
func (l *Link) runAll(p *post) {
	for {
		p.run()
		if l.idle.Add(1) > maxIdle {
			l.idle.Add(-1)
			return
		}
		select {
		case p = <-l.queue:
			l.idle.Add(-1)
		case <-l.ctx.Done():
			return
		}
	}
}

// run sends the request and reads the response.
func (p *post) run() {
	defer p.cancel()
	if !p.advance(waiting, running) {
		p.releaseSlot()
		return
	}
	header := p.header
	if p.method == protocol.MethodInitialize {
		// A server of the stateless era, which may also be asked about sessions, wants the header
		// in every request; other servers ignore the header.
		header = http.Header{envelope.HeaderMethod: {p.method}}
	}
	resp, err := p.link.client.Post(p.ctx, p.frame.Data, header, p)
	var rest *stream
	if err != nil {
		p.fail(err)
	} else {
		p.setAccepted()
		rest = p.receive(resp)
	}
	p.finish()
	if rest != nil {
		rest.drain(p)
	}
}

// Permitted implements wire.Permit: Permitted notes that the request is about to be sent.
func (p *post) Permitted() error {
	p.mu.Lock()
	p.attempted = true
	p.mu.Unlock()
	if p.frame.Permit == nil {
		return nil
	}
	return p.frame.Permit.Permitted()
}

func (p *post) advance(from, to state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != from {
		return false
	}
	p.state = to
	return true
}

// setAccepted notes that the server has begun to respond. If the call has been cancelled, the POST
// is aborted now.
func (p *post) setAccepted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent, p.accepted = true, true
	if p.withdrawn {
		p.cancel()
	}
}

// fail ends the call after an error of the POST.
func (p *post) fail(err error) {
	f := p.link.failure(err)
	p.mu.Lock()
	p.sent = !f.unsent
	p.mu.Unlock()
	if p.ctx.Err() != nil { // the call has ended with an error already
		return
	}
	if unasked(err) && p.suspect(err.Error()) {
		return
	}
	p.link.rpc.Fail(p.frame.ID, f.err, f.unsent)
	if f.ends { // after Fail, because this call's error differs from the error of the other calls
		p.link.end(f.err, false)
	}
}

// finish releases the slot, if necessary after sending a cancellation.
func (p *post) finish() {
	p.mu.Lock()
	p.state = finished
	msg := p.cancellation
	p.mu.Unlock()
	if msg == nil || !p.sendCancellation(msg) {
		p.releaseSlot()
	}
}

// sendCancellation cancels the call at the server, unless the server cannot know of the call or has
// answered. sendCancellation returns false if nothing is sent.
func (p *post) sendCancellation(msg []byte) bool {
	p.mu.Lock()
	useless := !p.sent || p.answered
	p.mu.Unlock()
	return !useless && p.link.postInBackground(msg, "a cancellation", slog.LevelDebug, p.releaseSlot)
}

func (p *post) releaseSlot() { <-p.link.slots }

// Push implements rpc.Stream: Push cancels the call at the server after the POST was aborted.
func (p *post) Push(f rpc.Frame) error {
	if p.stateless() {
		f.Done(rpc.Written, nil)
		return nil
	}
	p.mu.Lock()
	late := p.state == finished
	if !late {
		p.cancellation = f.Data
	}
	p.mu.Unlock()
	if late {
		p.pushLate(f.Data)
	}
	f.Done(rpc.Written, nil)
	return nil
}

// pushLate is Push after run has returned, when the server has announced the answer on another
// stream.
func (p *post) pushLate(msg []byte) {
	select {
	case p.link.slots <- struct{}{}:
	default: // with so many calls in flight, the cancellation is left out
		return
	}
	if !p.sendCancellation(msg) {
		p.releaseSlot()
	}
}

// defaultAcceptTime is how long a POST without a response continues after the cancellation of the
// call. The cancelling notification is sent after the POST, perhaps on another connection: a server
// that gets the notification before the call would work on in vain.
const defaultAcceptTime = 200 * time.Millisecond

// Withdraw implements rpc.Stream. Withdraw always aborts the POST, if necessary after the link's
// acceptTime.
func (p *post) Withdraw(int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdrawn = true
	unsent := p.state <= withdrawn
	if unsent {
		p.state = withdrawn
	}
	switch {
	case p.cancel == nil:
	case p.attempted && !p.accepted && !p.stateless():
		time.AfterFunc(p.link.acceptTime, p.cancel)
	default:
		p.cancel()
	}
	return unsent
}

// Settled implements rpc.CallStream. If the answer came on the GET stream, the server
// has some time to respond to the POST, which is then aborted.
func (p *post) Settled(answered, elsewhere bool) {
	p.mu.Lock()
	if elsewhere && p.cancel != nil {
		time.AfterFunc(lingerTime, p.cancel)
	}
	p.hasOutcome, p.answered = true, answered
	if p.outcomeChan != nil {
		close(p.outcomeChan)
		p.outcomeChan = nil
	}
	counted := p.counted
	p.mu.Unlock()
	if answered && p.method != protocol.MethodInitialize {
		p.link.hasAnswered.Store(true)
	}
	if counted {
		p.link.settle()
	}
}

// settle counts the outcome of a call.
func (l *Link) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.calls == 0 && l.drained != nil {
		close(l.drained)
		l.drained = nil
	}
}

// over reports whether the call has an outcome.
func (p *post) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hasOutcome
}

// outcome returns a channel that is closed when the call has an outcome.
func (p *post) outcome() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan struct{})
	if p.hasOutcome {
		close(c)
	} else {
		p.outcomeChan = c
	}
	return c
}

// Finish implements rpc.Stream: Finish posts the answer to a request of the server.
func (p *post) Finish(f rpc.Frame) { p.link.main.Finish(f) }

// failUnusable ends the call because of an unusable answer.
func (p *post) failUnusable(err error) { p.link.rpc.FailUnusable(p.frame.ID, err) }

// failure is the effect of a request's error on the call and on the link.
type failure struct {
	err    error // for the caller of the request
	unsent bool  // the server has certainly not seen the request
	ends   bool  // the link is no longer usable
}

// marked returns the error, marked with rpc.Errors.Unsent if unsent is set.
func (f failure) marked(e rpc.Errors) error {
	if f.unsent {
		return e.Unsent(f.err)
	}
	return f.err
}

// failure interprets an error of httpclient.Client.Do.
func (l *Link) failure(err error) failure {
	var denied *wire.DeniedError
	var auth *httpclient.AuthError
	var timeout net.Error
	e := l.opts.Errors
	switch {
	case errors.As(err, &denied):
		return failure{err: err, unsent: true}
	case l.Err() != nil:
		return failure{err: l.rpc.Err(), unsent: httpclient.NotDialed(err)}
	case errors.As(err, &auth):
		return failure{err: e.Down(auth.Error(), err)}
	case httpclient.NotDialed(err):
		late := errors.As(err, &timeout) && timeout.Timeout()
		return failure{err: e.Down("it cannot be reached: "+link.Excerpt(err.Error()), err), unsent: true, ends: !late}
	}
	return failure{err: e.Down("its connection failed before the answer came: "+link.Excerpt(err.Error()), err)}
}
