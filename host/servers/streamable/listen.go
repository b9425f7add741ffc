package streamable

import (
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// listen reads the GET stream, and opens the stream again after each end, until the link ends.
// listen stops if the server has no GET stream.
func (l *Link) listen() {
	at := cursor{retry: -1}
	opened := false
	for {
		resp, err := l.client.Do(l.ctx, http.MethodGet, nil, at.id, nil)
		switch {
		case l.ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return
		case err != nil:
			f := l.failure(err)
			l.log.Debug("the GET stream could not be opened", "err", f.err)
			if f.ends {
				l.end(f.err, false)
			}
			at.failures++
		case resp.StatusCode == http.StatusOK && httpclient.ContentType(resp.Header) == httpclient.ContentEvents:
			opened = true
			l.hasGetStream.Store(true)
			at.failures = 0
			l.readStream(resp, &at)
		default:
			at.failures++
			if status := httpclient.NewStatusError(resp); !l.retriable(status, opened) {
				return
			}
		}
		if !at.wait(l.ctx) {
			return
		}
	}
}

// readStream reads a response of the GET stream to the end.
func (l *Link) readStream(resp *http.Response, at *cursor) {
	s := l.open(l.ctx, resp, at.id)
	defer s.close()
	for since, received := time.Now(), false; ; received = true {
		if err := l.next(s, &l.main); err != nil {
			at.update(s.events, received || time.Since(since) > maxRetry, err)
			return
		}
	}
}

// retriable reports whether the stream is to be tried again after the server has refused the stream
// with this status. Servers without the stream answer 405; some answer 404, which otherwise means a
// lost session.
func (l *Link) retriable(status *httpclient.StatusError, opened bool) bool {
	switch {
	case status.Status == http.StatusNotFound && opened && l.lostSession(status.Status):
		l.loseSession()
		return false
	case status.Status/100 == 5 && status.Status != http.StatusNotImplemented,
		status.Status == http.StatusTooManyRequests, status.Status == http.StatusConflict:
		l.log.Debug("the GET stream could not be opened", "err", status)
		return true
	}
	l.hasGetStream.Store(false)
	if status.Status != http.StatusMethodNotAllowed {
		l.log.Debug("the server has no GET stream", "err", status)
	}
	return false
}
