package oauth

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// callback listens on the loopback interface for the user's browser
// (RFC 8252, 7.3).
type callback struct {
	listener net.Listener
	server   *http.Server
	back     chan url.Values // receives the query of the callback, once
	served   chan struct{}   // closed when the server has ended

	mu    sync.Mutex
	state string // the state of the expected callback; "": no callback is accepted
}

func newCallback(port int) (*callback, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the redirect of the browser (choose another redirect_port): %w", err)
	}
	b := &callback{
		listener: l,
		back:     make(chan url.Values, 1),
		served:   make(chan struct{}),
	}
	b.server = &http.Server{Handler: b, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(b.served)
		_ = b.server.Serve(l) // until close
	}()
	return b, nil
}

// redirect returns the redirect URI.
func (b *callback) redirect() string {
	return "http://" + b.listener.Addr().String() + callbackPath
}

// expect sets the state of the expected callback.
func (b *callback) expect(state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
}

// wait returns the query of the callback.
func (b *callback) wait(ctx context.Context) (url.Values, error) {
	select {
	case back := <-b.back:
		return back, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the browser was not redirected back: %w", context.Cause(ctx))
	}
}

// close stops the server after an answer in progress has been sent.
func (b *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		b.server.Close()
	}
	<-b.served
}

// ServeHTTP accepts the first request with the right state. Other requests have no
// effect, because any web page can make a browser send requests here. No answer redirects,
// or repeats a part of the request.
func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Connection", "close")
	// A page with a name that was made to resolve to this machine sends the page's name as the
	// host.
	if r.URL.Path != callbackPath || r.Method != http.MethodGet || r.Host != b.listener.Addr().String() {
		http.NotFound(w, r)
		return
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(q["state"]) != 1 || !b.take(q.Get("state")) {
		http.Error(w, "mcp-metatool is waiting for another authorization.", http.StatusBadRequest)
		return
	}
	b.back <- q
	fmt.Fprintln(w, "mcp-metatool has received the answer. You can close this window. The terminal shows the result.")
}

// take reports whether state is the expected state, and returns true only once.
func (b *callback) take(state string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == "" || subtle.ConstantTimeCompare([]byte(state), []byte(b.state)) == 0 {
		return false
	}
	b.state = ""
	return true
}
