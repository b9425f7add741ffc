package streamable

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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

// next copies messages that e has not written into batch. over means that e has no more messages to
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

// eventID identifies an event of a session: the event's stream (0: the session's own) and the
// sequence number in the stream, from 1. The form on the wire is "stream.seq".
//
// In a fleet, a client may ask another replica for the events after an event. Then the form is
// "term-stream.seq" from the second replica of the session on, and ".request" with the id of the
// stream's request in base64url follows, so that a replica without the stream can answer the
// request.
type eventID struct {
	stream, seq uint64
	term        uint64 // how many replicas had had the session; 0 and 1 are the same
	request     string // raw; "" for none
}

// maxNamed is the largest id of a request in an event ID, in bytes.
const maxNamed = 64

func (id eventID) append(b []byte) []byte {
	if id.term > 1 {
		b = append(strconv.AppendUint(b, id.term, 10), '-')
	}
	b = strconv.AppendUint(b, id.stream, 10)
	b = strconv.AppendUint(append(b, '.'), id.seq, 10)
	if id.request != "" {
		b = base64.RawURLEncoding.AppendEncode(append(b, '.'), []byte(id.request))
	}
	return b
}

// parseEventID parses an id. Only the form that append writes is accepted.
func parseEventID(s string) (id eventID, ok bool) {
	rest := s
	id.term = 1
	var err1, err2, err3, err4 error
	if term, after, found := strings.Cut(s, "-"); found && !strings.Contains(term, ".") {
		id.term, err1 = strconv.ParseUint(term, 10, 64)
		rest = after
	}
	parts := strings.SplitN(rest, ".", 3)
	if len(parts) < 2 {
		return eventID{}, false
	}
	id.stream, err2 = strconv.ParseUint(parts[0], 10, 64)
	id.seq, err3 = strconv.ParseUint(parts[1], 10, 64)
	if len(parts) == 3 {
		var request []byte
		request, err4 = base64.RawURLEncoding.DecodeString(parts[2])
		id.request = string(request)
	}
	return id, errors.Join(err1, err2, err3, err4) == nil && len(id.request) <= maxNamed && string(id.append(nil)) == s
}

// appendHead appends the beginning of a message's event, with the event's id if the stream can be
// resumed. The message (oneLine) and eventEnd follow.
func appendHead(b []byte, id eventID, resumable bool) []byte {
	if resumable {
		b = append(id.append(append(b, "id: "...)), '\n')
	}
	return append(b, "event: message\ndata: "...)
}

const eventEnd = "\n\n"

// keepAlive is a comment, which clients ignore.
const keepAlive = ": keep-alive\n\n"

// appendPrime appends an event without data. The event gives the client an id for resuming the
// stream, and the time to wait before resuming, in milliseconds (2025-11-25, basic/transports,
// "Sending Messages to the Server"). If the stream cannot be resumed, the event gives only the
// time.
func appendPrime(b []byte, id eventID, resumable bool) []byte {
	if !resumable {
		return append(b, "retry: 1000\n\n"...)
	}
	b = id.append(append(b, "id: "...))
	return append(b, "\nretry: 1000\ndata: \n\n"...)
}

// oneLine returns msg, or a copy with the line breaks between tokens replaced by spaces. The
// replacement changes no JSON value.
func oneLine(msg []byte) []byte {
	if bytes.IndexByte(msg, '\n') < 0 && bytes.IndexByte(msg, '\r') < 0 {
		return msg
	}
	line := bytes.Clone(msg)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
		}
	}
	return line
}

// maxWrite is the maximum number of bytes written under the same deadline.
const maxWrite = 256 << 10

// eventSink writes server-sent events to a client. All but abort are for the goroutine of
// the HTTP request.
type eventSink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     []byte

	mu       sync.Mutex
	aborted  bool
	finished bool // the HTTP request has been served: the connection may serve another request
}

func newEventSink(w http.ResponseWriter) *eventSink {
	return &eventSink{w: w, control: http.NewResponseController(w)}
}

// begin writes the header of the response and flushes it.
func (e *eventSink) begin() error {
	e.writeHeader()
	return e.flush()
}

func (e *eventSink) writeHeader() {
	h := e.w.Header()
	h["Content-Type"] = eventStreamType
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"} // for nginx
	e.w.WriteHeader(http.StatusOK)
}

func (e *eventSink) writeKeepAlive() error {
	if err := e.write([]byte(keepAlive)); err != nil {
		return err
	}
	return e.flush()
}

// writeEvent writes the event of a message, with the event's id if the stream can be resumed. Small
// events are written in a single piece.
func (e *eventSink) writeEvent(id eventID, msg []byte, resumable bool) error {
	e.buf = appendHead(e.buf[:0], id, resumable)
	msg = oneLine(msg)
	if len(msg) <= maxWrite {
		e.buf = append(e.buf, msg...)
		e.buf = append(e.buf, eventEnd...)
		return e.write(e.buf)
	}
	if err := e.write(e.buf); err != nil {
		return err
	}
	for len(msg) > 0 {
		part := msg[:min(len(msg), maxWrite)]
		if err := e.write(part); err != nil {
			return err
		}
		msg = msg[len(part):]
	}
	return e.write([]byte(eventEnd))
}

func (e *eventSink) write(b []byte) error {
	e.extendDeadline()
	_, err := e.w.Write(b)
	return err
}

func (e *eventSink) flush() error {
	e.extendDeadline()
	return e.control.Flush()
}

// extendDeadline gives the client time for the next write. If the http.ResponseWriter has no
// deadlines, the server's deadlines apply.
func (e *eventSink) extendDeadline() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.aborted {
		_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
}

// abort fails the current write and all later ones.
func (e *eventSink) abort() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished {
		return
	}
	e.aborted = true
	_ = e.control.SetWriteDeadline(time.Now())
}

// finish is called when the HTTP request has been served.
func (e *eventSink) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished = true
}

// eventWriter writes the messages of a stream to the client as server-sent events, in the goroutine
// of the client's HTTP request.
type eventWriter struct {
	*eventSink
	stream    *stream
	resumable bool          // events have ids
	seq       uint64        // of the last written event
	replaced  chan struct{} // closed when the client has resumed the stream elsewhere
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{eventSink: newEventSink(w), replaced: make(chan struct{})}
}

// begin writes the header of the response and flushes the header, so that the client knows of the
// open stream.
func (e *eventWriter) begin(prime bool) error {
	e.writeHeader()
	if prime {
		if err := e.write(appendPrime(nil, e.id(e.seq), e.resumable)); err != nil {
			return err
		}
	}
	return e.flush()
}

// run writes messages until the stream is finished, another eventWriter has replaced e (the error
// is nil in both cases), or the client has disconnected.
func (e *eventWriter) run(ctx context.Context) error {
	alive := time.NewTicker(e.stream.session.handler.opts.KeepAlive)
	defer alive.Stop()
	batch := make([][]byte, 32)
	for {
		n, over := e.stream.next(e, batch)
		if over {
			return nil
		}
		if n > 0 {
			if err := e.writeEvents(batch[:n]); err != nil {
				return err
			}
			continue
		}
		select {
		case <-e.stream.wake:
		case <-alive.C:
			if err := e.writeKeepAlive(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.replaced:
			return nil
		}
	}
}

func (e *eventWriter) writeEvents(batch [][]byte) error {
	for i, msg := range batch {
		batch[i] = nil
		if err := e.writeEvent(e.id(e.seq+1), msg, e.resumable); err != nil {
			return err
		}
		e.seq++
	}
	if err := e.flush(); err != nil {
		return err
	}
	e.stream.written(e)
	return nil
}

// id returns the id of the event with a sequence number.
func (e *eventWriter) id(seq uint64) eventID {
	return eventID{e.stream.id, seq, e.stream.session.term, e.stream.request}
}
