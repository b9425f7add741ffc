package front

import (
	"context"
	"errors"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// errOverflow is why a session ends whose client does not read.
var errOverflow = errors.New("the client does not read its messages (too many bytes are waiting)")

// stream is a Stream to an HTTP client: the answer to one POST, or the
// session's own. Messages wait in it for the connection that takes them to the
// client (conn), so writing never blocks; those delivered last are kept for a
// client that comes back.
type stream struct {
	visit *visit
	no    uint64        // 0: the session's own
	wake  chan struct{} // holds a token while there is something new for conn

	mu      sync.Mutex
	events  [][]byte // messages that are kept; nothing is missing in between
	one     [1][]byte
	first   uint64        // place of events[0]
	sent    uint64        // place of the last one delivered
	waiting int           // bytes not delivered
	largest int           // of the messages since nothing was waiting, bytes
	kept    int           // bytes delivered
	closed  bool          // nothing follows
	single  bool          // the only event came with Close
	gone    bool          // nobody can resume it: nothing is kept
	lost    int           // messages dropped since nobody was listening
	conn    *conn         // that delivers; nil while the client is not there
	back    chan struct{} // closed when a conn comes; made while there is none
}

func newStream(v *visit, no uint64) *stream {
	s := &stream{visit: v, no: no, wake: make(chan struct{}, 1), first: 1}
	s.events = s.one[:0]
	if no == 0 {
		s.back = make(chan struct{})
	}
	return s
}

// Write implements Stream. The session ends when too much is waiting.
func (s *stream) Write(msg []byte) error { return s.add(msg, false) }

// Close implements Stream.
func (s *stream) Close(last []byte) error { return s.add(last, true) }

// TryClose implements Stream.
func (s *stream) TryClose(last []byte) (done bool, err error) { return true, s.Close(last) }

// Request implements Stream.
func (s *stream) Request(ctx context.Context, msg []byte) error {
	if s.no == 0 {
		return s.visit.request(ctx, msg)
	}
	return s.Write(msg)
}

func (s *stream) add(msg []byte, last bool) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errFinished
	}
	// One message always fits, whatever its size.
	over := s.waiting-s.largest > s.visit.http.opts.Buffer
	switch {
	case msg == nil || over || s.gone:
	case s.no == 0 && s.conn == nil:
		s.leave(msg)
	default:
		s.append(msg)
		s.single = last && s.first+uint64(len(s.events)) == 2
	}
	s.closed = last
	s.mu.Unlock()
	s.signal()
	if over {
		s.visit.overflow()
		return errOverflow
	}
	return nil
}

func (s *stream) append(msg []byte) {
	if s.waiting == 0 {
		s.largest = 0
	}
	s.largest = max(s.largest, len(msg))
	s.waiting += len(msg)
	s.events = append(s.events, msg)
	if len(s.events) == 2 {
		s.one[0] = nil // they have left it
	}
}

// changes are the messages of which one is as good as several.
var changes = func() map[string]bool {
	m := map[string]bool{}
	for _, surface := range wire.Surfaces {
		m[string(wire.Notification(surface.ChangedMethod(), nil))] = true
	}
	return m
}()

// leave keeps a message for a client that does not listen just now. There may
// be none that ever does, so the oldest are given up.
func (s *stream) leave(msg []byte) {
	if changes[string(msg)] {
		for place := s.sent + 1; place < s.first+uint64(len(s.events)); place++ {
			if string(s.events[place-s.first]) == string(msg) {
				return
			}
		}
	}
	s.append(msg)
	for s.waiting > s.visit.http.opts.Replay && s.sent+1 < s.first+uint64(len(s.events))-1 {
		if s.lost == 0 {
			s.visit.log().Warn("messages to a client that does not listen are dropped, the oldest first",
				"limit", s.visit.http.opts.Replay)
		}
		s.lost++
		for oldest := s.sent + 1; s.first <= oldest; {
			s.forgetFirst()
		}
	}
}

// forgetFirst drops the oldest message.
func (s *stream) forgetFirst() {
	n := len(s.events[0])
	if s.first > s.sent {
		s.waiting -= n
		s.sent = s.first
	} else {
		s.kept -= n
	}
	s.events[0] = nil
	s.events = s.events[1:]
	s.first++
}

// release lets go of all messages, once no connection delivers them: the stream may
// be kept in memory by others than its session, such as a cancelled call that an
// upstream still answers to.
func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.forgetAll()
}

// forgetAll drops all messages of a stream that is gone and not being delivered.
func (s *stream) forgetAll() {
	if !s.gone || s.conn != nil {
		return
	}
	for len(s.events) > 0 {
		s.forgetFirst()
	}
	s.events = nil
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
}

// requestNow is Request of the session's own stream if the client is
// listening there; otherwise listening is closed when it is.
func (s *stream) requestNow(msg []byte) (listening <-chan struct{}, err error) {
	s.mu.Lock()
	back := s.back
	s.mu.Unlock()
	if back != nil {
		return back, nil
	}
	return nil, s.Write(msg)
}

// attach makes c the connection that delivers: what comes behind the place, for
// a client that comes back, whose connection before is told to leave; or, fresh,
// what has not been delivered, if there is no other. It is false where that
// cannot be, or the place is not of the stream.
func (s *stream) attach(c *conn, place uint64, fresh bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.no == 0 || s.conn != nil || s.back != nil
	switch {
	case fresh && s.conn != nil, !fresh && !begun:
		return false
	case fresh:
		place = s.sent
	}
	if place >= s.first+uint64(len(s.events)) {
		return false
	}
	c.stream, c.lasting, c.place = s, s.lasting(), max(place, s.first-1)
	if s.conn != nil {
		s.conn.abort() // its client has gone, whether we know yet or not
		close(s.conn.replaced)
	} else if s.back != nil {
		close(s.back)
		s.back = nil
	}
	s.conn, s.lost = c, 0
	return true
}

// detach is the end of c. resumed is closed when another one takes over.
func (s *stream) detach(c *conn) (resumed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.conn, s.back = nil, make(chan struct{})
		s.forgetAll()
		return s.back
	}
	s.signal() // c may have taken the other one's token
	return c.replaced
}

// abort fails what is written to the client just now.
func (s *stream) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil { // it cannot leave before the lock is free
		s.conn.abort()
	}
}

// next copies messages behind c's place into batch. over says that nothing
// follows, or not to c.
func (s *stream) next(c *conn, batch [][]byte) (n int, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return 0, true
	}
	n = copy(batch, s.events[c.place+1-s.first:])
	return n, n == 0 && s.closed
}

// delivered says that c has written everything up to its place.
func (s *stream) delivered(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return
	}
	for s.sent < c.place {
		n := len(s.events[s.sent+1-s.first])
		s.sent++
		s.waiting -= n
		s.kept += n
	}
	for s.kept > s.visit.http.opts.Replay && s.first <= s.sent {
		s.forgetFirst()
	}
}

// answer is the only message of a stream that had no other; ok is false where
// there is more to it, or not even that.
func (s *stream) answer() (msg []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.single || !s.closed || s.gone {
		return nil, false
	}
	return s.events[0], true
}

// lasting tells whether a client can come back to the stream.
func (s *stream) lasting() bool { return s.no == 0 || s.visit.http.opts.ResumeWindow > 0 }

// over tells whether nothing follows.
func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// live tells whether a message would reach the client.
func (s *stream) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && (s.conn != nil || s.back == nil)
}

// size is what the stream holds, in bytes, and whether some of it has not been
// delivered.
func (s *stream) size() (bytes int, unsent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept + s.waiting, s.waiting > 0
}
