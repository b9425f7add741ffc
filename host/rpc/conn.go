package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Peer tells what is at the other end of a connection. It decides what happens
// to messages that are not well-formed.
type Peer int

const (
	// Client is a peer whose malformed messages are refused with an error
	// response, as JSON-RPC 2.0 section 5 wants it.
	Client Peer = iota
	// Server is a peer whose malformed messages are reported as garbage and
	// skipped: many servers write log lines to stdout. Invalid UTF-8 is repaired.
	// Only what has the id of a request is answered.
	Server
)

// DefaultMaxRequests is the default of Options.MaxRequests.
const DefaultMaxRequests = 128

// Options of a Conn. Main and Handler must be set.
type Options struct {
	// Peer is what is at the other end.
	Peer Peer
	// Main is the stream for messages that belong to no request in flight.
	Main Stream
	// Handler takes the peer's requests and notifications.
	Handler Handler
	// Errors makes the errors of calls; nil: those of this package.
	Errors Errors
	// SerialIDs makes the ids of our requests 1, 2, 3 and their progress tokens
	// the same numbers. Otherwise neither can be guessed, which matters where
	// several sessions share one connection.
	SerialIDs bool
	// MaxRequests bounds the peer's requests in flight, the cancelled ones
	// included whose work goes on; more are refused. 0: DefaultMaxRequests.
	MaxRequests int
	// MaxAnswers bounds the peer's requests, and batches of them, whose answers
	// are not written yet: Receive waits while there are so many. 0:
	// MaxRequests and 128 more. It should be more than MaxRequests: requests that
	// are worked on count as well.
	MaxAnswers int
	// KeepWorkers is how many idle goroutines are kept for the next requests.
	KeepWorkers int
	// Unasked is told of bytes of the peer that belong to no call in flight, by
	// the goroutine that reads them. It may block, which slows the reading down.
	// Nil: such bytes are free.
	Unasked func(bytes int)
	// Garbage is told of what is no usable message: the reason, for people, and
	// its first bytes (at most MaxExcerpt). Nil: it is only logged.
	Garbage func(reason string, raw []byte)
	// Count is told of each response before it is handed to a stream, so that a
	// large one can be counted until it is written. Nil: nobody is.
	Count func(response []byte)
	// Log takes garbage at level warn, at most 10 records in 10 seconds, and late
	// messages at level debug. Nil: they are not logged.
	Log *slog.Logger
}

// Handler takes what the peer sends on its own account. Its methods run on the
// goroutine that called Receive, in the order of the stream, and hold it up.
type Handler interface {
	// Request takes a request other than ping. It must see to it that the request
	// is answered once: with Reply, or with Start where the work blocks.
	Request(r *Request)
	// Notification takes every notification but those about a single request,
	// notifications/progress and notifications/cancelled.
	Notification(m wire.Inbound)
}

// Errors makes the errors that calls end with, in the words of the connection's
// owner. Its methods are safe for concurrent use and must not block.
type Errors interface {
	// Down says that the connection has ended or does not work any more.
	Down(reason string, cause error) error
	// Unsent marks an error of Down, or one that wraps it, as that of a request
	// that the peer has surely not seen. Other errors are returned as they are.
	Unsent(err error) error
	// Unusable says that the answer to a request cannot be used; cause is a
	// *wire.RPCError or a *wire.TooLargeError.
	Unusable(method string, cause error) error
	// Timeout says that no answer came within a limit: Limit.Max if max, else
	// Limit.Idle.
	Timeout(method string, after time.Duration, max bool) error
}

// Conn is a JSON-RPC connection. It is safe for concurrent use, except that the
// frames of one stream must be received one after another.
type Conn struct {
	opts   Options
	log    *slog.Logger
	errors Errors

	ctx     context.Context // of work for the peer; ends with the connection
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when every call has its outcome
	open    sync.WaitGroup
	timers  sync.WaitGroup
	workers workers
	answers chan struct{} // a token for each answer that is to be written
	batches atomic.Bool   // the negotiated revision has batches
	heard   atomic.Int64  // see Heard
	current func() []any  // mainOwners, made once
	garbage limiter       // guarded by garbageMu
	muted   sync.Mutex    // guards garbage
	spent   sync.Pool     // of *call

	mu    sync.Mutex // guards state; a leaf
	turn  *sync.Cond // a progress callback has returned; uses mu
	state state
	watch *time.Timer // see limit.go; nil before the first limit
}

// New makes a connection. It ends with ctx, or at End; whoever makes it feeds it
// (Receive) and must Close it.
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
	c.turn = sync.NewCond(&c.mu)
	c.current = c.mainOwners
	// It ends by End alone, so that calls are over before work for the peer is
	// cancelled, which would cancel calls of its own.
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

// Context ends with the connection; its cause is the error that End was given.
func (c *Conn) Context() context.Context { return c.ctx }

// Done is closed when the connection has ended and every call has its outcome.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is the error that the connection ended with; nil before its end.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.end
}

// SetBatches tells whether the negotiated revision has JSON-RPC batches. Before
// that, and in revisions without them, an array is no message: it would let the
// peer make us hold many times its bytes.
func (c *Conn) SetBatches(has bool) { c.batches.Store(has) }

// Calls is the number of our calls in flight.
func (c *Conn) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.state.calls)
}

// End ends the connection: all calls fail with err, which must not be nil, and
// the contexts of the peer's requests in flight end with it. Their answers are
// still handed to their streams. Only the first End counts. It does not block.
func (c *Conn) End(err error) {
	c.mu.Lock()
	calls, cancels, first := c.state.finish(err)
	if first {
		c.unwatch()
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

// Close ends the connection with err, if it has not ended, refuses further
// requests of the peer, and waits for those in flight, for its goroutines and
// for its timer. It may be called more than once.
func (c *Conn) Close(err error) {
	c.refuse(err)
	c.wait()
}

// CloseWithin is Close that gives up waiting after some time. It is false when
// something was left behind.
func (c *Conn) CloseWithin(most time.Duration, err error) bool {
	c.refuse(err)
	return within(most, c.wait)
}

// Drain waits until the peer's requests in flight are answered, but not longer
// than most. It tells whether they are.
func (c *Conn) Drain(most time.Duration) bool { return within(most, c.open.Wait) }

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
	c.open.Wait()
	c.workers.all.Wait()
	c.timers.Wait()
}

// within tells whether wait returned in time.
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

// plainErrors are the errors of a connection whose owner has none of its own.
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

// UnsentError says that the peer has surely not seen the request.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() }

func (e *UnsentError) Unwrap() error { return e.Err }

// String is "client" or "server".
func (p Peer) String() string {
	if p == Server {
		return "server"
	}
	return "client"
}
