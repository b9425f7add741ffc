package legacysse

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// postWait is how long a message waits for the server's response to the message
// before it.
const postWait = 200 * time.Millisecond

// poster posts the messages that are written to it, one per line.
type poster struct{ link *Link }

// Write implements io.Writer.
func (p poster) Write(lines []byte) (n int, err error) {
	for line := range bytes.Lines(lines) {
		if err := p.link.send(bytes.Clone(bytes.TrimSpace(line))); err != nil {
			return n, err
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

// send posts one message. It waits until the server has accepted it, so that
// messages arrive in order, but for postWait at most: some servers respond only
// after they have done what the message says, and may need another message of ours
// before that.
func (l *Link) send(body []byte) error {
	posted := make(chan error, 1)
	l.posts.Go(func() { posted <- l.post(body) })
	t := time.NewTimer(postWait)
	defer t.Stop()
	select {
	case err := <-posted:
		return err
	case <-t.C:
		return nil
	}
}

// post posts one message. A failure ends the call that the message belongs to. If the
// session has ended, or the server cannot be reached, it also ends the stream and is
// returned.
func (l *Link) post(body []byte) error {
	resp, err := l.client.Do(l.ctx, http.MethodPost, body, "", nil)
	if err == nil && resp.StatusCode/100 == 2 {
		httpclient.Discard(resp.Body)
		return nil
	}
	if l.ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return context.Cause(l.ctx)
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

// fail ends the call of a message that could not be posted. status is that of the
// response; nil if there was none.
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
