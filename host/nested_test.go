package host

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
)

// TestSelf checks that a proxy whose upstream is itself, at its own address, does not use it,
// in both eras.
func TestSelf(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"auto", "legacy"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("[store]\ndir = '%s'\n[upstream.me]\nurl = \"http://%s/mcp\"\nprotocol = %q\nrestart = \"never\"\n", t.TempDir(), ln.Addr(), protocol)
		cfg, _, err := config.Parse(config.LoadOptions{}, "config.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		h, _ := startHostFor(t, cfg, ManyClients)
		h.router.HandshakeWait = time.Millisecond // it would wait for its own
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- h.ServeHTTPOn(ctx, ln) }()
		t.Cleanup(func() { cancel(); <-served })
		want := fmt.Sprintf("upstream \"me\": %v: the server is an mcp-metatool with this configuration (remove it, or give it another configuration)", supervise.ErrNested)
		if st := h.Upstreams(bounded(t))[0]; st.State != servers.Failed || st.Err != want {
			t.Errorf("%s: %s, %s", protocol, st.State, st.Err)
		}
	}
}
