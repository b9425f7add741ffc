package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// DefaultTimeout is the timeout of a Spec that has none.
const DefaultTimeout = 60 * time.Second

// killWait is how long Close waits for its goroutines after it has killed.
const killWait = 500 * time.Millisecond

// Spec says how to reach one server: a subprocess that speaks MCP on its
// standard input and output.
type Spec struct {
	// Name of the upstream in the configuration, for logs and errors.
	Name string
	// Command is a path (relative to Dir if it has a separator), or a name
	// that is looked up in the PATH of the server's own environment.
	Command string
	Args    []string
	// Env holds KEY=VALUE for the variables that the configuration names. The
	// server sees these and the base list (environ.go), nothing else of ours.
	Env []string
	// Dir is the working directory; "": ours.
	Dir string
	// Timeout is the most that one request may take; 0: DefaultTimeout. The
	// handshake and each listing of tools are held to it as well.
	Timeout time.Duration
	// MaxMessage caps a message of the server in bytes; 0:
	// wire.DefaultMaxMessage.
	MaxMessage int
}

// Options are what an Upstream needs from its owner. The callbacks run on
// goroutines of the upstream and must not call Close.
type Options struct {
	// Log takes what happens to the upstream, its stderr included; nil:
	// nowhere. Every record has the attribute "upstream".
	Log *slog.Logger
	// ClientName and ClientVersion are our clientInfo in the handshake.
	ClientName, ClientVersion string
	// OnTools takes the raw tool definitions, in the upstream's order, after
	// the first listing (before Started is closed) and after each new one. A
	// server without tools gives an empty slice. Calls do not overlap; the
	// callee may keep the slice.
	OnTools func(tools [][]byte)
	// OnNotification takes the server's notifications as
	// ConnOptions.OnNotification does.
	OnNotification func(method string, params []byte)
}

// State is where an upstream is in its life.
type State string

// The states. Starting leads to Ready or Failed, Ready to Failed, and every
// one to Closed.
const (
	Starting State = "starting" // the process, the handshake or the first listing is under way
	Ready    State = "ready"    // calls are forwarded
	Failed   State = "failed"   // could not be started, or has ended; Status.Err says why
	Closed   State = "closed"   // Close was called
)

// Status is a snapshot of an upstream for people.
type Status struct {
	Name            string
	State           State
	Since           time.Time // when State was entered
	ServerName      string    // what the server calls itself; "" before the handshake
	ServerVersion   string
	ProtocolVersion string
	Tools           int           // number of tools in the last listing
	StartTime       time.Duration // from Start to Ready; 0 before
	Pid             int           // of the process; 0 when there is none
	// Err is the last error; if it ended the upstream, with the first line that
	// was no message and the last lines the server wrote to stderr; at most
	// 2 KiB. "" if there was none.
	Err string
}

// Upstream is one configured server and its connection. It is safe for
// concurrent use.
type Upstream struct {
	spec Spec
	opts Options
	log  *slog.Logger

	grace  time.Duration // between the steps of a shutdown
	start  time.Time
	cancel context.CancelCauseFunc // ends the life of the upstream
	kill   chan struct{}           // closed when a shutdown must not wait any more
	killed sync.Once

	started chan struct{} // see Started
	done    chan struct{} // closed when every goroutine has ended
	relist  chan struct{} // holds one token while a new listing is wanted

	mu      sync.Mutex
	status  Status
	conn    *Conn  // set in state Ready
	down    error  // why calls fail, set in states Failed and Closed
	garbage string // the first line of the server that was no message
}

// Start makes an upstream and returns at once; process start, handshake and
// the first listing go on in the background. The caller must Close it.
func Start(spec Spec, opts Options) *Upstream {
	return start(spec, opts, time.Second)
}

func start(spec Spec, opts Options, grace time.Duration) *Upstream {
	if spec.Timeout <= 0 {
		spec.Timeout = DefaultTimeout
	}
	u := &Upstream{
		spec:    spec,
		opts:    opts,
		log:     logger(opts.Log, spec.Name),
		grace:   grace,
		start:   time.Now(),
		kill:    make(chan struct{}),
		started: make(chan struct{}),
		done:    make(chan struct{}),
		relist:  make(chan struct{}, 1),
	}
	u.status = Status{Name: spec.Name, State: Starting, Since: u.start}
	ctx, cancel := context.WithCancelCause(context.Background())
	u.cancel = cancel
	go u.run(ctx)
	return u
}

// Started is closed when the first listing is in, or the start has failed for
// good, or the upstream was closed.
func (u *Upstream) Started() <-chan struct{} { return u.started }

// Status is a snapshot.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status
}

// Call sends a request and returns the server's raw answer, whether result or
// JSON-RPC error; see Conn.Call for params and progress. It waits until the
// upstream has started, and then at most Spec.Timeout for the answer.
//
// Errors: *DownError, at once when the upstream is down; *TimeoutError;
// *AnswerError; *wire.RPCError for params that cannot be sent; the cause of
// ctx when that ends first. In the last case and on timeout the request was
// cancelled at the server.
func (u *Upstream) Call(ctx context.Context, method string, params []byte, progress func(params []byte)) (wire.Reply, error) {
	conn, err := u.connection(ctx)
	if err != nil {
		return wire.Reply{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, u.spec.Timeout,
		&TimeoutError{Upstream: u.spec.Name, Method: method, After: u.spec.Timeout})
	defer cancel()
	return conn.Call(ctx, method, params, progress)
}

// Ready waits until the upstream has started. The error is a *DownError when
// it is down, or the cause of ctx when that ends first.
func (u *Upstream) Ready(ctx context.Context) error {
	_, err := u.connection(ctx)
	return err
}

func (u *Upstream) connection(ctx context.Context) (*Conn, error) {
	select {
	case <-u.started:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conn, u.down
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
