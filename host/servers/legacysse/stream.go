package legacysse

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// stream is the server's stream of events, for use by a single goroutine.
type stream struct {
	body   io.ReadCloser
	events *wire.EventReader
}

func (s *stream) close() {
	s.body.Close()
	s.events.Release()
}

// open opens the stream and reads up to the endpoint event.
func (l *Link) open() error {
	resp, err := l.client.Do(l.ctx, http.MethodGet, nil, "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("its event stream does not open: %w", httpclient.NewStatusError(resp))
	}
	if t := httpclient.ContentType(resp.Header); t != httpclient.ContentEvents {
		resp.Body.Close()
		return fmt.Errorf("its event stream does not open: the content type is %q, not %s", link.Excerpt(t), httpclient.ContentEvents)
	}
	l.stream = stream{resp.Body, wire.NewEventReader(resp.Body, l.opts.MaxMessage).WithBudget(l.opts.ReadBudget(l.ctx))}
	if err := l.readEndpoint(); err != nil {
		l.stream.close()
		return err
	}
	return nil
}

// readEndpoint reads events up to the event with the address for posting messages.
func (l *Link) readEndpoint() error {
	for {
		ev, err := l.stream.events.Next()
		switch {
		case err != nil:
			return fmt.Errorf("its event stream does not begin with the event endpoint: %w", err)
		case ev.Name == "endpoint":
			return l.setEndpoint(string(ev.Data))
		}
	}
}

// setEndpoint sets the address for posting messages. The address must have the origin of the
// stream, because credentials are sent with messages.
func (l *Link) setEndpoint(ref string) error {
	from := l.client.URL()
	to, err := from.Parse(ref)
	if err != nil {
		return errors.New("its event endpoint has no usable URL")
	}
	if !httpclient.SameOrigin(from, to) {
		other := url.URL{Scheme: to.Scheme, Host: to.Host}
		return fmt.Errorf("its event endpoint names another server, %s, which is not followed", link.Excerpt(other.String()))
	}
	l.client.SetEndpoint(to)
	return nil
}
