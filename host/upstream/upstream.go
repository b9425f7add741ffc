package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// killWait is how long Close waits for its goroutines after it has killed.
const killWait = 500 * time.Millisecond

// Options are what an Upstream needs from its owner. The callbacks run on
// goroutines of the upstream and must not call Close.
type Options struct {
	// Budget is what large messages of the server are taken from: it is not read
	// while there is no room. Nil: they are not counted.
	Budget *budget.Budget
	// Log takes what happens to the upstream, its stderr included; nil:
	// nowhere. Every record has the attribute "upstream".
	Log *slog.Logger
	// ClientName and ClientVersion are our clientInfo in the handshake if there
	// is no Hello.
	ClientName, ClientVersion string
	// Hello gives the raw params of initialize, once for each handshake, when
	// the process or connection is there. It may wait until it knows them;
	// Spec.Timeout does not count meanwhile. ctx ends with the upstream or the
	// connection. Nil: made of ClientName and ClientVersion, no capabilities.
	Hello func(ctx context.Context) (params []byte, err error)
	// OnHandshake takes the raw result of each initialize.
	OnHandshake func(result []byte)
	// OnList takes what a listing of a surface gave, in the upstream's order:
	// at each start, before it is ready (and the first time before Started is
	// closed), and after each change that the server tells of. A surface that
	// the server lacks gives an empty slice at each start. A listing that
	// fails, or a server that goes down, changes nothing. meta is the _meta of
	// the pages in one object, nil for none. Calls do not overlap; the callee
	// may keep the slices.
	OnList func(s wire.Surface, items [][]byte, meta []byte)
	// OnNotification takes the server's notifications as
	// ConnOptions.OnNotification does. After a list_changed the list is read
	// again without more ado.
	OnNotification func(m wire.Inbound)
	// OnRequest answers the server's requests as ConnOptions.OnRequest does.
	// While it runs, calls in flight do not count as idle.
	OnRequest func(ctx context.Context, m wire.Inbound) wire.Reply
	// OnReady runs after each start, when the listings are in and calls are
	// forwarded. It has a goroutine of its own and may make calls.
	OnReady func()
}

// Upstream is one configured server and its connection, or one after the
// other. It is safe for concurrent use.
type Upstream struct {
	spec  Spec
	opts  Options
	log   *slog.Logger
	tempo tempo

	cancel context.CancelCauseFunc // ends the life of the upstream
	kill   chan struct{}           // closed when a shutdown must not wait any more
	killed sync.Once
	wg     sync.WaitGroup // runs of OnReady

	started chan struct{} // see Started
	shaken  chan struct{} // closed with the first handshake's end, or the first failure
	done    chan struct{} // closed when every goroutine has ended
	relist  chan struct{} // holds a token while wanted is not empty
	doubt   chan struct{} // holds a token after a call has timed out

	allowance, lines *allowance // what the server may send unasked, and write to stderr

	asking atomic.Int32 // requests of the server that are being answered

	mu      sync.Mutex
	wanted  map[wire.Surface]bool // to be listed again
	status  Status
	begun   time.Time     // when the current start began
	server  []byte        // the last result of initialize
	link    link          // set in state Ready
	down    *DownError    // why there is no link, once one start has failed
	hope    bool          // the first start after a failure is to come, soon, or goes on
	turned  chan struct{} // closed and replaced with each change of the state
	garbage string        // the first line of the server that was no message
}

// Start makes an upstream and returns at once; process start, handshake and
// the first listings go on in the background. The caller must Close it.
func Start(spec Spec, opts Options) *Upstream {
	return start(spec, opts, usualTempo)
}

func start(spec Spec, opts Options, tempo tempo) *Upstream {
	if spec.Timeout <= 0 {
		spec.Timeout = DefaultTimeout
	}
	u := &Upstream{
		spec:    spec,
		opts:    opts,
		log:     logger(opts.Log, spec.Name),
		tempo:   tempo,
		kill:    make(chan struct{}),
		started: make(chan struct{}),
		shaken:  make(chan struct{}),
		done:    make(chan struct{}),
		relist:  make(chan struct{}, 1),
		doubt:   make(chan struct{}, 1),
		wanted:  make(map[wire.Surface]bool),
		begun:   time.Now(),
		turned:  make(chan struct{}),
	}
	u.allowance, u.lines = newAllowance(u.log, "messages"), newAllowance(u.log, "lines on stderr")
	u.status = Status{Name: spec.Name, State: Starting, Since: u.begun}
	ctx, cancel := context.WithCancelCause(context.Background())
	u.cancel = cancel
	go u.run(ctx)
	return u
}

// Name is that of the Spec.
func (u *Upstream) Name() string { return u.spec.Name }

// Started is closed when the first start is settled: the first listings are
// in, or it has failed, or the upstream was closed.
func (u *Upstream) Started() <-chan struct{} { return u.started }

// Handshake waits for the first handshake and returns the raw result of the
// last one. The error is a *DownError when the first start failed before it,
// unless a later one got that far; or the cause of ctx when that ends first.
func (u *Upstream) Handshake(ctx context.Context) (result []byte, err error) {
	select {
	case <-u.shaken:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.server != nil {
		return u.server, nil
	}
	return nil, u.refusal()
}

// Server is the raw result of the last initialize; ok is false before the
// first. It stays while the server is down.
func (u *Upstream) Server() (result []byte, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.server, u.server != nil
}

// Call sends a request and returns the server's raw answer, whether result or
// JSON-RPC error; see Conn.Call for params and progress. It waits until the
// upstream has started, for Spec.Timeout at most; if it has just gone down, until
// the first new start is settled, but about two seconds at most. The answer may
// take as long as Spec.Timeout and Spec.MaxTimeout say.
//
// Errors: *DownError, at once when the upstream goes down or is down;
// *TimeoutError; *AnswerError; *wire.RPCError for params that cannot be sent;
// the cause of ctx when that ends first. In the last case and on timeout the
// request was cancelled at the server.
func (u *Upstream) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	if err := u.awaitStart(ctx); err != nil {
		return wire.Reply{}, err
	}
	for last := link(nil); ; {
		l, err := u.connection(ctx, last)
		if err != nil {
			return wire.Reply{}, err
		}
		reply, err := u.callOn(ctx, l, call)
		if err == nil || last != nil || !surelyUnsent(err) {
			return reply, err
		}
		last = l // it had ended unnoticed; the call can do with the next
	}
}

func (u *Upstream) callOn(ctx context.Context, l link, call wire.Call) (wire.Reply, error) {
	var reply wire.Reply
	var err error
	if conn, ok := l.(limitedLink); ok {
		call, limit := u.newLimit(call)
		reply, err = conn.callWithin(ctx, call, limit)
	} else {
		ctx, call, limit := u.limited(ctx, call)
		defer limit.stop()
		reply, err = l.Call(ctx, call)
	}
	if err != nil {
		u.doubts(err)
	}
	return reply, err
}

// limitedLink is a link that can do without a context for each limit.
type limitedLink interface {
	// callWithin is link.Call that begins and stops a limit.
	callWithin(ctx context.Context, call wire.Call, l *limit) (wire.Reply, error)
}

// Notify sends a notification; params may be nil. It waits for the upstream as
// Call does. Errors: *DownError, or the cause of ctx.
func (u *Upstream) Notify(ctx context.Context, method string, params []byte) error {
	l, err := u.connection(ctx, nil)
	if err != nil {
		return err
	}
	return l.Notify(ctx, method, params)
}

// Ready waits until the upstream has started. The error is a *DownError when
// it is down, or the cause of ctx when that ends first.
func (u *Upstream) Ready(ctx context.Context) error {
	_, err := u.connection(ctx, nil)
	return err
}

// awaitStart waits until the first start is settled, for Spec.Timeout at most.
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

// connection waits for a link other than stale.
func (u *Upstream) connection(ctx context.Context, stale link) (link, error) {
	select {
	case <-u.started:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var patience *time.Timer
	for {
		u.mu.Lock()
		l, turned, hope, refusal := u.link, u.turned, u.hope, error(nil)
		if l == nil || l == stale {
			refusal = u.refusal()
		}
		u.mu.Unlock()
		if refusal == nil {
			return l, nil
		}
		if !hope && l == nil {
			return nil, refusal
		}
		if patience == nil {
			patience = time.NewTimer(u.tempo.patience)
			defer patience.Stop()
		}
		select {
		case <-turned:
		case <-patience.C:
			return nil, refusal
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Status is a snapshot.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	st := u.status
	if st.SlowedSince = u.allowance.slowed(); st.SlowedSince.IsZero() {
		st.SlowedSince = u.lines.slowed()
	}
	return st
}

// Close shuts the upstream down as the specification says (revision
// 2025-11-25, basic/lifecycle, shutdown, stdio): it closes the server's stdin,
// waits up to a second, sends SIGTERM to the process group, waits up to a
// second, and sends SIGKILL. Calls that wait are answered until the process
// ends; new ones fail. When ctx ends it kills at once. It returns when every
// goroutine has ended and no process of the group is left; the error wraps the
// cause of ctx if that cut the shutdown short. A goroutine that waits for a
// client that does not read (in a progress callback) is left behind after
// killWait, which is an error too.
func (u *Upstream) Close(ctx context.Context) error {
	u.closing()
	u.cancel(wire.ErrClosed)
	select {
	case <-u.done:
		return nil
	case <-ctx.Done():
		u.killed.Do(func() { close(u.kill) })
	}
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-u.done:
		return fmt.Errorf("upstream %q was killed: it did not end in time (%w)", u.spec.Name, context.Cause(ctx))
	case <-timer.C:
		return fmt.Errorf("upstream %q: its processes were killed, but a message of it still waits for a client that does not read", u.spec.Name)
	}
}
