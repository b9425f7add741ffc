package streamable

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// server is a Handler on a real socket.
type server struct {
	t       testing.TB
	backend *clienttest.Backend
	http    *Handler
	url     string
	close   func() // ends the client and waits for all requests
}

func newServer(t testing.TB, opts Options) *server {
	return newServerWith(t, opts, ServerOptions{})
}

// newServerWith is newServer with options of the http.Server.
func newServerWith(t testing.TB, opts Options, limits ServerOptions) *server {
	b := clienttest.New()
	shared, own := opts.Session.Budget, opts.Session.Backend
	opts.Session = options(b)
	switch more := own.(type) {
	case *tasked:
		more.Backend, opts.Session.Backend = b, more
	case *keptBackend:
		more.Backend, opts.Session.Backend = b, more
	}
	opts.Session.MaxMessage, opts.Session.Budget = 32<<20, shared
	opts.PrimeAfter = cmp.Or(opts.PrimeAfter, hour) // so that answers are not event streams on a slow machine
	h := New(context.Background(), opts)
	srv := httptest.NewUnstartedServer(nil)
	limits.Log = silent
	srv.Config = NewServer(h, limits).Server
	srv.Start()
	w := &server{t: t, backend: b, http: h, url: srv.URL}
	w.close = sync.OnceFunc(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		srv.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	t.Cleanup(w.close)
	return w
}

// client posts and reads raw messages.
type client struct {
	t      testing.TB
	server *server
	http   *http.Client
	id     string // of the session
	token  string
}

func (w *server) client() *client { return &client{t: w.t, server: w, http: http.DefaultClient} }

// join begins a session.
func (w *server) join(revision string) *client {
	w.t.Helper()
	g := w.client()
	g.initialize(revision)
	return g
}

func (g *client) initialize(revision string) {
	g.t.Helper()
	if res, body := g.begin(revision); res.StatusCode != 202 || body != "" {
		g.t.Fatalf("initialized: %s %s", res.Status, body)
	}
}

// begin is initialize, and returns the answer to the notification.
func (g *client) begin(revision string) (res *http.Response, body string) {
	g.t.Helper()
	res = g.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q}}`, revision))
	body = read(g.t, res)
	if g.id = res.Header.Get("Mcp-Session-Id"); res.StatusCode != 200 || g.id == "" {
		g.t.Fatalf("initialize: %s %s", res.Status, body)
	}
	res = g.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return res, read(g.t, res)
}

// session returns the server's side of the newest session.
func (w *server) session() route.Session { return <-w.backend.Began }

func (g *client) request(ctx context.Context, method, body string, header ...string) *http.Request {
	g.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, g.server.url, reader)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if g.id != "" {
		r.Header.Set("Mcp-Session-Id", g.id)
	}
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	for i := 0; i < len(header); i += 2 {
		switch name, value := header[i], header[i+1]; {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header[http.CanonicalHeaderKey(name)] = nil
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

func (g *client) do(ctx context.Context, method, body string, header ...string) *http.Response {
	g.t.Helper()
	res, err := g.http.Do(g.request(ctx, method, body, header...))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (g *client) post(body string, header ...string) *http.Response {
	g.t.Helper()
	return g.do(context.Background(), "POST", body, header...)
}

// call posts a request and returns the JSON answer.
func (g *client) call(body string) string {
	g.t.Helper()
	res := g.post(body)
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "application/json" {
		g.t.Fatalf("%s: %s, %s: %s", body, res.Status, kind, read(g.t, res))
	}
	return read(g.t, res)
}

// body posts a message and returns the unchanged answer.
func (g *client) body(msg string, header ...string) (kind, text string) {
	g.t.Helper()
	res := g.post(msg, header...)
	return res.Header.Get("Content-Type"), read(g.t, res)
}

// tell posts a message without an answer.
func (g *client) tell(body string) {
	g.t.Helper()
	res := g.post(body)
	if got := read(g.t, res); res.StatusCode != 202 || got != "" {
		g.t.Fatalf("%s: %s: %s", body, res.Status, got)
	}
}

func read(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// events is an event stream read by a client.
type events struct {
	t      testing.TB
	body   *bufio.Reader
	cancel context.CancelFunc // disconnects
	last   string             // id of the last event
}

// stream sends an HTTP request that must be answered with an event stream.
func (g *client) stream(method, body string, header ...string) *events {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g.t.Cleanup(cancel)
	res := g.do(ctx, method, body, header...)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		g.t.Fatalf("%s: %s %s: %s", method, res.Status, res.Header.Get("Content-Type"), read(g.t, res))
	}
	return &events{t: g.t, body: bufio.NewReader(res.Body), cancel: cancel}
}

// any reads the next event or comment. The error is io.EOF after the last.
func (e *events) any() (data, comment string, err error) {
	var seen []string
	for {
		line, err := e.body.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && len(seen) > 0:
			return data, comment, nil
		case name == "id":
			e.last = value
		case name == "data":
			data = value
		case name == "":
			comment = value
		}
		seen = append(seen, line)
	}
}

// next returns the data of the next event with data.
func (e *events) next() string {
	e.t.Helper()
	for {
		data, _, err := e.any()
		if err != nil {
			e.t.Fatalf("event stream: %v", err)
		}
		if data != "" {
			return data
		}
	}
}

func (e *events) want(data ...string) {
	e.t.Helper()
	for _, want := range data {
		if got := e.next(); got != want {
			e.t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// end checks that no message follows.
func (e *events) end() {
	e.t.Helper()
	if err := e.silence(); !errors.Is(err, io.EOF) {
		e.t.Errorf("the stream ended with %v", err)
	}
}

// silence checks that no message follows, however the stream ends.
func (e *events) silence() error {
	e.t.Helper()
	defer e.cancel()
	for {
		data, _, err := e.any()
		if data != "" {
			e.t.Errorf("after the end: %s", data)
		}
		if err != nil {
			return err
		}
	}
}

func callOf(id int, name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%d}}}`,
		id, name, arguments, id)
}

func progressOf(token, n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d,"x":{"y":1.0}}}`, token, n)
}

func changed(surface wire.Surface) string {
	return string(wire.Notification(surface.ChangedMethod(), nil))
}

const (
	waited = `{"jsonrpc":"2.0","id":1,"result":{"waited":true}}`
	ping   = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	pong   = `{"jsonrpc":"2.0","id":1,"result":{}}`

	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`

	hour    = time.Hour
	instant = time.Millisecond
)
