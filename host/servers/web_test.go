package servers

import (
	"context"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// httpSpec returns a Spec of the server, without fallback to HTTP with SSE.
func httpSpec(s *linktest.HTTPServer) Spec {
	config := s.ClientConfig()
	return Spec{Name: config.Name, URL: config.URL, Transport: TransportHTTP}
}

// dialSpec is dial with a link that r observes.
func dialSpec(ctx context.Context, s Spec, r *linktest.Recorder) (link.Link, error) {
	r.MaxMessage, r.Errors = s.MaxMessage, CallErrors(s.Name)
	return dial(ctx, s, r.Options(), nil)
}

// dialWeb is dialSpec with a handshake. The test shuts the link down.
func dialWeb(t *testing.T, s Spec, r *linktest.Recorder) link.Link {
	t.Helper()
	s.Name = "web"
	l, err := dialSpec(t.Context(), s, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Shutdown(time.Minute, nil) })
	if _, err := Initialize(t.Context(), l, ClientParams{Name: "test", Version: "1"}.Params()); err != nil {
		t.Fatal(err)
	}
	return l
}
