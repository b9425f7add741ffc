package linktest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

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
