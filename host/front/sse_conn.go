package front

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// conn takes the messages of a stream to the client, as server-sent events. It
// is run by the goroutine of its HTTP request.
type conn struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	stream   *stream
	lasting  bool          // events have ids
	place    uint64        // of the last event the client has
	replaced chan struct{} // closed when the client has come back on another one
	buf      []byte

	mu      sync.Mutex
	aborted bool
}

func newConn(w http.ResponseWriter) *conn {
	return &conn{w: w, control: http.NewResponseController(w), replaced: make(chan struct{})}
}

// maxWrite is the most bytes that are written under one deadline.
const maxWrite = 256 << 10

// begin writes the header of the response, and flushes it: the client must know
// that it is heard.
func (c *conn) begin(prime bool) error {
	h := c.w.Header()
	h["Content-Type"] = eventStreamType
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"} // for nginx
	c.w.WriteHeader(http.StatusOK)
	if prime {
		if err := c.write(appendPrime(nil, eventID{c.stream.no, c.place}, c.lasting)); err != nil {
			return err
		}
	}
	return c.flush()
}

// run delivers until the stream is over (then err is nil), the client has gone,
// or it has come back on another connection.
func (c *conn) run(ctx context.Context) error {
	alive := time.NewTicker(c.stream.visit.http.opts.KeepAlive)
	defer alive.Stop()
	batch := make([][]byte, 32)
	for {
		n, over := c.stream.next(c, batch)
		if over {
			return nil
		}
		if n > 0 {
			if err := c.deliver(batch[:n]); err != nil {
				return err
			}
			continue
		}
		select {
		case <-c.stream.wake:
		case <-alive.C:
			if err := c.comment(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.replaced:
			return nil
		}
	}
}

func (c *conn) comment() error {
	if err := c.write([]byte(keepAlive)); err != nil {
		return err
	}
	return c.flush()
}

func (c *conn) deliver(batch [][]byte) error {
	for i, msg := range batch {
		batch[i] = nil
		if err := c.event(eventID{c.stream.no, c.place + 1}, msg); err != nil {
			return err
		}
		c.place++
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.stream.delivered(c)
	return nil
}

// event writes a message. Small ones go out in one piece.
func (c *conn) event(id eventID, msg []byte) error {
	c.buf = appendHead(c.buf[:0], id, c.lasting)
	msg = oneLine(msg)
	if len(msg) <= maxWrite {
		c.buf = append(c.buf, msg...)
		c.buf = append(c.buf, eventEnd...)
		return c.write(c.buf)
	}
	if err := c.write(c.buf); err != nil {
		return err
	}
	for len(msg) > 0 {
		part := msg[:min(len(msg), maxWrite)]
		if err := c.write(part); err != nil {
			return err
		}
		msg = msg[len(part):]
	}
	return c.write([]byte(eventEnd))
}

func (c *conn) write(b []byte) error {
	c.extend()
	_, err := c.w.Write(b)
	return err
}

func (c *conn) flush() error {
	c.extend()
	return c.control.Flush()
}

// extend gives the client time to take what is written next. Not every
// http.ResponseWriter has deadlines; then the server's own have to do.
func (c *conn) extend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.aborted {
		_ = c.control.SetWriteDeadline(time.Now().Add(writeStall))
	}
}

// abort fails a write that is under way, and all later ones.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	_ = c.control.SetWriteDeadline(time.Now())
}
