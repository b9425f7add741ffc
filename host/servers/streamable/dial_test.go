package streamable

import (
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// newLink returns a link that r observes. The test shuts it down.
func newLink(t testing.TB, config httpclient.Config, r *linktest.Recorder) *Link {
	t.Helper()
	client, err := httpclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	l := New(client, r.Options())
	t.Cleanup(func() { l.Shutdown(time.Minute, nil) })
	return l
}

// dial is newLink with a handshake.
func dial(t testing.TB, config httpclient.Config, r *linktest.Recorder) *Link {
	t.Helper()
	l := newLink(t, config, r)
	if err := linktest.Initialize(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return l
}
