package streamable

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// errOverflow is the error of a session that ends because the client does not read.
var errOverflow = errors.New("the client does not read its messages (too many bytes are waiting)")

// stream is an rpc.Stream to an HTTP client: the answer to a POST, or the main stream of the
// session. A stream takes every message at once, and keeps the message until the eventWriter has
// written the message to the client. A stream also keeps the last written messages, for a client
// that resumes the stream.
type stream struct {
	session *session
	id      uint64        // 0: the main stream
	request string        // the raw id of the stream's request, if events name the request; else ""
	wake    chan struct{} // holds a token while something new waits for the eventWriter

	mu       sync.Mutex
	messages [][]byte // the kept messages, in order and without gaps
	inline   [1][]byte
	first    uint64 // sequence number of messages[0]
	sent     uint64 // sequence number of the last written message
	offered  uint64 // sequence number of the last message given to an eventWriter
	waiting  int    // bytes of unwritten messages
	largest  int    // bytes of the largest message since none was waiting
	kept     int    // bytes of kept written messages
	closed   bool   // no message follows
	single   bool   // the only message was added by Finish
	released bool   // no client can resume the stream: messages are not kept
	dropped  int    // messages since the client stopped listening

	writer    *eventWriter  // nil while the client is not connected
	connected chan struct{} // closed when a client connects again; nil while a client is connected, and before the first client
}

func newStream(s *session, id uint64) *stream {
	out := &stream{session: s, id: id, wake: make(chan struct{}, 1), first: 1}
	out.messages = out.inline[:0]
	if id == 0 {
		out.connected = make(chan struct{})
	}
	return out
}

// TrySend implements rpc.Stream. The main stream takes no request while the client is not
// connected.
func (s *stream) TrySend(f rpc.Frame) bool {
	if f.ID != 0 && s.id == 0 {
		_, sent := s.session.trySend(f)
		return sent
	}
	return s.take(f)
}

// Send implements rpc.Stream. A request on the main stream waits a little for a disconnected
// client; then the error is front.ErrNotListening.
func (s *stream) Send(ctx context.Context, f rpc.Frame) error {
	if f.ID != 0 && s.id == 0 {
		return s.session.send(ctx, f)
	}
	return s.Push(f)
}

// Push implements rpc.Stream.
func (s *stream) Push(f rpc.Frame) error {
	if !s.take(f) {
		return rpc.ErrFinished
	}
	return nil
}

// Withdraw implements rpc.Stream.
func (s *stream) Withdraw(int64) bool { return false }

// Finish implements rpc.Stream.
func (s *stream) Finish(f rpc.Frame) { s.done(f, s.add(f.Data, true)) }

// afford counts an added message. An answer without memory is replaced by an error, which is small
// and reaches the client in any case.
func afford(memory *budget.Account, msg []byte, answer bool) ([]byte, error) {
	err := memory.Add(len(msg))
	if err == nil || !answer {
		return msg, err
	}
	id, _ := wire.Get(msg, "id")
	msg = wire.Response(id, wire.Reply{Error: rpc.LostAnswer(err)})
	memory.Force(len(msg))
	return msg, nil
}

// take takes a message, and returns false if the stream is finished.
func (s *stream) take(f rpc.Frame) bool {
	if denied := wire.CheckPermit(f.Permit); denied != nil {
		f.Done(rpc.Unsent, denied)
		return true
	}
	err := s.add(f.Data, false)
	if err == rpc.ErrFinished {
		return false
	}
	s.done(f, err)
	return true
}

func (s *stream) done(f rpc.Frame, err error) {
	if err != nil {
		f.Done(rpc.Unsent, err)
		return
	}
	f.Done(rpc.Written, nil)
}

// add adds a message, or none if msg is nil. last marks the last message. The session ends if too
// many bytes wait.
func (s *stream) add(msg []byte, last bool) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return rpc.ErrFinished
	}
	// A single message of any size fits into the buffer.
	var full error
	over := s.waiting-s.largest > s.session.handler.opts.Buffer
	if msg != nil && !over && !s.released {
		msg, full = afford(s.session.memory, msg, last)
	}
	switch {
	case msg == nil || over || s.released || full != nil:
	case s.id == 0 && s.writer == nil:
		s.appendForLater(msg)
	default:
		s.append(msg)
		s.single = last && s.end() == 2
	}
	s.closed = last
	s.mu.Unlock()
	s.signal()
	switch {
	case over:
		s.session.overflow(errOverflow)
		return errOverflow
	case full != nil:
		s.session.overflow(full)
		return full
	}
	return nil
}

// end returns the sequence number of the next message. The caller holds s.mu.
func (s *stream) end() uint64 { return s.first + uint64(len(s.messages)) }

// append adds a message. The caller holds s.mu.
func (s *stream) append(msg []byte) {
	if s.waiting == 0 {
		s.largest = 0
	}
	s.largest = max(s.largest, len(msg))
	s.waiting += len(msg)
	s.messages = append(s.messages, msg)
	if len(s.messages) == 2 {
		s.inline[0] = nil // messages has just been moved to a larger array
	}
}

// listChanges are the notifications of a changed list without params.
var listChanges = func() [][]byte {
	var all [][]byte
	for _, surface := range wire.Surfaces {
		all = append(all, wire.Notification(surface.ChangedMethod(), nil))
	}
	return all
}()

// mergeListChange merges msg with a notification of the same list, if the client cannot have
// received the earlier notification. As in front.Session.Changed, params are kept only if both have
// the same. mergeListChange returns false if no such notification waits. The caller holds s.mu.
func (s *stream) mergeListChange(msg []byte) bool {
	at := slices.IndexFunc(listChanges, func(plain []byte) bool { return sameMethod(msg, plain) })
	if at < 0 {
		return false
	}
	plain := listChanges[at]
	for seq := max(s.sent, s.offered) + 1; seq < s.end(); seq++ {
		earlier := &s.messages[seq-s.first]
		if !sameMethod(*earlier, plain) {
			continue
		}
		if !bytes.Equal(*earlier, msg) {
			s.session.memory.Sub(len(*earlier))
			s.session.memory.Force(len(plain))
			s.waiting += len(plain) - len(*earlier)
			*earlier = plain
		}
		s.session.memory.Sub(len(msg))
		return true
	}
	return false
}

// sameMethod reports whether msg is plain, a notification without params, or the same
// notification with params. Both were made by wire.Notification.
func sameMethod(msg, plain []byte) bool { return bytes.HasPrefix(msg, plain[:len(plain)-1]) }

// appendForLater adds a message for a disconnected client. The client may never connect, so the
// oldest messages are dropped. The caller holds s.mu.
func (s *stream) appendForLater(msg []byte) {
	if s.mergeListChange(msg) {
		return
	}
	s.append(msg)
	for s.waiting > s.session.handler.opts.Replay && s.sent+1 < s.end()-1 {
		if s.dropped == 0 {
			s.session.log().Warn("messages to a client that does not listen are dropped, the oldest first",
				"limit", s.session.handler.opts.Replay)
		}
		s.dropped++
		for oldest := s.sent + 1; s.first <= oldest; {
			s.dropFirst()
		}
	}
}

// dropFirst drops the oldest message. The caller holds s.mu.
func (s *stream) dropFirst() {
	n := len(s.messages[0])
	s.session.memory.Sub(n)
	if s.first > s.sent {
		s.waiting -= n
		s.sent = s.first
	} else {
		s.kept -= n
	}
	s.messages[0] = nil
	s.messages = s.messages[1:]
	s.first++
}

// release drops all messages, as soon as no eventWriter writes them. The caller calls release when
// no client can resume the stream. The session does not always hold the last reference to the
// stream: an upstream connection keeps a cancelled call for a while, and with the call the stream
// of the call's request.
func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.dropReleased()
}

// dropReleased drops the messages of a released stream if no eventWriter writes them.
// The caller holds s.mu.
func (s *stream) dropReleased() {
	if !s.released || s.writer != nil {
		return
	}
	for len(s.messages) > 0 {
		s.dropFirst()
	}
	s.messages = nil
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // wake holds a token already
	}
}

// awaitClient returns nil if the client is connected to the main stream, and otherwise a channel
// that is closed when the client connects.
func (s *stream) awaitClient() (connected <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected
}

// attach makes e the eventWriter of the stream. If fresh is set, e writes the unwritten messages,
// and the stream must not have another eventWriter. Otherwise e writes the messages after the
// sequence number seq, for a client that resumes the stream, and replaces the current eventWriter.
// attach returns false if resuming is impossible, or if the stream has no message with the number
// seq.
func (s *stream) attach(e *eventWriter, seq uint64, fresh bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.id == 0 || s.writer != nil || s.connected != nil
	switch {
	case fresh && s.writer != nil, !fresh && !begun:
		return false
	case fresh:
		seq = s.sent
	}
	if seq >= s.end() {
		return false
	}
	e.stream, e.resumable, e.seq = s, s.resumable(), max(seq, s.first-1)
	if s.writer != nil {
		s.writer.abort() // the previous client has disconnected, even if unnoticed
		close(s.writer.replaced)
	} else if s.connected != nil {
		close(s.connected)
		s.connected = nil
	}
	s.writer, s.dropped = e, 0
	return true
}

// detach removes e from the stream. resumed is closed when another eventWriter replaces e.
func (s *stream) detach(e *eventWriter) (resumed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer == e {
		s.writer, s.connected = nil, make(chan struct{})
		s.dropReleased()
		return s.connected
	}
	s.signal() // e may have taken the token for the other eventWriter
	return e.replaced
}

// cutOff notes that the client has disconnected before the first eventWriter. resumed is closed
// when the stream gets an eventWriter.
func (s *stream) cutOff() (resumed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected = make(chan struct{})
	return s.connected
}

// abortWrite fails the write to the client in progress.
func (s *stream) abortWrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer != nil { // the eventWriter cannot detach while the lock is held
		s.writer.abort()
	}
}

// next copies messages that e has not written into batch. over means: e has no more messages to
// write.
func (s *stream) next(e *eventWriter, batch [][]byte) (n int, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer != e {
		return 0, true
	}
	n = copy(batch, s.messages[e.seq+1-s.first:])
	s.offered = max(s.offered, e.seq+uint64(n))
	return n, n == 0 && s.closed
}

// written records that e has written all messages up to e's sequence number.
func (s *stream) written(e *eventWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer != e {
		return
	}
	for s.sent < e.seq {
		n := len(s.messages[s.sent+1-s.first])
		s.sent++
		s.waiting -= n
		s.kept += n
	}
	for s.kept > s.session.handler.opts.Replay && s.first <= s.sent {
		s.dropFirst()
	}
}

// onlyResponse returns the only message of a finished stream; ok is false for several messages, or
// none yet.
func (s *stream) onlyResponse() (msg []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.single || !s.closed || s.released {
		return nil, false
	}
	return s.messages[0], true
}

// resumable reports whether a client can resume the stream.
func (s *stream) resumable() bool { return s.id == 0 || s.session.handler.opts.ResumeWindow > 0 }

// finished reports whether no message follows.
func (s *stream) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// reachesClient reports whether a message written now would reach the client.
func (s *stream) reachesClient() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && (s.writer != nil || s.connected == nil)
}

// size returns the number of bytes in the stream, and whether some of the bytes are unwritten.
func (s *stream) size() (bytes int, unsent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept + s.waiting, s.waiting > 0
}
