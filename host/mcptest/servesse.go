package mcptest

import (
	"fmt"
	"io"
	"net/http"
)

// SSE serves clients of the HTTP+SSE transport (revision 2024-11-05): a GET is
// a session and the stream of all that goes to its client, and begins with the
// address for POSTs. The end of the connection is the end of the session.
func (s *Server) SSE() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			s.serveSSE(w, r)
		case http.MethodPost:
			s.postSSE(w, r)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}

func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request) {
	es := &eventStream{}
	session := s.newSession("", func(session *session) { session.general, session.broken = es, es.abort })
	es.first = fmt.Sprintf("event: endpoint\ndata: %s?session=%s\n\n", r.URL.Path, session.id)
	defer func() {
		session.close()
		session.work.Wait()
	}()
	es.serve(w, r, -1, true)
}

// shared is the stream of a session in the hands of one call, whose end is not
// that of the stream.
type shared struct{ stream }

func (s shared) send(msg []byte, _ bool) { s.stream.send(msg, false) }
func (s shared) end()                    {}

func (s *Server) postSSE(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id := r.URL.Query().Get("session")
	s.mu.Lock()
	session := s.sessions[id]
	s.mu.Unlock()
	if session == nil {
		http.Error(w, "unknown session", http.StatusNotFound)
		return
	}
	e := s.Received.add(id, raw, r.Header)
	session.received(e, shared{session.general}) // before the client may send the next one
	w.WriteHeader(http.StatusAccepted)
}
