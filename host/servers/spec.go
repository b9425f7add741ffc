package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/legacysse"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stdio"
	"github.com/mcp-metatool/mcp-metatool/host/servers/streamable"
)

// DefaultTimeout is the default of Spec.Timeout.
const DefaultTimeout = 60 * time.Second

// The transports of a Spec.
const (
	TransportStdio = "stdio" // a subprocess
	TransportHTTP  = "http"  // streamable HTTP (revisions 2025-03-26 and later)
	TransportSSE   = "sse"   // HTTP with SSE (revision 2024-11-05)
)

// The values of Spec.Restart.
const (
	RestartAlways = "always"
	RestartNever  = "never"
)

// Spec describes how to reach a server: a subprocess that speaks MCP on standard input and output,
// or an address.
type Spec struct {
	// Name is the name of the upstream in the configuration, for logs and errors.
	Name string
	// Transport is one of the constants; "": TransportHTTP with a URL, else TransportStdio.
	Transport string

	// Protocol is ProtocolAuto, ProtocolLegacy, or the only revision of the stateless era
	// to use; "": ProtocolAuto.
	Protocol string

	// For stdio.

	// Command is a path (relative to Dir if the path has a separator), or a name to look up in the
	// PATH of the server's own environment.
	Command string
	Args    []string
	// Env holds KEY=VALUE for the configured variables. The server gets these and a
	// short list of our own variables (process/environ.go), nothing else.
	Env []string
	// Dir is the working directory; "": ours.
	Dir string
	// Sandbox confines the process; nil: the process has our rights. Own are files of ours that the
	// process does not get by accident; see confine.Place.
	Sandbox *confine.Settings
	Own     []string

	// For HTTP and SSE.

	// URL is the address of the server's endpoint.
	URL string
	// Headers are sent with every request. They may be secrets and never appear in
	// logs or errors.
	Headers map[string]string
	// OAuth says how to get the server's access tokens; nil: none are needed.
	OAuth *oauth.Config

	// For all of them.

	// Timeout is how long a request may take without activity. Activity is progress of the request,
	// or an answer in progress, perhaps by a person, to a request of the server. 0: DefaultTimeout.
	// Timeout also limits a whole handshake, and a whole listing. Timeout does not apply to
	// tasks/result, which waits for the end of a task by design.
	Timeout time.Duration
	// MaxTimeout is how long a request may take in any case; 0: no limit.
	MaxTimeout time.Duration
	// MaxMessage is the size limit for a message of the server in bytes; 0:
	// wire.DefaultMaxMessage.
	MaxMessage int
	// MaxList is the size limit for a list of the server with all pages, in bytes; 0: no limit.
	MaxList int
	// Restart says whether to start a server again after an exit, a lost connection or a failed
	// start; "": RestartAlways.
	Restart string
}

func (s Spec) transport() string {
	switch {
	case s.Transport != "":
		return s.Transport
	case s.URL != "":
		return TransportHTTP
	}
	return TransportStdio
}

// HTTP returns how to reach a server with a URL.
func (s Spec) HTTP() httpclient.Config {
	return httpclient.Config{Name: s.Name, URL: s.URL, Headers: s.Headers}
}

// client makes an HTTP client for the server, with the server's access tokens. The caller closes
// the client.
func (s Spec) client() (*httpclient.Client, error) {
	c, err := httpclient.New(s.HTTP())
	if err != nil || s.OAuth == nil {
		return c, err
	}
	tokens, err := oauth.New(c, *s.OAuth)
	if err != nil {
		return nil, err
	}
	c.SetAuthorizer(tokens)
	return c, nil
}

// subprocess is a link to a server process of ours.
type subprocess interface {
	Pid() int
	// StderrTail returns the last lines of the server's stderr.
	StderrTail() []string
}

// exitWait is process.Options.ExitWait, for tests.
var exitWait time.Duration

// dial starts the server of spec, or connects to the server, and returns a link ready for
// initialize. stderr limits the stderr of a subprocess. ctx is for dialing only. The error does not
// contain the name of the upstream.
func dial(ctx context.Context, spec Spec, opts link.Options, stderr *allowance) (link.Link, error) {
	switch spec.transport() {
	case TransportStdio:
		return dialStdio(spec, opts, stderr)
	case TransportHTTP:
		return dialHTTP(spec, opts)
	case TransportSSE:
		return dialSSE(ctx, spec, opts)
	}
	return nil, fmt.Errorf("unknown transport %q (use %s, %s or %s)", spec.Transport, TransportStdio, TransportHTTP, TransportSSE)
}

func dialStdio(spec Spec, opts link.Options, stderr *allowance) (link.Link, error) {
	command := process.Command{Name: spec.Command, Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Sandbox: spec.Sandbox, Own: spec.Own}
	l, err := stdio.Start(command, process.Options{
		Log: opts.Log, ExitWait: exitWait,
		Charge: func(bytes int, exited <-chan struct{}) { stderr.spend(bytes, exited, nil) },
	}, opts)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func dialHTTP(spec Spec, opts link.Options) (link.Link, error) {
	l, err := dialStreamable(spec, opts)
	if err != nil {
		return nil, err
	}
	if spec.Transport == "" {
		return newFallbackLink(spec, opts, l), nil
	}
	return l, nil
}

func dialStreamable(spec Spec, opts link.Options) (*streamable.Link, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	return streamable.New(client, opts), nil
}

func dialSSE(ctx context.Context, spec Spec, opts link.Options) (link.Link, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	l, err := legacysse.Dial(ctx, client, opts)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// fallbackLink is a link over streamable HTTP. If the server refuses initialize like a server with
// only HTTP with SSE, the link becomes a link over HTTP with SSE (revision 2025-11-25,
// basic/transports, backwards compatibility).
type fallbackLink struct {
	spec Spec
	opts link.Options
	done chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	now    link.Link
	closed bool
}

func newFallbackLink(spec Spec, opts link.Options, first link.Link) *fallbackLink {
	f := &fallbackLink{spec: spec, opts: opts, done: make(chan struct{}), now: first}
	f.wg.Go(f.watch)
	return f
}

// watch waits for the end of the link, or of the link's replacement.
func (f *fallbackLink) watch() {
	defer close(f.done)
	for {
		l := f.current()
		<-l.Done()
		if f.current() == l {
			return
		}
	}
}

func (f *fallbackLink) current() link.Link {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fallbackLink) CallWithin(ctx context.Context, call wire.Call, limit rpc.Limit) (wire.Reply, error) {
	return f.current().CallWithin(ctx, call, limit)
}

func (f *fallbackLink) Submit(call wire.Call, limit rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	return f.current().Submit(call, limit, complete)
}

// Call implements link.Link. Call falls back to HTTP with SSE if necessary.
func (f *fallbackLink) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	l := f.current()
	reply, err := l.Call(ctx, call)
	if call.Method != protocol.MethodInitialize || !refusedLikeSSE(err) {
		return reply, err
	}
	old, err2 := dialSSE(ctx, f.spec, f.opts)
	if err2 != nil {
		if ctx.Err() != nil {
			return reply, context.Cause(ctx)
		}
		return reply, &DownError{Upstream: f.spec.Name, Err: errors.Join(err, err2), Reason: fmt.Sprintf(
			"it speaks neither streamable HTTP (%v) nor HTTP with SSE (%v)", errors.Unwrap(err), err2)}
	}
	if !f.replace(old) {
		old.Shutdown(0, nil)
		return reply, err
	}
	l.Shutdown(0, nil)
	f.opts.Log.Info("the server speaks HTTP with SSE only (set transport to sse to skip the attempt)")
	return old.Call(ctx, call)
}

func (f *fallbackLink) replace(by link.Link) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.now = by
	return true
}

// refusedLikeSSE reports whether initialize failed like at a server that does not accept a POST to
// the server's URL.
func refusedLikeSSE(err error) bool {
	var status *httpclient.StatusError
	if !errors.As(err, &status) || status.Status/100 != 4 {
		return false
	}
	switch status.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return false
	}
	return true
}

func (f *fallbackLink) Notify(ctx context.Context, method string, params []byte) error {
	return f.current().Notify(ctx, method, params)
}

// HasSession reports whether the server has begun a session.
func (f *fallbackLink) HasSession() bool {
	of, ok := f.current().(withSession)
	return !ok || of.HasSession()
}

func (f *fallbackLink) Negotiated(revision protocol.Revision) { f.current().Negotiated(revision) }
func (f *fallbackLink) Done() <-chan struct{}                 { return f.done }
func (f *fallbackLink) Err() error                            { return f.current().Err() }

func (f *fallbackLink) Shutdown(grace time.Duration, kill <-chan struct{}) {
	f.mu.Lock()
	f.closed = true
	l := f.now
	f.mu.Unlock()
	l.Shutdown(grace, kill)
	f.wg.Wait()
}
