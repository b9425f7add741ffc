package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// postPatience is how long the next message waits for a server that has not
// responded to the one before.
const postPatience = 200 * time.Millisecond

// sseLink is the link to a server over HTTP with SSE (revision 2024-11-05,
// basic/transports): one stream of events with all that the server says, and a
// POST for each message of ours. So it is a Conn, with events and posts in the
// place of lines.
type sseLink struct {
	*Conn
	client *httpclient.Client
	stream *sseStream
}

func dialSSE(ctx context.Context, spec Spec, opts linkOptions) (link, error) {
	client, err := spec.client()
	if err != nil {
		return nil, err
	}
	s := &sseStream{client: client, log: opts.log, ready: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	err = s.open(spec.MaxMessage)
	if !stop() && err == nil {
		s.finish()
		err = context.Cause(ctx)
	}
	if err != nil {
		s.cancel(err)
		client.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	l := &sseLink{client: client, stream: s}
	l.Conn = newConn(s, s, ConnOptions{
		Name:           spec.Name,
		MaxMessage:     spec.MaxMessage,
		Budget:         opts.budget,
		OnNotification: opts.onNotification,
		OnRequest:      opts.onRequest,
		OnGarbage:      opts.onGarbage,
		allowance:      opts.allowance,
		serialIDs:      opts.serialIDs,
		describe:       s.describe,
	}, opts.log)
	s.conn = l.Conn
	close(s.ready)
	return l, nil
}

func (l *sseLink) negotiated(revision protocol.Revision) {
	l.client.SetRevision(revision)
	l.Conn.negotiated(revision)
}

func (l *sseLink) pid() int             { return 0 }
func (l *sseLink) stderrTail() []string { return nil }

// shutDown ends the stream, which ends the session.
func (l *sseLink) shutDown(time.Duration, <-chan struct{}) {
	l.Conn.Close()
	l.stream.wg.Wait()
	l.client.Close()
}

// sseStream makes lines of events, and posts of lines.
type sseStream struct {
	client *httpclient.Client
	log    *slog.Logger
	ctx    context.Context // ends with the stream
	cancel context.CancelCauseFunc
	conn   *Conn         // set before ready is closed
	ready  chan struct{} // closed when the stream may be read
	wg     sync.WaitGroup

	// Of the goroutine that reads:
	body   io.ReadCloser
	events *eventReader
	line   []byte // what is left of the current one
}

// open opens the stream and reads as far as the event endpoint.
func (s *sseStream) open(max int) error {
	resp, err := s.client.Do(s.ctx, http.MethodGet, nil, "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("its event stream does not open: %w", httpclient.NewStatusError(resp))
	}
	if t := httpclient.ContentType(resp.Header); t != httpclient.ContentEvents {
		resp.Body.Close()
		return fmt.Errorf("its event stream does not open: the content type is %q, not %s", clip(t), httpclient.ContentEvents)
	}
	s.body, s.events = resp.Body, newEventReader(resp.Body, max)
	for {
		ev, err := s.events.next()
		if err != nil {
			s.finish()
			return fmt.Errorf("its event stream does not begin with the event endpoint: %w", err)
		}
		if ev.name != "endpoint" {
			continue
		}
		if err := s.setEndpoint(string(ev.data)); err != nil {
			s.finish()
			return err
		}
		return nil
	}
}

// setEndpoint sets where messages are posted. Only in the origin of the
// stream, because credentials go with them.
func (s *sseStream) setEndpoint(ref string) error {
	from := s.client.URL()
	to, err := from.Parse(ref)
	if err != nil {
		return errors.New("its event endpoint has no usable URL")
	}
	if !httpclient.SameOrigin(from, to) {
		shown := url.URL{Scheme: to.Scheme, Host: to.Host}
		return fmt.Errorf("its event endpoint names another server, %s, which is not followed", clip(shown.String()))
	}
	s.client.SetEndpoint(to)
	return nil
}

// finish closes the stream. Only its reader does that.
func (s *sseStream) finish() {
	s.cancel(io.EOF)
	s.body.Close()
	s.events.release()
}

// Read reads the messages, each one on a line.
func (s *sseStream) Read(p []byte) (int, error) {
	<-s.ready
	if s.events != nil {
		s.events.unasked = s.conn.unasked
	}
	for len(s.line) == 0 {
		if s.ctx.Err() != nil {
			return 0, s.end(context.Cause(s.ctx))
		}
		ev, err := s.events.next()
		var large *wire.TooLargeError
		switch {
		case errors.As(err, &large):
			s.conn.rpc.Oversized(ev.long, large, s.conn.out) // this is its read loop
		case err != nil:
			return 0, s.end(err)
		case ev.name == "" || ev.name == "message":
			if s.line = oneLine(ev.data); s.line == nil {
				s.conn.unasked(len(ev.data))
			}
		default:
			s.conn.unasked(len(ev.data))
		}
	}
	n := copy(p, s.line)
	s.line = s.line[n:]
	return n, nil
}

// end ends the reading for good.
func (s *sseStream) end(err error) error {
	if s.body != nil {
		s.finish()
		s.body = nil
	}
	return err
}

// oneLine is data as a line; line breaks between tokens become spaces.
func oneLine(data []byte) []byte {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	for i, c := range data {
		if c == '\n' || c == '\r' {
			data[i] = ' '
		}
	}
	return append(data, '\n')
}

// Close ends the stream in both directions; its reader closes it.
func (s *sseStream) Close() error {
	s.cancel(wire.ErrClosed)
	return nil
}

func (s *sseStream) describe(err error) string {
	if errors.Is(err, io.EOF) {
		return "it ended its event stream"
	}
	return "its event stream broke off: " + clip(err.Error())
}

// Write posts messages, each one a line.
func (s *sseStream) Write(lines []byte) (n int, err error) {
	for line := range bytes.Lines(lines) {
		if err := s.send(bytes.Clone(bytes.TrimSpace(line))); err != nil {
			return n, err
		}
		n += len(line)
	}
	return n, nil
}

// send posts one message. It waits until the server has taken it, so that
// messages arrive in order, but not long: some servers respond only when they
// have done what it says, and may need another message of ours for that.
func (s *sseStream) send(body []byte) error {
	posted := make(chan error, 1)
	s.wg.Go(func() { posted <- s.post(body) })
	t := time.NewTimer(postPatience)
	defer t.Stop()
	select {
	case err := <-posted:
		return err
	case <-t.C:
		return nil
	}
}

// post posts one message. What goes wrong with it is told to the call that it
// belongs to, and is the end of the stream, and an error, only if the session is
// at an end.
func (s *sseStream) post(body []byte) error {
	resp, err := s.client.Do(s.ctx, http.MethodPost, body, "", nil)
	if err == nil && resp.StatusCode/100 == 2 {
		httpclient.Discard(resp.Body)
		return nil
	}
	if s.ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return context.Cause(s.ctx)
	}
	var status *httpclient.StatusError
	if err == nil {
		status = httpclient.NewStatusError(resp)
		err = status
	}
	s.failed(body, err)
	gone := status != nil && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
	if !gone && !httpclient.NotDialed(err) {
		return nil
	}
	s.cancel(err)
	return err
}

// failed tells the call of a message that it could not be posted.
func (s *sseStream) failed(body []byte, err error) {
	m, _ := wire.Parse(body)
	id, ok := ownID(m.ID)
	if !m.IsRequest() || !ok {
		s.log.Warn("message not taken by the server", "method", clip(m.Method), "err", clip(err.Error()))
		return
	}
	var status *httpclient.StatusError
	var auth *httpclient.AuthError
	down := &DownError{Upstream: s.client.Config().Name, Err: err}
	switch {
	case errors.As(err, &status) && status.Status != http.StatusNotFound && status.Status != http.StatusGone:
		s.conn.rpc.FailUnusable(id, err)
		return
	case status != nil:
		down.Reason, down.unsent = "it has forgotten our session", true
	case errors.As(err, &auth):
		down.Reason = auth.Error()
	case httpclient.NotDialed(err):
		down.Reason, down.unsent = "it cannot be reached: "+clip(err.Error()), true
	default:
		down.Reason = "the request could not be posted: " + clip(err.Error())
	}
	s.conn.rpc.Fail(id, down, false)
}
