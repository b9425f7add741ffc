package streamable

import (
	"context"
	"net/http"
	"time"
)

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
