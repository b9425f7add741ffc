package mcptest

import (
	"fmt"
	"io"
	"net/http"
)

// SSE returns a handler for clients of the HTTP+SSE transport (revision 2024-11-05). A GET opens a
// session and is the stream of all messages to the client; the first event is the address for
// POSTs. The session ends with the connection.
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

// sharedStream is the stream of a session as used by a call. The stream does not end with the call.
type sharedStream struct{ stream }

func (s sharedStream) send(msg []byte, _ bool) { s.stream.send(msg, false) }
func (s sharedStream) end()                    {}

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
	e := session.add(id, raw, r.Header)
	session.received(e, sharedStream{session.general}) // before the client may send the next message
	w.WriteHeader(http.StatusAccepted)
}
