package linktest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// HTTPMessage is a JSON-RPC message in a POST to a server.
type HTTPMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`

	Body   string      `json:"-"` // the message as sent
	Header http.Header `json:"-"`
}

// ProgressToken returns the raw progress token of a request, "" for none.
func (m HTTPMessage) ProgressToken() string {
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p)
	return string(p.Meta.Token)
}

// HTTPServer is an MCP server over streamable HTTP without code of the packages under test. The
// fields are set before use.
type HTTPServer struct {
	*httptest.Server
	// Handle answers requests other than initialize.
	Handle func(w http.ResponseWriter, r *http.Request, m HTTPMessage)
	// Get answers GET; nil: with 405.
	Get http.HandlerFunc
	// Notified gets notifications other than notifications/initialized, Answered gets
	// answers, and Deleted the headers of each DELETE.
	Notified, Answered chan HTTPMessage
	Deleted            chan http.Header
	// Revision is the protocol revision that the server chooses.
	Revision string
	// Stateless makes the server have no sessions.
	Stateless bool

	mu       sync.Mutex
	sessions int    // the number of sessions so far
	session  string // the id of the current session
	first    HTTPMessage
}

// NewHTTPServer starts a server with sessions with the ids session-1, session-2 and so on.
func NewHTTPServer(t testing.TB, handle func(w http.ResponseWriter, r *http.Request, m HTTPMessage)) *HTTPServer {
	s := &HTTPServer{Handle: handle, Revision: "2025-11-25",
		Notified: make(chan HTTPMessage, 1000), Answered: make(chan HTTPMessage, 100), Deleted: make(chan http.Header, 10)}
	s.Restart((*httptest.Server).Start)
	t.Cleanup(func() { s.Close() })
	return s
}

// Restart closes the server and starts the server again, usually at another address.
func (s *HTTPServer) Restart(start func(*httptest.Server)) {
	if s.Server != nil {
		s.Close()
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	start(s.Server)
}

// ClientConfig returns how a client reaches the server.
func (s *HTTPServer) ClientConfig() httpclient.Config {
	return httpclient.Config{Name: "web", URL: s.URL + "/mcp"}
}

// Initialize returns the last initialize request.
func (s *HTTPServer) Initialize() HTTPMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// Forget makes the server forget the current session.
func (s *HTTPServer) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = "none"
}

// ServeHTTP implements http.Handler.
func (s *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		if s.Get == nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.Get(w, r)
		return
	case http.MethodDelete:
		s.Deleted <- r.Header
		return
	}
	m, err := readMessage(r)
	if err != nil {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	if m.Method == "initialize" {
		s.initialize(w, m)
		return
	}
	s.mu.Lock()
	known := s.Stateless || r.Header.Get("Mcp-Session-Id") == s.session
	s.mu.Unlock()
	switch {
	case !known:
		http.Error(w, "no such session", http.StatusNotFound)
	case m.Method == "":
		w.WriteHeader(http.StatusAccepted)
		s.Answered <- m
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		if m.Method != "notifications/initialized" {
			s.Notified <- m
		}
	default:
		s.Handle(w, r, m)
	}
}

func (s *HTTPServer) initialize(w http.ResponseWriter, m HTTPMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = m
	if !s.Stateless {
		s.sessions++
		s.session = fmt.Sprintf("session-%d", s.sessions)
		w.Header().Set("Mcp-Session-Id", s.session)
	}
	Answer(w, m, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`, s.Revision))
}

// readMessage reads the message in a POST.
func readMessage(r *http.Request) (HTTPMessage, error) {
	body, err := io.ReadAll(r.Body)
	m := HTTPMessage{Body: string(body), Header: r.Header}
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	return m, err
}

// Answer answers a request with a single JSON document.
func Answer(w http.ResponseWriter, m HTTPMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// EventWriter writes a stream of server-sent events.
type EventWriter struct{ Writer http.ResponseWriter }

// StreamTo starts a response with a stream of events.
func StreamTo(w http.ResponseWriter) EventWriter {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	e := EventWriter{w}
	e.Flush()
	return e
}

// Flush sends the written text.
func (e EventWriter) Flush() { _ = http.NewResponseController(e.Writer).Flush() }

// Raw writes text unchanged.
func (e EventWriter) Raw(format string, args ...any) {
	fmt.Fprintf(e.Writer, format, args...)
	e.Flush()
}

// Send writes a message as an event.
func (e EventWriter) Send(format string, args ...any) {
	fmt.Fprintf(e.Writer, "event: message\ndata: "+format+"\n\n", args...)
	e.Flush()
}

// Result answers a request.
func (e EventWriter) Result(m HTTPMessage, result string) {
	e.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// SSEServer is an MCP server over HTTP with SSE (revision 2024-11-05) without code of the packages
// under test. The server has a single session. The fields are set before use.
type SSEServer struct {
	*httptest.Server
	// Endpoint is the address in the event endpoint.
	Endpoint string
	// Handle answers requests other than initialize.
	Handle func(e EventWriter, m HTTPMessage)
	// Posted gets notifications other than notifications/initialized, and answers.
	Posted chan HTTPMessage
	// Refuse, if set, returns the status of a refused POST; 0 accepts the POST.
	Refuse func(m HTTPMessage) int
	// HangUp, when closed, ends the stream.
	HangUp chan struct{}
	// Held, if not nil, makes each request, and the response to the request's POST, wait until two
	// values have been received.
	Held chan struct{}

	stream chan EventWriter // holds the stream while no goroutine writes to the stream
}

// NewSSEServer starts a server.
func NewSSEServer(t testing.TB, handle func(e EventWriter, m HTTPMessage)) *SSEServer {
	s := &SSEServer{Endpoint: "/post?session=1", Handle: handle, stream: make(chan EventWriter, 1),
		Posted: make(chan HTTPMessage, 1000), HangUp: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ClientConfig returns how a client reaches the server.
func (s *SSEServer) ClientConfig() httpclient.Config {
	return httpclient.Config{Name: "web", URL: s.URL + "/sse"}
}

// ServeHTTP implements http.Handler.
func (s *SSEServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		e := StreamTo(w)
		e.Raw(": comment\n\nevent: endpoint\ndata: %s\n\n", s.Endpoint)
		s.stream <- e
		select {
		case <-r.Context().Done():
		case <-s.HangUp:
		}
		<-s.stream
	case r.Method == http.MethodPost && r.URL.RequestURI() == "/post?session=1":
		s.post(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *SSEServer) post(w http.ResponseWriter, r *http.Request) {
	m, _ := readMessage(r)
	if s.Refuse != nil {
		if status := s.Refuse(m); status != 0 {
			http.Error(w, "not accepted", status)
			return
		}
	}
	if s.Held == nil {
		w.WriteHeader(http.StatusAccepted)
	}
	e := <-s.stream
	switch {
	case m.Method == "initialize":
		e.Result(m, `{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`)
	case m.Method != "" && m.ID != nil && s.Held != nil:
		s.stream <- e
		<-s.Held
		<-s.Held
		e = <-s.stream
		s.Handle(e, m)
	case m.Method != "" && m.ID != nil:
		s.Handle(e, m)
	case m.Method != "notifications/initialized":
		s.Posted <- m
	}
	s.stream <- e
}
