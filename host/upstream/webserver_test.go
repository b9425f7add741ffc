package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// webMessage is a message as a web server of the tests reads it.
type webMessage struct {
	rawMessage
	Body   string
	Header http.Header
}

func (m webMessage) token() string {
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p)
	return string(p.Meta.Token)
}

// webServer is a hand-written server over streamable HTTP: no code of the
// package under test.
type webServer struct {
	*httptest.Server
	t *testing.T
	// handle answers requests other than initialize.
	handle func(w http.ResponseWriter, r *http.Request, m webMessage)
	// get answers GET; nil: 405.
	get http.HandlerFunc
	// notified and answered get notifications but initialized, and answers.
	notified, answered chan webMessage
	deleted            chan http.Header
	revision           string

	mu       sync.Mutex
	sessions int    // number of the last one
	session  string // the current one; "" where the server has none
	first    webMessage
	stateful bool
}

func newWebServer(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, m webMessage)) *webServer {
	s := &webServer{t: t, handle: handle, stateful: true, revision: "2025-11-25",
		notified: make(chan webMessage, 1000), answered: make(chan webMessage, 100), deleted: make(chan http.Header, 10)}
	s.restart((*httptest.Server).Start)
	t.Cleanup(func() { s.Close() })
	return s
}

// restart starts the server anew, elsewhere.
func (s *webServer) restart(start func(*httptest.Server)) {
	if s.Server != nil {
		s.Close()
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	start(s.Server)
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		if s.get == nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.get(w, r)
		return
	case http.MethodDelete:
		s.deleted <- r.Header
		return
	}
	body, err := io.ReadAll(r.Body)
	m := webMessage{Body: string(body), Header: r.Header}
	if err != nil || json.Unmarshal(body, &m.rawMessage) != nil {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	if m.Method == "initialize" {
		s.initialize(w, m)
		return
	}
	s.mu.Lock()
	known := !s.stateful || r.Header.Get("Mcp-Session-Id") == s.session
	s.mu.Unlock()
	switch {
	case !known:
		http.Error(w, "no such session", http.StatusNotFound)
	case m.Method == "":
		w.WriteHeader(http.StatusAccepted)
		s.answered <- m
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		if m.Method != "notifications/initialized" {
			s.notified <- m
		}
	default:
		s.handle(w, r, m)
	}
}

func (s *webServer) initialize(w http.ResponseWriter, m webMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = m
	if s.stateful {
		s.sessions++
		s.session = fmt.Sprintf("session-%d", s.sessions)
		w.Header().Set("Mcp-Session-Id", s.session)
	}
	answer(w, m, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`, s.revision))
}

// forget ends the session on the server's side.
func (s *webServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = "none"
}

// answer answers with JSON.
func answer(w http.ResponseWriter, m webMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// eventWriter writes a stream of events.
type eventWriter struct {
	w http.ResponseWriter
}

func streamTo(w http.ResponseWriter) eventWriter {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	e := eventWriter{w}
	e.flush()
	return e
}

func (e eventWriter) flush() { _ = http.NewResponseController(e.w).Flush() }

func (e eventWriter) raw(format string, args ...any) {
	fmt.Fprintf(e.w, format, args...)
	e.flush()
}

// send sends a message in an event.
func (e eventWriter) send(format string, args ...any) {
	fmt.Fprintf(e.w, "event: message\ndata: "+format+"\n\n", args...)
	e.flush()
}

func (e eventWriter) result(m webMessage, result string) {
	e.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// callbacks records what a link hands out.
type callbacks struct {
	notify  func(m wire.Inbound) // nil: recorded in notes
	ask     func(ctx context.Context, m wire.Inbound) wire.Reply
	notes   chan string // method and owners
	garbage chan string // reasons
	log     *strings.Builder
	mu      sync.Mutex
}

func newCallbacks() *callbacks {
	return &callbacks{notes: make(chan string, 10_000), garbage: make(chan string, 1000), log: new(strings.Builder)}
}

func (c *callbacks) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *callbacks) logged() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// options returns the options of a link to the server of spec.
func (c *callbacks) options(spec Spec) link.Options {
	return link.Options{
		MaxMessage: spec.MaxMessage,
		Handler: link.Callbacks{
			OnNotification: func(m wire.Inbound) {
				if c.notify != nil {
					c.notify(m)
					return
				}
				c.notes <- fmt.Sprint(m.Method, m.Owners())
			},
			OnRequest: func(ctx context.Context, m wire.Inbound) wire.Reply {
				return c.ask(ctx, m)
			},
		},
		Errors:  CallErrors(spec.Name),
		Garbage: func(reason string, _ []byte) { c.garbage <- reason },
		Log:     slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// dialSpec is dial with callbacks that the test reads.
func dialSpec(ctx context.Context, s Spec, c *callbacks) (link.Link, error) {
	return dial(ctx, s, c.options(s), nil)
}

// dialWeb returns a link to the server after the handshake.
func dialWeb(t *testing.T, s Spec, c *callbacks) link.Link {
	t.Helper()
	s.Name = "web"
	opts := c.options(s)
	opts.SerialIDs = true // so that tests can name them
	l, err := dial(t.Context(), s, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Shutdown(time.Minute, nil) })
	if _, err := Initialize(t.Context(), l, ClientParams{Name: "test", Version: "1"}.Params()); err != nil {
		t.Fatal(err)
	}
	return l
}

// httpSpec is a Spec of the server without fallback.
func (s *webServer) httpSpec() Spec { return Spec{URL: s.URL + "/mcp", Transport: TransportHTTP} }

func callOf(name string) wire.Call {
	return wire.Call{Method: "tools/call", Params: []byte(`{"name":"` + name + `"}`)}
}

// outcomeOf is an outcome as a text to compare with.
func outcomeOf(reply wire.Reply, err error) string {
	switch {
	case err != nil:
		return "error " + err.Error()
	case reply.Error != nil:
		return "refused " + string(reply.Error)
	}
	return string(reply.Result)
}
