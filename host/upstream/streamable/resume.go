package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/sse"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
)

const (
	// usualRetry is the wait before a stream is resumed if the server has not
	// said one, and leastRetry the shortest one it can ask for.
	usualRetry = 250 * time.Millisecond
	leastRetry = 10 * time.Millisecond
	// mostRetry is the longest wait that grows with failures.
	mostRetry = 30 * time.Second
	// maxResumes is how often in a row resuming the stream of a call may fail.
	maxResumes = 5
)

// cursor is where a stream is to be resumed, and when.
type cursor struct {
	id       string        // of the last event; "" for none
	retry    time.Duration // asked for by the server; negative for none
	broken   bool          // the last stream broke off: its server may be gone
	failures int           // to connect, in a row
	idle     int           // streams without any event, in a row
}

// leave keeps where a reader is at the end of its stream, which ended with err.
// brought tells whether there was anything in it.
func (c *cursor) leave(e *sse.Reader, brought bool, err error) {
	c.broken = !errors.Is(err, io.EOF)
	if string(e.LastID) != c.id {
		c.id = string(e.LastID)
		brought = true
	}
	if e.Retry >= 0 {
		c.retry = e.Retry
	}
	c.idle++
	if brought {
		c.idle = 0
	}
}

// wait waits as long as the server asks for, and longer after failures. It tells
// whether ctx is still good.
func (c *cursor) wait(ctx context.Context) bool {
	d, tries := usualRetry, c.failures+c.idle
	if c.retry >= 0 {
		d, tries = max(c.retry, leastRetry), c.failures
	}
	if c.broken && c.retry < 0 && tries == 0 {
		d = leastRetry // callers wait to know
	}
	if tries > 1 {
		d = min(max(d, mostRetry), d<<min(tries-1, 10))
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

// resume opens the stream of a call again. It returns nil when the call is over.
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
			p.failSent(err)
			return nil
		case err != nil:
			if f := l.failure(err); f.ends {
				p.failSent(err)
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
			p.useless(fmt.Errorf("the stream ended before it and cannot be resumed: %w", status))
			return nil
		}
	}
}

// failSent ends the call, whose request was sent, because of an error of another
// request.
func (p *post) failSent(err error) { p.link.rpc.Fail(p.frame.ID, p.link.failure(err).err, false) }
