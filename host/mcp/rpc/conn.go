// Package rpc implements a JSON-RPC connection of MCP with a client or with a server, over any
// transport that carries raw frames. Begin with [Conn]: a transport passes each frame to
// [Conn.Receive] together with the [Stream] of the frame, and [Conn.Submit] and [Conn.Call] make
// calls. Stdio and the legacy SSE transport have only the connection's main stream. Over streamable
// HTTP each POST is a separate stream, and the GET stream is the main stream.
//
// Package rpc itself handles ping, notifications/cancelled, notifications/progress, and the methods
// that report the end of a task. All other methods are passed to a [Handler].
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Peer is the kind of program at the other end of a connection. The kind determines the handling of
// malformed messages.
type Peer int

const (
	// Client is a peer whose malformed messages are refused with an error
	// response, as JSON-RPC 2.0 section 5 requires.
	Client Peer = iota
	// Server is a peer whose malformed messages are reported as garbage and
	// skipped, because many servers write log lines to stdout. Invalid UTF-8 is
	// repaired. Only messages with the id of a request are answered.
	Server
)

// DefaultMaxRequests is the default of Options.MaxRequests.
const DefaultMaxRequests = 128

// Options are the options of a Conn. Main and Handler must be set.
type Options struct {
	// Peer is the kind of program at the other end.
	Peer Peer
	// Main is the stream for messages outside of requests in flight.
	Main Stream
	// Handler handles the peer's requests and notifications.
	Handler Handler
	// Errors makes the errors of calls; nil: the errors of this package.
	Errors Errors
	// SerialIDs makes the ids of the proxy's requests 1, 2, 3 and their progress tokens the same
	// numbers. Otherwise neither can be guessed, which matters where several sessions share one
	// connection.
	SerialIDs bool
	// SharedIDs is set if the peer is several programs that choose the ids of their requests
	// independently, each frame on a stream of its own, as clients without a session over HTTP do.
	// Then two requests in flight can have the same id, and only Abandon and Drop cancel a request,
	// not notifications/cancelled.
	SharedIDs bool
	// HandlesPing reports whether the Handler gets a ping with these params, instead of the
	// connection answering it; nil: the Handler gets no ping.
	HandlesPing func(params []byte) bool
	// MaxRequests limits the number of the peer's requests in flight, including cancelled requests
	// with unfinished work. More are refused. 0: DefaultMaxRequests.
	MaxRequests int
	// MaxAnswers limits the number of the peer's requests, and batches of requests, whose answers
	// have not been written. At this number, Receive waits. MaxAnswers should be larger than
	// MaxRequests, because requests in flight count too. 0: 128 more than MaxRequests.
	MaxAnswers int
	// KeepWorkers is how many idle goroutines are kept for further requests.
	KeepWorkers int
	// Unsolicited is called with the number of bytes from the peer outside of calls in flight, on
	// the reading goroutine. Unsolicited may block to slow down the reading of the peer. Nil: these
	// bytes cost nothing.
	Unsolicited func(bytes int)
	// Garbage is called for an unusable message with the reason, for people, and the first bytes
	// (at most MaxExcerpt). Nil: the message is only logged.
	Garbage func(reason string, raw []byte)
	// Memory counts the peer's requests in flight, as far as their messages are not
	// counted where they are read, and answers until they have been written. Small ones
	// are not counted. Nil: none are.
	Memory Memory
	// Tracer follows the proxy's calls; nil: no tracing.
	Tracer Tracer
	// Log gets garbage at level warn, at most 10 records in 10 seconds, and late
	// messages at level debug. Nil: they are not logged.
	Log *slog.Logger
}

// Handler handles the peer's requests and notifications. The methods run on the goroutine of
// Receive, in the order of the stream. The stream is not read until they return.
type Handler interface {
	// Request handles a request other than ping (but see Options.HandlesPing). Each request must be
	// answered once: with Reply, or with Start if the work blocks.
	Request(r *Request)
	// Notification handles every notification except those about a single request,
	// notifications/progress and notifications/cancelled.
	Notification(m wire.Inbound)
}

// Errors makes the errors of failed calls. The owner of the connection implements Errors. The
// methods are safe for concurrent use and must not block.
type Errors interface {
	// Down returns the error for an ended or broken connection.
	Down(reason string, cause error) error
	// Unsent marks an error of Down, or an error that wraps one, as the error of a request that the
	// peer has certainly not seen. Unsent returns other errors unchanged.
	Unsent(err error) error
	// Unusable returns the error for an unusable answer; cause is a *wire.RPCError or a
	// *wire.TooLargeError.
	Unusable(method string, cause error) error
	// Timeout returns the error for a request without an answer within a limit: Limit.Max if max is
	// set, else Limit.Idle.
	Timeout(method string, after time.Duration, max bool) error
}

// Conn is a JSON-RPC connection. A Conn is safe for concurrent use, but the frames of one stream
// must be received one after another.
type Conn struct {
	opts   Options
	log    *slog.Logger
	errors Errors

	ctx            context.Context // of work for the peer; ends with the connection
	cancel         context.CancelCauseFunc
	done           chan struct{} // closed when every call has its outcome
	inbound        sync.WaitGroup
	timers         sync.WaitGroup
	workers        workers
	answers        chan struct{} // a token for each answer still to be written
	batches        atomic.Bool   // the negotiated revision has batches
	heard          atomic.Int64  // see Heard
	mainOwnersFunc func() []any  // mainOwners, made once
	garbage        limiter       // guarded by garbageMu
	garbageMu      sync.Mutex    // guards garbage
	callPool       sync.Pool     // of *call

	mu               sync.Mutex // guards state; a leaf
	progressReturned *sync.Cond // a progress callback has returned; uses mu
	state            state
	limitTimer       *time.Timer // see scheduleLimit; nil before the first limit
}

// New makes a connection. The connection ends with ctx, or at End. The owner passes frames to the
// connection (Receive) and must Close the connection.
func New(ctx context.Context, opts Options) *Conn {
	if opts.MaxRequests <= 0 {
		opts.MaxRequests = DefaultMaxRequests
	}
	if opts.MaxAnswers <= 0 {
		opts.MaxAnswers = opts.MaxRequests + 128
	}
	if opts.Errors == nil {
		opts.Errors = plainErrors{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{
		opts: opts, log: opts.Log, errors: opts.Errors,
		done: make(chan struct{}), answers: make(chan struct{}, opts.MaxAnswers),
		state: newState(opts.SerialIDs),
	}
	c.progressReturned = sync.NewCond(&c.mu)
	c.mainOwnersFunc = c.mainOwners
	// Only End ends c.ctx. So calls have ended before work for the peer is cancelled, which would
	// otherwise cancel the work's own calls.
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.workers = workers{keep: opts.KeepWorkers, ctx: c.ctx, next: make(chan *Request)}
	if ctx.Done() != nil {
		c.endWith(ctx)
	}
	return c
}

// endWith ends the connection when ctx ends.
func (c *Conn) endWith(ctx context.Context) {
	c.timers.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer c.timers.Done()
		c.End(context.Cause(ctx))
	})
	c.state.stop = func() {
		if stop() {
			c.timers.Done()
		}
	}
}

// Context returns a context that ends with the connection. The cause is the error given to End.
func (c *Conn) Context() context.Context { return c.ctx }

// Done returns a channel that is closed after the end of the connection, when every call has an
// outcome.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns the error given to End, nil before the end of the connection.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.end
}

// SetBatches sets whether the negotiated revision has JSON-RPC batches. Before the negotiation, and
// in revisions without batches, an array is not a message, because the array could take many times
// its size in memory.
func (c *Conn) SetBatches(has bool) { c.batches.Store(has) }

// Calls returns the number of our calls in flight.
func (c *Conn) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.state.calls)
}

// End ends the connection: all calls fail with err, which must not be nil, and the contexts of the
// peer's requests in flight end with err. Their answers are still passed to their streams. Only the
// first End counts. End does not block.
func (c *Conn) End(err error) {
	c.mu.Lock()
	calls, cancels, first := c.state.finish(err)
	if first {
		c.stopTimer()
	}
	c.mu.Unlock()
	if !first {
		return
	}
	for _, p := range calls {
		c.conclude(p, outcome{err: err, unsent: p.stream.Withdraw(p.id)})
	}
	c.cancel(err)
	for _, cancel := range cancels {
		cancel(err)
	}
	close(c.done)
}

// Close ends the connection with err, unless the connection has ended, refuses further requests of
// the peer, and waits for requests in flight, for goroutines of the connection and for the timer.
// Close may be called more than once.
func (c *Conn) Close(err error) {
	c.refuse(err)
	c.wait()
}

// CloseWithin is Close with a limit on the wait. CloseWithin returns false after a wait that was
// too short.
func (c *Conn) CloseWithin(most time.Duration, err error) bool {
	c.refuse(err)
	return within(most, c.wait)
}

// Drain waits until the peer's requests in flight are answered, but not longer than most. It
// reports whether all are answered.
func (c *Conn) Drain(most time.Duration) bool { return within(most, c.inbound.Wait) }

func (c *Conn) refuse(err error) {
	c.End(err)
	c.mu.Lock()
	stop := c.state.close()
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (c *Conn) wait() {
	c.inbound.Wait()
	c.workers.all.Wait()
	c.timers.Wait()
}

// within reports whether wait returned within a time.
func within(most time.Duration, wait func()) bool {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// plainErrors is used if Options.Errors is nil.
type plainErrors struct{}

func (plainErrors) Down(reason string, cause error) error {
	if cause == nil {
		cause = wire.ErrClosed
	}
	return fmt.Errorf("connection: %s: %w", reason, cause)
}

func (plainErrors) Unsent(err error) error {
	if errors.Is(err, wire.ErrClosed) {
		return &UnsentError{err}
	}
	return err
}

func (plainErrors) Unusable(method string, cause error) error {
	return fmt.Errorf("answer to %s: %w", method, errors.Join(wire.ErrUnusable, cause))
}

func (plainErrors) Timeout(method string, after time.Duration, _ bool) error {
	return fmt.Errorf("no answer to %s within %v: %w", method, after, context.DeadlineExceeded)
}

// UnsentError is the error of a request that the peer has certainly not seen.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() }

func (e *UnsentError) Unwrap() error { return e.Err }

// String returns "client" or "server".
func (p Peer) String() string {
	if p == Server {
		return "server"
	}
	return "client"
}

// Stream sends messages to the peer, whole and in order. A Stream is comparable and safe for
// concurrent use. For each accepted frame, the Stream calls the frame's Done once, on any
// goroutine, perhaps before the method returns.
type Stream interface {
	// TrySend accepts f if possible without waiting. Otherwise TrySend returns false.
	TrySend(f Frame) bool
	// Send waits until f can be accepted, or ctx ends. With an error f has not been accepted: the
	// cause of ctx, ErrFinished, or the error of the broken stream.
	Send(ctx context.Context, f Frame) error
	// Push accepts f, a cancellation, without waiting. Each accepted request has at most one
	// cancellation. With ErrFinished, f has not been accepted.
	Push(f Frame) error
	// Withdraw removes an accepted request. It returns true if no part of the request has been or
	// will be written; then the frame's Done is not called.
	Withdraw(id int64) bool
	// Finish is called once for each frame of the peer on the stream with requests, when all of
	// them have been answered or dropped. f is the last message for them, without Data if no
	// message is due. Finish accepts f without waiting.
	Finish(f Frame)
}

// CallStream is a Stream for a single request of the proxy and the peer's messages for this
// request, for example a POST of streamable HTTP and the response. Messages on the stream belong to
// this call alone. An answer with a different id than the request is never accepted.
type CallStream interface {
	Stream
	// Call returns the id of the request (Frame.ID) and the owner (wire.Call.Owner).
	Call() (id int64, owner any)
	// Settled is called at most once, at the outcome of the call. answered reports whether the
	// outcome is an answer, and elsewhere whether the answer, perhaps an unusable one, came on
	// another stream. Settled must not block.
	Settled(answered, elsewhere bool)
}

// ErrFinished means that a stream accepts no more messages because Finish was called. Such messages
// are then sent on the main stream.
var ErrFinished = errors.New("the stream is finished")

// Frame is a message on its way to a Stream.
type Frame struct {
	Data []byte // a JSON-RPC message or batch; the stream must not change it
	// ID is the id of a request of ours; 0 for all other messages.
	ID int64
	// Cancels is the id of the cancelled request; 0 for messages other than cancellations.
	Cancels int64
	// Permit is asked with wire.CheckPermit just before a request is written. A denied request is
	// Unsent with the Permit's error.
	Permit wire.Permit

	conn   *Conn
	answer bool // the frame holds one of conn.answers
	bytes  int  // bytes of Options.Memory held by the frame
	alone  bool // no other request was in flight, so waiting for more to write is of no use
}

// WriteResult says whether a frame was written.
type WriteResult int

const (
	// Written: the frame was written or passed to the operating system.
	Written WriteResult = iota
	// Broken: writing failed, and a part of the frame may have been written.
	Broken
	// Unsent: nothing of the frame has been or will be written.
	Unsent
)

// Done tells the connection whether f was written. A request that was not Written fails with err.
// If err is nil, the request fails with the error of the ending connection, or with an error about
// a peer that does not read.
func (f Frame) Done(result WriteResult, err error) {
	if f.conn == nil {
		return
	}
	if f.answer {
		<-f.conn.answers
	}
	if f.bytes > 0 {
		f.conn.opts.Memory.Sub(f.bytes)
	}
	if f.ID == 0 || result == Written {
		return
	}
	if err == nil {
		err = errUnwritten
	}
	f.conn.resolve(f.ID, outcome{err: err, unsent: result == Unsent})
}

// errUnwritten stands for the error of a request that could not be written; see Conn.callerResult.
var errUnwritten = errors.New("not written")

// Tracer follows the calls of a connection, for telemetry. A Tracer is safe for concurrent use and
// must not block.
type Tracer interface {
	// BeginCall is called with each call before the call is sent, with the id on the wire. ctx is
	// the context of Conn.Call; Submit has none and passes an empty context. BeginCall returns the
	// params to send. The end of a call with a nil Span is not reported.
	BeginCall(ctx context.Context, id int64, call wire.Call) (params []byte, span Span)
}

// Span follows one request, in either direction.
type Span interface {
	// End is called once with the outcome: a reply, or the error. End must not block. If a call
	// that Submit could not send is made again with Call, the first Span never ends.
	End(reply wire.Reply, err error)
}

// trace begins the span of a call, and sets the params to send.
func (c *Conn) trace(ctx context.Context, p *call, call *Call) {
	call.Params, p.span = c.opts.Tracer.BeginCall(ctx, p.id, call.Call)
}

// endSpan ends the span of a call, if any.
func (p *call) endSpan(reply wire.Reply, err error) {
	if p.span != nil {
		p.span.End(reply, err)
	}
}

// Observe sets the span that is told the end of the request. The handler calls Observe first.
func (r *Request) Observe(s Span) { r.span = s }

// Span returns the span set by Observe, or nil.
func (r *Request) Span() Span { return r.span }

// Memory counts bytes kept for the peer of a connection. A Memory is safe for concurrent use and
// does not block.
type Memory interface {
	// Add adds n bytes. The error, for the peer, reports a lack of memory.
	Add(n int) error
	// Sub takes n bytes away.
	Sub(n int)
}

// smallSize is the size in bytes of the largest request or answer that is not counted: pings,
// cancellations and similar small messages always get through. Their number is limited.
const smallSize = 4 << 10

// admitBytes counts the bytes of a request. The error is the answer to the request.
func (c *Conn) admitBytes(r *Request) *wire.RPCError {
	n := len(r.Params)
	if c.opts.Memory == nil || n <= smallSize || n > budget.Small { // a larger request is counted by the reader
		return nil
	}
	if err := c.opts.Memory.Add(n); err != nil {
		return wire.Errorf(wire.CodeInternal, "request refused: %s", limits.Explain(err))
	}
	r.bytes = n
	return nil
}

// settleBytes ends the counting of a request.
func (c *Conn) settleBytes(r *Request) {
	if r.bytes > 0 {
		c.opts.Memory.Sub(r.bytes)
	}
}

// countAnswer counts an answer until the answer has been written. Without memory for the answer,
// countAnswer returns an error instead.
func (c *Conn) countAnswer(reply wire.Reply) (_ wire.Reply, bytes int) {
	n := len(reply.Result) + len(reply.Error)
	if c.opts.Memory == nil || n <= smallSize {
		return reply, 0
	}
	if err := c.opts.Memory.Add(n); err != nil {
		return wire.Reply{Error: LostAnswer(err)}, 0
	}
	return reply, n
}

// LostAnswer returns the raw error sent in place of an answer for which memory is lacking.
func LostAnswer(err error) []byte {
	return wire.Errorf(wire.CodeInternal, "the answer is lost: %s", limits.Explain(err)).Raw()
}
