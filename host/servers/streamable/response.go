package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// lingerTime is how long a stream is read after the answer, so that the server can end the stream
// and the connection can be reused.
const lingerTime = 2 * time.Second

// stream is the body of a response with a stream of events.
type stream struct {
	body   io.ReadCloser
	events *wire.EventReader
}

func (s *stream) close() {
	s.body.Close()
	s.events.Release()
}

// receive reads a response until the call has an outcome. rest is not nil if more may follow in the
// stream.
func (p *post) receive(resp *http.Response) (rest *stream) {
	if p.method == protocol.MethodInitialize && succeeded(resp.StatusCode) {
		if err := p.link.client.SetSession(resp.Header); err != nil {
			resp.Body.Close()
			p.failUnusable(err)
			return nil
		}
	}
	switch {
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		httpclient.Discard(resp.Body)
		p.awaitOtherStream(resp.StatusCode)
		return nil
	case !succeeded(resp.StatusCode):
		p.refused(resp)
		return nil
	}
	switch t := httpclient.ContentType(resp.Header); t {
	case httpclient.ContentJSON, "":
		p.single(resp)
		return nil
	case httpclient.ContentEvents:
		return p.follow(resp)
	default:
		resp.Body.Close()
		p.failUnusable(fmt.Errorf("its content type is %q, neither %s nor %s", link.Excerpt(t), httpclient.ContentJSON, httpclient.ContentEvents))
		return nil
	}
}

// succeeded reports whether a status is the status of an answer. Some servers answer with another
// status than 200, for example 201.
func succeeded(status int) bool { return status/100 == 2 }

// awaitOtherStream waits for an answer on the GET stream. Some servers answer on the GET stream,
// although the specification does not allow this.
func (p *post) awaitOtherStream(status int) {
	if !p.anyStream {
		p.failUnusable(statusError(status, nil))
		return
	}
	select {
	case <-p.outcome():
	case <-p.ctx.Done():
	}
}

// single reads an answer in a single JSON document.
func (p *post) single(resp *http.Response) {
	body, err := p.link.readAll(resp)
	var large *wire.TooLargeError
	switch {
	case errors.As(err, &large):
		p.link.rpc.Oversized(rpc.Excerpt{Head: body}, large, p)
		p.failUnusable(err)
	case err != nil:
		p.fail(err)
	case p.suspectError(body):
	default:
		p.link.rpc.Receive(document(body), p)
		if !p.over() {
			p.failUnusable(errors.New("the response has no answer"))
		}
	}
}

// document returns the message in a body. Some servers write a byte order mark before the message,
// or an array around the message, also in revisions without batches.
func document(body []byte) []byte {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	if items, ok, err := wire.Split(body); ok && err == nil && len(items) == 1 {
		return items[0]
	}
	return body
}

// readAll reads and closes a body with a message. With a *wire.TooLargeError readAll returns the
// beginning of the body.
func (l *Link) readAll(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if n := resp.ContentLength; n > int64(l.opts.MaxMessage) {
		head := make([]byte, rpc.MaxExcerpt)
		n, err := io.ReadFull(resp.Body, head)
		if err != nil {
			return nil, err
		}
		return head[:n], &wire.TooLargeError{Limit: l.opts.MaxMessage}
	}
	return l.opts.ReadBudget(resp.Request.Context()).ReadAll(resp.Body, resp.ContentLength, l.opts.MaxMessage, rpc.MaxExcerpt)
}

// refused reads a response that is not a success. If the response contains a JSON-RPC error, the
// error is the answer.
func (p *post) refused(resp *http.Response) {
	l := p.link
	body, err := l.readAll(resp)
	var large *wire.TooLargeError
	if err != nil && !errors.As(err, &large) {
		p.fail(err)
		return
	}
	body = document(body)
	m, err := wire.ParseRepaired(body)
	answers := rpc.IsErrorFor(body, p.frame.ID) || len(m.ID) > 0 && m.ID[0] == '"' && m.Error != nil // the Python SDK uses the id "server-error"
	if errors.Is(err, wire.ErrAmbiguous) {
		answers = false
	}
	own := answers && string(m.ID) == fmt.Sprint(p.frame.ID)
	switch {
	case p.method == protocol.MethodDiscover && inconclusive(resp.StatusCode): // whatever the body is
		p.failUnusable(statusError(resp.StatusCode, body))
	case mayBeLost(resp.StatusCode) && (own || resp.StatusCode != http.StatusBadRequest) && p.suspect(statusError(resp.StatusCode, body).Error()):
	case own && (resp.StatusCode != http.StatusNotFound || wire.ParseError(m.Error).Code == wire.CodeMethodNotFound):
		l.rpc.Answer(p.frame.ID, wire.Reply{Error: m.Error}, p)
	case l.lostSession(resp.StatusCode), resp.StatusCode == http.StatusBadRequest && !p.sessionKnown():
		p.loseSession()
	case answers:
		l.rpc.Answer(p.frame.ID, wire.Reply{Error: m.Error}, p)
	default:
		p.failUnusable(statusError(resp.StatusCode, body))
	}
}

func statusError(status int, body []byte) *httpclient.StatusError {
	return &httpclient.StatusError{Status: status, Body: link.Excerpt(string(body[:min(len(body), httpclient.MaxErrorBody)]))}
}

// inconclusive reports whether a status comes from a gateway in front of the server, or from a
// server that does not work, so that the response says nothing about the server's features.
func inconclusive(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status/100 == 5
}

// follow reads the answer from a stream of events, and resumes a broken stream if possible
// (revision 2025-11-25, basic/transports; SEP-1699).
func (p *post) follow(resp *http.Response) (rest *stream) {
	l := p.link
	at := cursor{retry: -1}
	for {
		s := l.open(p.ctx, resp, at.id)
		err := p.await(s)
		if err == nil {
			l.suspicions.Store(0)
			return s
		}
		at.update(s.events, false, err)
		s.close()
		switch {
		case p.ctx.Err() != nil:
			return nil
		case (at.id == "" || p.stateless()) && errors.Is(err, io.EOF): // the regular end of the stream
			p.failUnusable(errors.New("the stream of the request ended before the answer"))
			return nil
		case at.id == "" || p.stateless():
			l.rpc.Fail(p.frame.ID, l.opts.Errors.Down("the stream of the request ended before the answer", err), false)
			return nil
		}
		if resp = p.resume(&at); resp == nil {
			return nil
		}
	}
}

// open makes a stream of a response. after is the id of the last event before the response.
func (l *Link) open(ctx context.Context, resp *http.Response, after string) *stream {
	s := &stream{body: resp.Body, events: wire.NewEventReader(resp.Body, l.opts.MaxMessage).After(after).WithBudget(l.opts.ReadBudget(ctx))}
	s.events.Wasted = l.charge
	return s
}

// await reads events until the call has an outcome. Without an outcome, err is the reason for the
// end of the stream.
func (p *post) await(s *stream) error {
	for !p.over() {
		if err := p.link.next(s, p); err != nil {
			return err
		}
	}
	return nil
}

// next reads an event of s and passes the event to the connection, as from the stream on.
func (l *Link) next(s *stream, on rpc.Stream) error {
	ev, err := s.events.Next()
	var large *wire.TooLargeError
	switch {
	case errors.As(err, &large):
		l.rpc.Oversized(rpc.Excerpt{Head: ev.Head, Tail: ev.Tail}, large, on)
	case err != nil:
		return err
	case len(ev.Data) == 0 || ev.Name != "" && ev.Name != "message":
		l.charge(len(ev.Data))
	default:
		l.rpc.Receive(ev.Data, on)
	}
	return nil
}

// drain reads the server's messages after the answer, for lingerTime at most.
func (s *stream) drain(p *post) {
	defer s.close()
	defer time.AfterFunc(lingerTime, p.cancel).Stop()
	for p.link.next(s, p) == nil {
	}
}

const (
	// defaultRetry is the delay before a stream is resumed if the server has set no delay; minRetry
	// is the shortest delay that the server can set.
	defaultRetry = 250 * time.Millisecond
	minRetry     = 10 * time.Millisecond
	// maxRetry bounds the delay, which grows with failures.
	maxRetry = 30 * time.Second
	// maxResumes is how many attempts in a row to resume the stream of a call may fail.
	maxResumes = 5
)

// cursor says where and when a stream is resumed.
type cursor struct {
	id       string        // of the last event; "" for none
	retry    time.Duration // the delay set by the server; negative for none
	broken   bool          // the last stream broke off, so the server may be gone
	failures int           // to connect, in a row
	idle     int           // streams without any event, in a row
}

// update records the position of a reader after the end of the stream with err. received reports
// whether the stream had any event.
func (c *cursor) update(e *wire.EventReader, received bool, err error) {
	c.broken = !errors.Is(err, io.EOF)
	if string(e.LastID) != c.id {
		c.id = string(e.LastID)
		received = true
	}
	if e.Retry >= 0 {
		c.retry = e.Retry
	}
	c.idle++
	if received {
		c.idle = 0
	}
}

// wait waits for the delay set by the server, and longer after failures. wait returns false if ctx
// has ended.
func (c *cursor) wait(ctx context.Context) bool {
	d, tries := defaultRetry, c.failures+c.idle
	if c.retry >= 0 {
		d, tries = max(c.retry, minRetry), c.failures
	}
	if c.broken && c.retry < 0 && tries == 0 {
		d = minRetry // callers are waiting
	}
	if tries > 1 {
		d = min(max(d, maxRetry), d<<min(tries-1, 10))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// resume opens the stream of a call again. resume returns nil if the call has ended.
func (p *post) resume(at *cursor) *http.Response {
	l := p.link
	down := func(reason string) { l.rpc.Fail(p.frame.ID, l.opts.Errors.Down(reason, nil), false) }
	for at.failures = 0; ; at.failures++ {
		if at.failures == maxResumes {
			down(fmt.Sprintf("the stream of the request ended before the answer, and could not be resumed %d times", maxResumes))
			return nil
		}
		if !at.wait(p.ctx) {
			return nil
		}
		resp, err := l.client.Do(p.ctx, http.MethodGet, nil, at.id, nil)
		var auth *httpclient.AuthError
		switch {
		case p.ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return nil
		case errors.As(err, &auth):
			p.failAsSent(err)
			return nil
		case err != nil:
			if f := l.failure(err); f.ends {
				p.failAsSent(err)
				l.end(f.err, false)
				return nil
			}
			continue
		case resp.StatusCode == http.StatusOK && httpclient.ContentType(resp.Header) == httpclient.ContentEvents:
			return resp
		}
		status := httpclient.NewStatusError(resp)
		switch {
		case l.lostSession(status.Status):
			down("it has forgotten our session before the answer came")
			l.loseSession()
			return nil
		case status.Status/100 != 5 && status.Status != http.StatusTooManyRequests:
			p.failUnusable(fmt.Errorf("the stream ended before it and cannot be resumed: %w", status))
			return nil
		}
	}
}

// failAsSent ends the call because of an error of another request. The request of
// the call itself was sent.
func (p *post) failAsSent(err error) { p.link.rpc.Fail(p.frame.ID, p.link.failure(err).err, false) }
