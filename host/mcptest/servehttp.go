package mcptest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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

// stream carries messages to a client. A stream is safe for concurrent use.
type stream interface {
	// send writes a message. If final is set, the message is the last.
	send(msg []byte, final bool)
	// frame returns a message as sent on the wire.
	frame(msg []byte) []byte
	// write sends bytes unchanged, size bytes at a time. After each portion more is called, and
	// write stops if more returns false. Nothing else is written meanwhile.
	write(b []byte, size int, more func() bool)
	// end says that no more messages will follow.
	end()
	// abort breaks the connection.
	abort()
}

// lineStream is a stream of newline-delimited messages.
type lineStream struct {
	mu     sync.Mutex
	w      io.Writer
	broken func()
}

func (s *lineStream) frame(msg []byte) []byte { return append(bytes.Clone(msg), '\n') }
func (s *lineStream) send(msg []byte, _ bool) { s.write(s.frame(msg), 0, nil) }
func (s *lineStream) end()                    {}
func (s *lineStream) abort()                  { s.broken() }
func (s *lineStream) write(b []byte, size int, more func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writePortions(s.w, b, size, more)
}

// writePortions writes b as stream.write specifies. Write errors are ignored: readers notice that
// the client is gone.
func writePortions(w io.Writer, b []byte, size int, more func() bool) {
	for ; size > 0 && len(b) > size; b = b[size:] {
		if _, err := w.Write(b[:size]); err != nil || !more() {
			return
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	_, _ = w.Write(b)
}

// answerOnly sends only the answer, as JSON. Earlier messages go to others.
type answerOnly struct {
	*eventStream
	others stream
}

func (s answerOnly) send(msg []byte, final bool) {
	if final {
		s.eventStream.send(msg, true)
		return
	}
	s.others.send(msg, false)
}

// eventStream is a stream of server-sent events. Events are kept, so that clients can connect
// later, or again.
type eventStream struct {
	id        string // of the stream, in event ids; "" for none (legacy SSE)
	cut       int    // end the connection after this many events; 0: never
	plainJSON bool   // an answer without earlier messages may be JSON
	refusals  bool   // an error without earlier messages is JSON, with the HTTP status of the error
	first     string // sent at the start of each connection

	mu      sync.Mutex
	w       http.ResponseWriter // nil while no client is connected
	leave   chan struct{}       // closed when the handler of w may return
	started bool                // the header of w has been written
	events  [][]byte
	base    int // number of events[0]
	next    int // number of the next event to write
	ended   bool
	aborted bool
}

// maxReplay limits the number of written events that can be sent again.
const maxReplay = 20_000

func (s *eventStream) frame(msg []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.event(s.base+len(s.events), msg)
}

func (s *eventStream) event(number int, msg []byte) []byte {
	var b bytes.Buffer
	if s.id != "" {
		fmt.Fprintf(&b, "id: %s-%d\n", s.id, number)
	}
	b.WriteString("event: message\n")
	for line := range bytes.Lines(msg) {
		fmt.Fprintf(&b, "data: %s\n", bytes.TrimSuffix(line, []byte("\n")))
	}
	b.WriteString("\n")
	return b.Bytes()
}

func (s *eventStream) send(msg []byte, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.events = append(s.events, msg)
	s.ended = final
	s.flush()
}

func (s *eventStream) write(b []byte, size int, more func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return
	}
	s.start()
	writePortions(s.w, b, size, more)
	if s.w != nil {
		_ = http.NewResponseController(s.w).Flush()
	}
}

func (s *eventStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.flush()
}

func (s *eventStream) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && s.next == s.base+len(s.events) {
		return // over before
	}
	s.ended, s.aborted = true, true
	s.release()
}

// serve writes the stream to w until the stream ends, the client disconnects, or
// another connection takes over. See attach for from and early.
func (s *eventStream) serve(w http.ResponseWriter, r *http.Request, from int, early bool) {
	s.hold(r, s.attach(w, from, early))
}

// attach makes the stream write to w until the returned channel is closed, beginning with event
// number from, or with -1 where the last connection stopped. The headers are sent at once if early
// is set, otherwise with the first event.
func (s *eventStream) attach(w http.ResponseWriter, from int, early bool) (leave chan struct{}) {
	leave = make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
	s.w, s.leave, s.started = w, leave, false
	if from >= 0 {
		s.next = min(max(from, s.base), s.base+len(s.events))
	}
	if early {
		s.start()
	}
	if s.aborted {
		s.release()
	}
	s.flush()
	return leave
}

// hold keeps an attached connection open until the stream releases the connection or the client
// disconnects.
func (s *eventStream) hold(r *http.Request, leave chan struct{}) {
	select {
	case <-leave:
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leave == leave {
		s.release()
	}
	if s.aborted {
		panic(http.ErrAbortHandler)
	}
}

// release lets the handler of the connection return, if the stream has a connection.
func (s *eventStream) release() {
	if s.leave != nil {
		close(s.leave)
		s.w, s.leave = nil, nil
	}
}

// start writes the header, once.
func (s *eventStream) start() {
	if s.started {
		return
	}
	s.started = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-store")
	s.w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(s.w, s.first)
	_ = http.NewResponseController(s.w).Flush()
}

// flush writes the unwritten events, if a client is connected.
func (s *eventStream) flush() {
	if s.w == nil {
		return
	}
	if s.ended && len(s.events) == 1 && !s.started && (s.plainJSON || s.status() != http.StatusOK) {
		s.w.Header().Set("Content-Type", "application/json")
		s.w.WriteHeader(s.status())
		_, _ = s.w.Write(s.events[0])
		s.next++
		s.release()
		return
	}
	for s.w != nil && s.next < s.base+len(s.events) {
		s.start()
		_, err := s.w.Write(s.event(s.next, s.events[s.next-s.base]))
		if err != nil {
			s.release()
			return
		}
		s.next++
		if s.cut > 0 && s.next%s.cut == 0 && !(s.ended && s.next == s.base+len(s.events)) {
			_ = http.NewResponseController(s.w).Flush()
			s.release()
		}
	}
	if s.w != nil && s.started {
		_ = http.NewResponseController(s.w).Flush()
	}
	if old := s.next - s.base - maxReplay; old > maxReplay {
		s.events, s.base = append([][]byte(nil), s.events[old:]...), s.base+old
	}
	if s.ended && s.w != nil {
		s.start()
		s.release()
	}
}

// status returns the HTTP status of the first message.
func (s *eventStream) status() int {
	if raw, ok := wire.Get(s.events[0], "error"); ok && s.refusals {
		return statusOf(wire.ParseError(raw).Code)
	}
	return http.StatusOK
}

// finished reports whether the stream has ended and everything has been written.
func (s *eventStream) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.next == s.base+len(s.events)
}
