package supervise

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// TestCloseAgain checks that Close may be called again, also concurrently, and that
// each call returns when everything has ended.
func TestCloseAgain(t *testing.T) {
	shared, _ := server(t, "shared", mcptest.ServerOptions{})
	own, _ := server(t, "own", mcptest.ServerOptions{})
	own.Isolation = config.PerSession
	r := start(t, configOf(t, shared, own), ManyClients)
	s := &session{}
	r.BeginSession(s)
	for _, name := range []string{"shared", "own"} {
		if c, ok := r.For(s, name); !ok {
			t.Errorf("no upstream %s", name)
		} else if err := c.Ready(bounded(t)); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := r.Close(bounded(t)); err != nil {
					t.Error(err)
				}
				for _, m := range r.all() {
					if st := m.Status(); st.State != upstream.Closed {
						t.Errorf("%s is %s", st.Name, st.State)
					}
				}
			})
		}
		all.Wait()
	}
	r.EndSession(s)
	if r.Apply(configOf(t, shared)) {
		t.Error("a configuration was put in force after Close")
	}
	if _, err := r.Request(bounded(t), "shared", wire.Call{Method: "ping"}); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("a request after Close: %v", err)
	}
	if _, ok := r.For(&session{}, "own"); ok {
		t.Error("an upstream was made after Close")
	}
}

// TestClientIdentity checks the params of initialize that upstreams get.
func TestClientIdentity(t *testing.T) {
	for clients, want := range map[Clients]string{
		NoClient:    `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"v"}}`,
		ManyClients: fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"n","version":"v"}}`, allCapabilities),
		OneClient:   `{"protocolVersion":"2025-06-18","x":1.0}`,
	} {
		c := newClientIdentity(clients, "n", "v")
		if clients == OneClient {
			older, ok := protocol.Lookup("2025-06-18")
			if !ok {
				t.Fatal("no such revision")
			}
			c.adopt([]byte(`{"protocolVersion":"2099-01-01","x":1.0}`), older)
			c.adopt([]byte(`{"protocolVersion":"2099-01-01","x":2.0}`), protocol.Handshake.Newest())
		}
		if got, err := c.initializeParams(t.Context()); err != nil || string(got) != want {
			t.Errorf("%d: %s %v\nwant %s", clients, got, err, want)
		}
	}
}
