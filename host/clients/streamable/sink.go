package streamable

import (
	"net/http"
	"sync"
	"time"
)

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
