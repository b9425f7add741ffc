package streamable

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// eventWriter writes the messages of a stream to the client as server-sent events. The
// goroutine of its HTTP request runs it.
type eventWriter struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	stream    *stream
	resumable bool          // events have ids
	seq       uint64        // of the last event that was written
	replaced  chan struct{} // closed when the client has resumed the stream elsewhere
	buf       []byte

	mu      sync.Mutex
	aborted bool
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), replaced: make(chan struct{})}
}

// maxWrite is the maximum number of bytes that are written under one deadline.
const maxWrite = 256 << 10

// begin writes the header of the response and flushes it, so that the client knows
// that the stream is open.
func (e *eventWriter) begin(prime bool) error {
	h := e.w.Header()
	h["Content-Type"] = eventStreamType
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"} // for nginx
	e.w.WriteHeader(http.StatusOK)
	if prime {
		if err := e.write(appendPrime(nil, eventID{e.stream.id, e.seq}, e.resumable)); err != nil {
			return err
		}
	}
	return e.flush()
}

// run writes messages until the stream is finished, another eventWriter has replaced this
// one (the error is nil in both cases), or the client has disconnected.
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

func (e *eventWriter) writeKeepAlive() error {
	if err := e.write([]byte(keepAlive)); err != nil {
		return err
	}
	return e.flush()
}

func (e *eventWriter) writeEvents(batch [][]byte) error {
	for i, msg := range batch {
		batch[i] = nil
		if err := e.writeEvent(eventID{e.stream.id, e.seq + 1}, msg); err != nil {
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

// writeEvent writes the event of a message. Small ones are written in one piece.
func (e *eventWriter) writeEvent(id eventID, msg []byte) error {
	e.buf = appendHead(e.buf[:0], id, e.resumable)
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

func (e *eventWriter) write(b []byte) error {
	e.extendDeadline()
	_, err := e.w.Write(b)
	return err
}

func (e *eventWriter) flush() error {
	e.extendDeadline()
	return e.control.Flush()
}

// extendDeadline gives the client time to take what is written next. If the
// http.ResponseWriter has no deadlines, those of the server apply.
func (e *eventWriter) extendDeadline() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.aborted {
		_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
}

// abort fails the current write and all later ones.
func (e *eventWriter) abort() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aborted = true
	_ = e.control.SetWriteDeadline(time.Now())
}
