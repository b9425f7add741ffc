package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

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
