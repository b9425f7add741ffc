package mcptest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// NewSSE connects a client of the HTTP+SSE transport (revision 2024-11-05) to
// address.
func NewSSE(address string, opts ClientOptions) (*Client, error) {
	c := newClient(opts)
	l := newHTTPLink(c, address)
	c.link = &sseLink{l}
	resp, err := l.do(l.ctx, http.MethodGet, nil, "")
	if err != nil {
		l.drop()
		return nil, err
	}
	endpoint := make(chan string, 1)
	c.work.Go(func() {
		defer resp.Body.Close()
		known := false
		_ = readEvents(resp.Body, func(e event) bool {
			switch e.name {
			case "endpoint":
				if !known {
					endpoint <- string(e.data)
				}
				known = true
			case "message":
				c.waitWhilePaused()
				c.received("sse", e.data)
			}
			return true
		})
		close(endpoint)
		c.end(ErrEnded)
	})
	path, ok := <-endpoint
	base, err := url.Parse(address)
	if !ok || err != nil {
		l.drop()
		return nil, ErrEnded
	}
	target, err := base.Parse(path)
	if err != nil {
		l.drop()
		return nil, err
	}
	l.url = target.String()
	return c, nil
}

type sseLink struct{ l *httpLink }

func (s *sseLink) send(raw []byte, _ wire.Message, _ func(error)) error {
	resp, err := s.l.do(s.l.ctx, http.MethodPost, raw, "")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (s *sseLink) close(context.Context) error {
	s.l.drop()
	return nil
}

func (s *sseLink) drop() { s.l.drop() }
