package legacysse

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// postWait is how long a message waits for the server's response to the previous message, and a
// cancellation for the response to the call.
const postWait = 200 * time.Millisecond

// poster posts the written messages, each on a line.
type poster struct{ link *Link }

// Write implements io.Writer.
func (p poster) Write(lines []byte) (n int, err error) {
	for line := range bytes.Lines(lines) {
		if body := bytes.TrimSpace(line); len(body) > 0 { // the end of a large message comes by itself
			if err := p.link.send(bytes.Clone(body)); err != nil {
				return n, err
			}
		}
		n += len(line)
	}
	return n, nil
}

// Close ends the stream in both directions.
func (p poster) Close() error {
	p.link.cancel(wire.ErrClosed)
	return nil
}

// send posts a message. send waits until the server has accepted the message, so that messages
// arrive in order, but for postWait at most: some servers respond only after carrying out the
// message, and may need another message of ours before.
func (l *Link) send(body []byte) error {
	posted := make(chan error, 1)
	call, cancelled := l.follow(body)
	l.posts.Go(func() {
		cancelled.settle()
		posted <- l.post(call.ctx, body)
		l.forget(call)
	})
	t := time.NewTimer(postWait)
	defer t.Stop()
	select {
	case err := <-posted:
		return err
	case <-t.C:
		return nil
	}
}

// posting is a request being posted, or another message without an id.
type posting struct {
	id     string // raw; "" for a message other than a request
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the server has responded, or the POST has failed
}

// follow returns the posting of a message. If the message cancels a call with a POST that has no
// response yet, follow also returns the posting of the call; otherwise nil.
func (l *Link) follow(body []byte) (p, cancelled *posting) {
	m, _ := wire.Parse(body)
	p = &posting{ctx: l.ctx, cancel: func() {}}
	switch {
	case m.IsRequest():
		p.id, p.done = string(m.ID), make(chan struct{})
		p.ctx, p.cancel = context.WithCancel(l.ctx)
		l.mu.Lock()
		l.calls[p.id] = p
		l.mu.Unlock()
	case m.Method == protocol.NotificationCancelled:
		id, _ := wire.Get(m.Params, "requestId")
		l.mu.Lock()
		cancelled = l.calls[string(id)]
		l.mu.Unlock()
	}
	return p, cancelled
}

// forget ends the following of a message, whether posted or not.
func (l *Link) forget(p *posting) {
	p.cancel()
	if p.id == "" {
		return
	}
	l.mu.Lock()
	delete(l.calls, p.id)
	l.mu.Unlock()
	close(p.done)
}

// settle waits until a cancelled call can no longer reach the server after the cancellation, which
// takes another connection: until the server has responded to the call's POST, or the POST was
// aborted after postWait. A server ignores the cancellation of an unknown call, and would work on
// in vain. A nil posting is no call.
func (p *posting) settle() {
	if p == nil {
		return
	}
	t := time.NewTimer(postWait)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		p.cancel()
		<-p.done
	}
}

// post posts a message, until ctx ends. A failure ends the message's call. If the session has
// ended, or the server is unreachable, the failure also ends the stream and is returned.
func (l *Link) post(ctx context.Context, body []byte) error {
	resp, err := l.client.Do(ctx, http.MethodPost, body, "", nil)
	if err == nil && resp.StatusCode/100 == 2 {
		httpclient.Discard(resp.Body)
		return nil
	}
	if ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return context.Cause(l.ctx) // nil if only this message was aborted
	}
	var status *httpclient.StatusError
	if err == nil {
		status = httpclient.NewStatusError(resp)
		err = status
	}
	l.fail(body, status, err)
	if !sessionLost(status) && !httpclient.NotDialed(err) {
		return nil
	}
	l.cancel(err)
	return err
}

// sessionLost reports whether a status means that the server has forgotten our session.
func sessionLost(status *httpclient.StatusError) bool {
	return status != nil && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// fail ends the call of a message that could not be posted. status is the status of the response;
// nil without a response.
func (l *Link) fail(body []byte, status *httpclient.StatusError, err error) {
	m, _ := wire.Parse(body)
	id, bad := strconv.ParseInt(string(m.ID), 10, 64)
	if !m.IsRequest() || bad != nil {
		l.log().Warn("message not accepted by the server", "method", link.Excerpt(m.Method), "err", link.Excerpt(err.Error()))
		return
	}
	var auth *httpclient.AuthError
	reason, unsent := "", false
	switch {
	case sessionLost(status):
		reason, unsent = "it has forgotten our session", true
	case status != nil:
		l.rpc.FailUnusable(id, err)
		return
	case errors.As(err, &auth):
		reason = auth.Error()
	case httpclient.NotDialed(err):
		reason, unsent = "it cannot be reached: "+link.Excerpt(err.Error()), true
	default:
		reason = "the request could not be posted: " + link.Excerpt(err.Error())
	}
	l.rpc.Fail(id, l.opts.Errors.Down(reason, err), unsent)
}

func (l *Link) log() *slog.Logger {
	if l.opts.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.opts.Log
}
