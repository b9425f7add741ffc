// Package servers is the client side of a configured MCP server. An Upstream starts the server, or
// connects to the server, does the handshake, reads the lists, makes calls, and restarts the server
// after the server's end. Begin with Spec, Options and Upstream.
//
// Each connection is a link (package link) over one of three transports. Messages are passed on as
// raw bytes (package wire); only the parts for the handshake and the lists are decoded.
//
// The packages below know nothing of an Upstream: stdio, streamable and legacysse are the links,
// stateless is a link over another link for servers without a handshake, process runs a server as a
// subprocess, httpclient sends requests over HTTP, and oauth gets access tokens.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Options are the settings and callbacks of an Upstream. The callbacks run on goroutines of the
// upstream and must not call Close.
type Options struct {
	// Budget limits the memory of large messages. While the Budget is used up, nothing is read from
	// the server. Nil: no limit.
	Budget *budget.Budget
	// Log gets the events of the upstream, and the server's stderr. Every record has the attribute
	// "upstream". Nil: nothing is logged.
	Log *slog.Logger
	// ClientName and ClientVersion are our clientInfo in requests for no client of ours, and in the
	// handshake unless InitializeParams is set.
	ClientName, ClientVersion string
	// InitializeParams returns the raw params of initialize. InitializeParams is called once per
	// handshake, after the process or connection has been set up, and may block until the params
	// are known; this time does not count towards Spec.Timeout. ctx ends with the upstream or the
	// connection. Nil: the params have ClientName and ClientVersion, and no capabilities.
	InitializeParams func(ctx context.Context) (params []byte, err error)
	// Resolve returns spec with the secrets for a start. Resolve is called before each start, and
	// may wait for a person; this time does not count towards Spec.Timeout. The error does not name
	// the upstream. Nil: spec is complete.
	Resolve func(ctx context.Context, spec Spec) (Spec, error)
	// Streams returns the output and the input of a server over stdio in this process, for example
	// a server of a test; ok is false for any other server. Nil: every server is a process.
	Streams func(spec Spec) (r io.ReadCloser, w io.WriteCloser, ok bool)
	// Verdict is the verdict of earlier runs about the server's era.
	Verdict Verdict
	// NeedsSession restricts the handshake era of a server over HTTP to servers that begin a
	// session: without a session the server could not send requests to the client.
	NeedsSession bool
	// OnVerdict gets each change of the verdict about the server's era.
	OnVerdict func(v Verdict)
	// Era returns the era of the client that the connection is for, once InitializeParams has
	// returned. A server over stdio with both eras is used in this era. Nil: the client is of the
	// handshake era.
	Era func() protocol.Era
	// Accept returns an error if the server is not to be used, judging by the argument of
	// OnHandshake. Nil: every server is used.
	Accept func(result []byte) error
	// OnHandshake gets the raw result of each initialize, or in the same form the description of a
	// server without a handshake. Handshake returns only after OnHandshake has returned.
	OnHandshake func(result []byte)
	// OnList gets the list of a surface: at each start, before the upstream is ready (and the first
	// time before Started is closed), and after each change announced by the server. A late list
	// other than the list of tools comes after the upstream is ready. For a missing surface OnList
	// gets an empty list at each start. OnList is not called after a failed listing or when the
	// server goes down. Calls do not overlap; the callee may keep the slices.
	OnList func(l List)
	// KeepList is called before OnList with the memory of the list, in bytes. After an error, the
	// list is not used. Nil: every list is kept.
	KeepList func(s wire.Surface, bytes int64) error
	// OnNotification gets the server's notifications, as
	// link.Callbacks.OnNotification does. After a list_changed, the upstream reads
	// the list again by itself.
	OnNotification func(m wire.Inbound)
	// OnRequest answers the server's requests, as link.Callbacks.OnRequest does. While OnRequest
	// runs, calls in flight do not count as idle.
	OnRequest func(ctx context.Context, m wire.Inbound) wire.Reply
	// Observer sees the connections with the server; may be nil.
	Observer Observer
	// OnFailed is called each time the upstream has entered the state Failed.
	OnFailed func()
	// OnReady runs after each start, once calls are forwarded and the lists, or at least the list
	// of tools, are complete. OnReady runs on a separate goroutine and may make calls.
	OnReady func()
}

// List is a server's list of a surface.
type List struct {
	Surface wire.Surface
	Items   [][]byte // raw definitions in the server's order; not nil
	Meta    []byte   // the _meta of all pages, merged into a single object; may be nil
	// Announced is set if the server has announced a change since the last reading of the list.
	// Notice is the raw params of the notification, or nil.
	Announced bool
	Notice    []byte
	// Fresh says how long the list is current.
	Fresh envelope.Freshness
}

// Upstream is a configured server with the connection. A new connection replaces an ended
// connection. It is safe for concurrent use.
type Upstream struct {
	spec    Spec
	opts    Options
	log     *slog.Logger
	timings timings

	cancel   context.CancelCauseFunc // ends the upstream
	kill     chan struct{}           // closed when the shutdown must stop waiting
	killOnce sync.Once
	wg       sync.WaitGroup // runs of OnReady

	started       chan struct{} // see Started
	handshakeDone chan struct{} // closed after the first handshake or the first failure
	done          chan struct{} // closed when every goroutine has ended
	relist        chan struct{} // holds a token after a change of a list
	timedOut      chan struct{} // holds a token after a call has timed out
	doubted       chan struct{} // holds a token after an answer of a server that may be of another era

	allowance, stderr *allowance // for unsolicited messages, and for stderr

	eraChecked time.Time // when checkEra last did so; only for serve

	answering atomic.Int32 // the server's requests being answered

	mu               sync.Mutex
	lists            map[wire.Surface]*listState
	listingEnded     chan struct{} // closed and replaced after each listing
	status           Status
	startBegan       time.Time     // when the current attempt to start began
	initializeResult []byte        // the result of the last initialize
	link             link.Link     // set in state Ready
	down             *DownError    // the reason for the missing link after a failed start
	restartPending   bool          // the first restart after a failure is imminent or in progress
	stateChanged     chan struct{} // closed and replaced at each change of state
	firstGarbage     string        // the server's first line that was not a message
	verdict          Verdict       // about the server's era
}

// Start creates an upstream and returns at once. The upstream is started, initialized and listed in
// the background. The caller must call Close.
func Start(spec Spec, opts Options) *Upstream {
	return start(spec, opts, defaultTimings)
}

func start(spec Spec, opts Options, timings timings) *Upstream {
	if spec.Timeout <= 0 {
		spec.Timeout = DefaultTimeout
	}
	u := &Upstream{
		spec:          spec,
		opts:          opts,
		log:           logger(opts.Log, spec.Name),
		timings:       timings,
		kill:          make(chan struct{}),
		started:       make(chan struct{}),
		handshakeDone: make(chan struct{}),
		done:          make(chan struct{}),
		relist:        make(chan struct{}, 1),
		timedOut:      make(chan struct{}, 1),
		doubted:       make(chan struct{}, 1),
		verdict:       opts.Verdict,
		lists:         make(map[wire.Surface]*listState),
		listingEnded:  make(chan struct{}),
		startBegan:    time.Now(),
		stateChanged:  make(chan struct{}),
	}
	for _, s := range wire.Surfaces {
		u.lists[s] = &listState{}
	}
	u.allowance, u.stderr = newAllowance(u.log, "messages"), newAllowance(u.log, "lines on stderr")
	u.status = Status{Name: spec.Name, State: Starting, Since: u.startBegan}
	ctx, cancel := context.WithCancelCause(context.Background())
	u.cancel = cancel
	go u.run(ctx)
	return u
}

// logger returns the log of the upstream with a name.
func logger(log *slog.Logger, name string) *slog.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return log.With("upstream", name)
}

// Name returns the name in the Spec.
func (u *Upstream) Name() string { return u.spec.Name }

// Started returns a channel that is closed at the end of the first start: the first lists, or at
// least the list of tools, are complete, the start has failed, or the upstream was closed.
func (u *Upstream) Started() <-chan struct{} { return u.started }

// Handshake waits for the first handshake and returns the raw result of the latest handshake. The
// error is a *DownError if the first start failed before the handshake and no later start got as
// far, or the cause of ctx if ctx ends first.
func (u *Upstream) Handshake(ctx context.Context) (result []byte, err error) {
	select {
	case <-u.handshakeDone:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.initializeResult != nil {
		return u.initializeResult, nil
	}
	return nil, u.downError(nil)
}

// Server returns the raw result of the last initialize, also while the server is down; ok is false
// before the first handshake. For a server without a handshake Server returns a result made from
// the result of server/discover.
func (u *Upstream) Server() (result []byte, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.initializeResult, u.initializeResult != nil
}

// Call sends a request and returns the server's raw answer, a result or a JSON-RPC error; see
// stdio.Conn.Call for params and progress. Call waits at most Spec.Timeout for the upstream to
// start. If the upstream has just gone down, Call waits about two seconds at most for the first
// restart. Spec.Timeout and Spec.MaxTimeout limit the wait for the answer.
//
// Errors: *DownError as soon as the upstream is down; *TimeoutError; *AnswerError; *wire.RPCError
// for params that cannot be sent; the cause of ctx if ctx ends first. After a timeout or the end of
// ctx, the request has been cancelled at the server.
func (u *Upstream) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	if err := u.awaitStart(ctx); err != nil {
		return wire.Reply{}, err
	}
	for last := link.Link(nil); ; {
		l, err := u.connection(ctx, last)
		if err != nil {
			return wire.Reply{}, err
		}
		reply, err := u.callOn(ctx, l, call)
		if err == nil || last != nil || !IsUnsent(err) {
			return reply, err
		}
		last = l // l had ended unnoticed: try the next link
	}
}

func (u *Upstream) callOn(ctx context.Context, l link.Link, call wire.Call) (wire.Reply, error) {
	reply, err := l.CallWithin(ctx, call, u.limitOf(call.Method))
	if err != nil {
		u.noteTimeout(err)
	}
	u.noteError(l, reply)
	return reply, err
}

// Notify sends a notification; params may be nil. Notify waits for the upstream like Call. Errors:
// *DownError, or the cause of ctx.
func (u *Upstream) Notify(ctx context.Context, method string, params []byte) error {
	l, err := u.connection(ctx, nil)
	if err != nil {
		return err
	}
	return l.Notify(ctx, method, params)
}

// Ready waits until the upstream has started. The error is a *DownError if the upstream is down, or
// the cause of ctx if ctx ends first.
func (u *Upstream) Ready(ctx context.Context) error {
	_, err := u.connection(ctx, nil)
	return err
}

// awaitStart waits until the first start is over, for Spec.Timeout at most.
func (u *Upstream) awaitStart(ctx context.Context) error {
	select {
	case <-u.started:
		return nil
	default:
	}
	late := time.NewTimer(u.spec.Timeout)
	defer late.Stop()
	select {
	case <-u.started:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return &DownError{Upstream: u.spec.Name, Reason: fmt.Sprintf("it is still starting after %v (call again later, or raise its timeout)", u.spec.Timeout)}
	}
}

// connection waits for a link other than stale, which has ended; nil: for any link.
func (u *Upstream) connection(ctx context.Context, stale link.Link) (link.Link, error) {
	var ended *DownError
	if stale != nil {
		errors.As(stale.Err(), &ended)
	}
	select {
	case <-u.started:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var late *time.Timer
	for {
		u.mu.Lock()
		l, stateChanged, restartPending, down := u.link, u.stateChanged, u.restartPending, error(nil)
		if l == nil || l == stale {
			down = u.downError(ended)
		}
		u.mu.Unlock()
		if down == nil {
			return l, nil
		}
		if !restartPending && l == nil {
			return nil, down
		}
		if late == nil {
			late = time.NewTimer(u.timings.callWait)
			defer late.Stop()
		}
		select {
		case <-stateChanged:
		case <-late.C:
			return nil, down
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Status returns a snapshot of the upstream's state.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	st := u.status
	if st.SlowedSince = u.allowance.slowed(); st.SlowedSince.IsZero() {
		st.SlowedSince = u.stderr.slowed()
	}
	return st
}

// Close shuts the upstream down as specified (revision 2025-11-25, basic/lifecycle, shutdown,
// stdio): Close closes the server's stdin, waits up to a second, sends SIGTERM to the process
// group, waits up to a second, and sends SIGKILL. Until the process ends, pending calls can still
// be answered; new calls fail. When ctx ends, Close kills the server at once.
//
// Close returns when every goroutine has ended and no process of the group is left. The error wraps
// the cause of ctx if ctx ended the shutdown early. Close also returns an error if a goroutine
// still waits, half a second later, for a client that does not read (in a progress callback). Close
// may be called more than once, and concurrently.
func (u *Upstream) Close(ctx context.Context) error {
	u.closing()
	u.cancel(wire.ErrClosed)
	select {
	case <-u.done:
		return nil
	case <-ctx.Done():
		u.killOnce.Do(func() { close(u.kill) })
	}
	timer := time.NewTimer(u.timings.killWait)
	defer timer.Stop()
	select {
	case <-u.done:
		return fmt.Errorf("upstream %q was killed: it did not end in time (%w)", u.spec.Name, context.Cause(ctx))
	case <-timer.C:
		return fmt.Errorf("upstream %q: its processes were killed, but one of its messages is still waiting for a client that does not read", u.spec.Name)
	}
}

// Submit is Call for a caller that does not wait. When Submit returns, the request has been passed
// to the link. complete is called once, perhaps before Submit returns. complete gets the reply, or
// a continuation, which must be called and returns the result of Call. complete runs on a goroutine
// of the connection and must not block; the continuation may.
//
// cancel ends the call with a cause, like the end of ctx with this cause ends Call. If the call has
// ended, cancel does nothing. cancel does not block.
//
// ok is false, and nothing has been sent, if the call would have to wait for the upstream to start,
// or for the server to read.
func (u *Upstream) Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool) {
	u.mu.Lock()
	l := u.link
	u.mu.Unlock()
	if l == nil {
		return nil, false
	}
	pending, err := l.Submit(call, u.limitOf(call.Method), func(reply wire.Reply, next wire.Continuation) {
		if next == nil {
			u.noteError(l, reply)
			complete(reply, nil)
			return
		}
		complete(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) { return u.conclude(ctx, l, call, next) })
	})
	if err != nil {
		return nil, false
	}
	return pending.Cancel, true
}

// conclude continues a call without a reply over the link l.
func (u *Upstream) conclude(ctx context.Context, l link.Link, call wire.Call, next wire.Continuation) (wire.Reply, error) {
	reply, err := next(ctx)
	if err == nil {
		return reply, nil
	}
	u.noteTimeout(err)
	if !IsUnsent(err) {
		return reply, err
	}
	other, err := u.connection(ctx, l) // l had ended without being noticed, as in Call
	if err != nil {
		return wire.Reply{}, err
	}
	return u.callOn(ctx, other, call)
}

// State is the state of an upstream.
type State string

// The states. Starting is followed by Ready or Failed, Ready by Failed, Failed by
// Starting unless Spec.Restart is "never", and each of them by Closed.
const (
	Starting State = "starting" // starting the process, initializing or listing
	Ready    State = "ready"    // calls are forwarded
	Failed   State = "failed"   // could not be started, or has ended; Status.Err says why
	Closed   State = "closed"   // Close was called
)

// Status is a snapshot of an upstream, for people to read.
type Status struct {
	Name            string
	State           State
	Since           time.Time // when State was entered
	ServerName      string    // the server's name for itself; "" before the first handshake
	ServerVersion   string
	ProtocolVersion string
	Agreed          string // how ProtocolVersion was found, for people
	// The number of items in the last listing of each surface.
	Tools, Resources, Templates, Prompts int
	// StartTime is how long the last start took, up to Ready, without the wait
	// for Options.InitializeParams; 0 before the first.
	StartTime time.Duration
	Restarts  int       // starts after the first
	RestartAt time.Time // in state Failed: when the next start is due; zero for never
	// SlowedSince is when we began to read the server slowly because of too many unsolicited
	// messages; zero if we read at full speed.
	SlowedSince time.Time
	Pid         int // of the process; 0 without a process
	// Err is the last error, at most 2 KiB, or "". The error of a downed upstream includes the
	// first line that was not a message, the last lines of stderr, and the result of the error's
	// Detail method, if any. Clients see only the first line of Err, which has none of these. Err
	// stays after a successful restart.
	Err string
}

// count returns a pointer to the number of items of a surface.
func (s *Status) count(surface wire.Surface) *int {
	switch surface {
	case wire.Resources:
		return &s.Resources
	case wire.Templates:
		return &s.Templates
	case wire.Prompts:
		return &s.Prompts
	}
	return &s.Tools
}

// limitOf returns the time limit of a call. tasks/result has no idle limit, because the call takes
// as long as the task.
func (u *Upstream) limitOf(method string) rpc.Limit {
	limit := rpc.Limit{Idle: u.spec.Timeout, Max: u.spec.MaxTimeout}
	if method == protocol.MethodTasksResult {
		limit.Idle = 0
	}
	return limit
}

// Observer sees the connections with servers, for telemetry. An Observer is safe for concurrent use
// and must not block.
type Observer interface {
	// Connect is called before a connection is made. again is set for all but the first connection.
	Connect(spec Spec, again bool) Connection
}

// Connection observes a connection. A Connection is safe for concurrent use and must not block.
type Connection interface {
	rpc.Tracer
	// Agreed is called with the revision when the handshake is done.
	Agreed(revision string)
	// Ended is called once, at the end, and also if no connection could be made.
	Ended()
}
