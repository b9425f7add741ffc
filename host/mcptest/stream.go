package mcptest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
