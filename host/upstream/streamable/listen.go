package streamable

import (
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
)

// listen reads the GET stream, and opens it again whenever it ends, until the
// link ends or the server has no such stream.
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
			l.log.Debug("the stream of the server's own messages does not open", "err", f.err)
			if f.ends {
				l.end(f.err, false)
			}
			at.failures++
		case resp.StatusCode == http.StatusOK && httpclient.ContentType(resp.Header) == httpclient.ContentEvents:
			opened = true
			l.hears.Store(true)
			at.failures = 0
			l.hear(resp, &at)
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

// hear reads one stream to its end.
func (l *Link) hear(resp *http.Response, at *cursor) {
	s := l.open(l.ctx, resp, at.id)
	defer s.close()
	for since, brought := time.Now(), false; ; brought = true {
		if err := l.next(s, &l.main); err != nil {
			at.leave(s.events, brought || time.Since(since) > mostRetry, err)
			return
		}
	}
}

// retriable looks at the status that the stream was refused with. Servers that
// have none say 405; some say 404, which otherwise means a lost session.
func (l *Link) retriable(status *httpclient.StatusError, opened bool) bool {
	switch {
	case status.Status == http.StatusNotFound && opened && l.lostSession(status.Status):
		l.loseSession()
		return false
	case status.Status/100 == 5 && status.Status != http.StatusNotImplemented,
		status.Status == http.StatusTooManyRequests, status.Status == http.StatusConflict:
		l.log.Debug("the stream of the server's own messages does not open", "err", status)
		return true
	}
	l.hears.Store(false)
	if status.Status != http.StatusMethodNotAllowed {
		l.log.Debug("the server has no stream of its own messages", "err", status)
	}
	return false
}
