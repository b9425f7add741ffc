package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

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
