package mcptest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// HTTP returns a handler that serves clients at a single endpoint of the streamable HTTP transport.
// Sessions outlive their connections, so the server must be closed.
func (s *Server) HTTP() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost && s.sw.Eras == EraModern {
			w.Header().Set("Allow", http.MethodPost)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		switch r.Method {
		case http.MethodPost:
			s.post(w, r)
		case http.MethodGet:
			s.listen(w, r)
		case http.MethodDelete:
			if session := s.sessionOf(w, r); session != nil {
				session.close()
			}
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}

// sharedSession is the id of the only session of a server without session ids.
const sharedSession = "shared"

func (s *Server) newHTTPSession(id string) *session {
	return s.newSession(id, func(session *session) {
		session.general = s.newStream("general")
		session.broken = func() {
			session.general.abort()
			session.mu.Lock()
			defer session.mu.Unlock()
			for _, es := range session.streams {
				es.abort()
			}
		}
	})
}

// known returns the session with an id, nil for an unknown id.
func (s *Server) known(id string) *session {
	if s.sw.NoSessions {
		id = sharedSession
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// sessionOf returns the session named by a request. A request without a known session is refused,
// and the result is nil.
func (s *Server) sessionOf(w http.ResponseWriter, r *http.Request) *session {
	id := r.Header.Get("Mcp-Session-Id")
	session := s.known(id)
	switch {
	case session != nil:
		return session
	case id == "":
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Mcp-Session-Id header is required"}}`, http.StatusBadRequest)
	default:
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, http.StatusNotFound)
	}
	return nil
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	id := r.Header.Get("Mcp-Session-Id")
	add := s.Received.add
	if session := s.known(id); session != nil {
		add = session.add
	}
	e := add(id, raw, r.Header)
	if !e.Msg.IsRequest() && !e.Msg.IsNotification() && e.Msg.ID == nil {
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, http.StatusBadRequest)
		return
	}
	if s.isModern(e.Msg) {
		s.postModern(w, r, e)
		return
	}
	var session *session
	if e.Msg.Method == "initialize" {
		session = s.open(w)
	} else if session = s.sessionOf(w, r); session == nil {
		return
	}
	if !e.Msg.IsRequest() {
		session.received(e, session.general)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	es := session.newStream()
	leave := es.attach(w, -1, s.sw.EarlyHeader && !es.plainJSON) // before the first message
	if s.sw.Answers == "json" {
		session.received(e, answerOnly{es, session.general})
	} else {
		session.received(e, es)
	}
	es.hold(r, leave)
}

// open returns the session for an initialize request.
func (s *Server) open(w http.ResponseWriter) *session {
	if !s.sw.NoSessions {
		session := s.newHTTPSession("")
		w.Header().Set("Mcp-Session-Id", session.id)
		return session
	}
	s.mu.Lock()
	session := s.sessions[sharedSession]
	s.mu.Unlock()
	if session == nil {
		session = s.newHTTPSession(sharedSession)
	}
	return session
}

// newStream returns a stream that can be resumed.
func (s *Server) newStream(id string) *eventStream {
	es := &eventStream{id: id, cut: s.sw.CutAfter}
	if es.cut > 0 {
		es.first = "retry: 1\n\n"
	}
	return es
}

// maxStreams limits how many streams of answered requests can be resumed.
const maxStreams = 1000

// newStream returns the stream of a POST.
func (s *session) newStream() *eventStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastStream++
	es := s.srv.newStream(fmt.Sprintf("post%d", s.lastStream))
	es.plainJSON = s.srv.sw.Answers != ""
	s.streams[es.id] = es
	if old := fmt.Sprintf("post%d", s.lastStream-maxStreams); s.streams[old] != nil && s.streams[old].finished() {
		delete(s.streams, old)
	}
	return es
}

// listen serves the GET stream, or resumes the stream in Last-Event-ID.
func (s *Server) listen(w http.ResponseWriter, r *http.Request) {
	session := s.sessionOf(w, r)
	if session == nil {
		return
	}
	es, from := session.general.(*eventStream), -1
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		name, number, _ := strings.Cut(last, "-")
		n, err := strconv.Atoi(number)
		session.mu.Lock()
		if post := session.streams[name]; post != nil {
			es = post
		}
		session.mu.Unlock()
		if err != nil || es.id != name {
			http.Error(w, "unknown event id", http.StatusBadRequest)
			return
		}
		from = n + 1
	} else if s.sw.NoGETStream {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	es.serve(w, r, from, true)
}
