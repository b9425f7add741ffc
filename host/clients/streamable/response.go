package streamable

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// response is the rpc.Stream of a request of the stateless era: the messages to the client for the
// request, which cannot be resumed. A response takes every message at once, and keeps the message
// until the goroutine of the HTTP request has written the message.
type response struct {
	envelope envelope.Envelope // of the request
	buffer   int               // see Options.Buffer
	sink     *eventSink
	memory   *budget.Account // of the principal
	wake     chan struct{}   // holds a token while something new waits

	mu       sync.Mutex // guards the fields below; a leaf
	messages [][]byte
	inline   [1][]byte
	waiting  int   // bytes of messages
	largest  int   // bytes of the largest message since none was waiting
	taken    int   // how many messages have been passed on
	closed   bool  // no message follows
	counted  int   // bytes of messages counted in memory
	over     bool  // too much was waiting
	full     error // the error of a message without memory, or nil
	lacked   bool  // see LacksMethod
}

func newResponse(w http.ResponseWriter, e envelope.Envelope, buffer int, memory *budget.Account) *response {
	out := &response{envelope: e, buffer: buffer, sink: newEventSink(w), memory: memory, wake: make(chan struct{}, 1)}
	out.messages = out.inline[:0]
	return out
}

// TrySend implements rpc.Stream.
func (s *response) TrySend(f rpc.Frame) bool { return s.add(f, false) }

// Send implements rpc.Stream.
func (s *response) Send(_ context.Context, f rpc.Frame) error { return s.Push(f) }

// Push implements rpc.Stream.
func (s *response) Push(f rpc.Frame) error {
	if !s.add(f, false) {
		return rpc.ErrFinished
	}
	return nil
}

// Withdraw implements rpc.Stream.
func (s *response) Withdraw(int64) bool { return false }

// Finish implements rpc.Stream.
func (s *response) Finish(f rpc.Frame) { s.add(f, true) }

// LacksMethod implements stateless.MethodStream.
func (s *response) LacksMethod() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lacked = true
}

// add adds a message, or none if msg is nil. last marks the last message. add returns false if the
// response is finished.
func (s *response) add(f rpc.Frame, last bool) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		if last {
			f.Done(rpc.Unsent, rpc.ErrFinished)
		}
		return false
	}
	// A single message of any size fits into the buffer.
	if s.waiting-s.largest > s.buffer {
		s.over = true
	}
	msg := f.Data
	if msg != nil && !s.over && s.full == nil {
		msg, s.full = afford(s.memory, msg, last)
	}
	if msg != nil && !s.over && s.full == nil {
		if s.waiting == 0 {
			s.largest = 0
		}
		s.largest = max(s.largest, len(msg))
		s.waiting += len(msg)
		s.counted += len(msg)
		s.messages = append(s.messages, msg)
	}
	s.closed = last
	lost := s.lost()
	s.mu.Unlock()
	if lost != nil {
		s.sink.abort()
		f.Done(rpc.Unsent, lost)
	} else {
		f.Done(rpc.Written, nil)
	}
	s.signal()
	return true
}

func (s *response) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // wake holds a token already
	}
}

// only returns the only message of a finished response, and the HTTP status for the message; ok is
// false for several messages, or none yet.
func (s *response) only() (msg []byte, status int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed || len(s.messages) != 1 || s.taken > 0 {
		return nil, 0, false
	}
	return s.messages[0], statusOf(s.messages[0], s.lacked), true
}

// next takes the waiting messages. ended means: no further messages follow.
func (s *response) next() (messages [][]byte, ended bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages, s.messages = s.messages, nil
	s.taken += len(messages)
	s.waiting = 0
	return messages, s.closed, s.lost()
}

// lost returns why messages were not kept; nil if all were. The caller holds s.mu.
func (s *response) lost() error {
	if s.over {
		return errOverflow
	}
	return s.full
}

// written records written messages.
func (s *response) written(messages [][]byte) {
	n := 0
	for _, msg := range messages {
		n += len(msg)
	}
	s.mu.Lock()
	s.counted -= n
	s.mu.Unlock()
	s.memory.Sub(n)
}

// release ends the counting of unwritten messages. No message is added afterwards.
func (s *response) release() {
	s.mu.Lock()
	n := s.counted
	s.counted, s.closed, s.messages = 0, true, nil
	s.mu.Unlock()
	s.memory.Sub(n)
}

// write writes the response to the client: as a JSON body if the answer is the only message, else
// as an event stream. The error says that the client has disconnected or does not read.
func (s *response) write(w http.ResponseWriter, r *http.Request, timers *sync.Pool, keepAlive time.Duration) error {
	timer := timers.Get().(*time.Timer)
	timer.Reset(keepAlive / 2)
	select {
	case <-s.wake:
	case <-timer.C:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	timer.Stop()
	timers.Put(timer)
	if msg, status, ok := s.only(); ok {
		if status != http.StatusOK || !prefersEvents(r) {
			if len(msg) > maxWrite { // a small message fits in the kernel's buffers
				s.sink.extendDeadline()
			}
			writeJSON(w, status, msg)
			return nil
		}
	}
	return s.stream(r.Context(), keepAlive)
}

// stream writes the response as an event stream.
func (s *response) stream(ctx context.Context, every time.Duration) error {
	if err := s.sink.begin(); err != nil {
		return err
	}
	alive := time.NewTicker(every)
	defer alive.Stop()
	for {
		messages, ended, err := s.next()
		for _, msg := range messages {
			if err == nil {
				err = s.sink.writeEvent(eventID{}, msg, false)
			}
		}
		if len(messages) > 0 && err == nil {
			err = s.sink.flush()
		}
		s.written(messages)
		if ended || err != nil {
			return err
		}
		select {
		case <-s.wake:
		case <-alive.C:
			err = s.sink.writeKeepAlive()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// statusOf returns the HTTP status for an answer. lacked is the result of stateless.Status.
func statusOf(msg []byte, lacked bool) int {
	raw, ok := wire.Get(msg, "error", "code")
	if !ok {
		return http.StatusOK
	}
	code, _ := strconv.Atoi(string(raw)) // 0 if raw is not a number
	return stateless.Status(code, lacked)
}
