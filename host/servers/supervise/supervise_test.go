package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// TestCloseAgain checks that Close may be called again, also concurrently, and that
// each call returns when everything has ended.
func TestCloseAgain(t *testing.T) {
	t.Parallel()
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
					if st := m.Status(); st.State != servers.Closed {
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

// TestWatchDoesNotDelayReload checks that a watched task is no call in flight: the task's upstream
// can be replaced at once, and the replacement is watched instead.
func TestWatchDoesNotDelayReload(t *testing.T) {
	t.Parallel()
	u, _ := server(t, "u", mcptest.ServerOptions{Eras: mcptest.EraModern})
	u.Protocol = "2026-07-28"
	r := start(t, configOf(t, u), ManyClients)
	c, ok := r.For(nil, "u")
	if !ok {
		t.Fatal("no upstream")
	}
	made, err := c.Call(bounded(t), wire.Call{Method: "tools/call", Params: []byte(`{"name":"task"}`),
		Client: []byte(`{"capabilities":{"extensions":{"` + mcptest.TaskExtension + `":{}}}}`)})
	if err != nil || made.Error != nil {
		t.Fatal(err, string(made.Error))
	}
	id, _ := wire.GetString(made.Result, "taskId")
	acknowledged, ended := make(chan struct{}, 1), make(chan error, 1)
	listen := func(ctx context.Context) error {
		_, err := c.Call(ctx, wire.Call{Method: "subscriptions/listen", Params: []byte(`{"notifications":{"taskIds":["` + id + `"]}}`),
			Progress: func([]byte) { acknowledged <- struct{}{} }})
		return err
	}
	go func() { ended <- listen(bounded(t)) }()
	await(t, "the acknowledgement", func() { <-acknowledged })
	u.Timeout += time.Second
	if !r.Apply(configOf(t, u)) {
		t.Fatal("not applied")
	}
	await(t, "the end of the first subscription", func() {
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	})
	ctx, cancel := context.WithCancel(bounded(t))
	go func() { ended <- listen(ctx) }()
	await(t, "the acknowledgement of the replacement", func() { <-acknowledged })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestClientIdentity checks the params of initialize that upstreams get.
func TestClientIdentity(t *testing.T) {
	t.Parallel()
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
			c.adopt([]byte(`{"protocolVersion":"2099-01-01","x":1.0}`), older, false, nil)
			c.adopt([]byte(`{"protocolVersion":"2099-01-01","x":2.0}`), protocol.Handshake.Newest(), false, nil)
		}
		if got, err := c.initializeParams(t.Context()); err != nil || string(got) != want {
			t.Errorf("%d: %s %v\nwant %s", clients, got, err, want)
		}
	}
}

// TestIdentityOfStatelessClient checks the description of clients of the stateless era for servers
// of the handshake era: the description of the only client, and all capabilities for several
// clients.
func TestIdentityOfStatelessClient(t *testing.T) {
	t.Parallel()
	for many, want := range map[bool]string{false: `{"roots":{}}`, true: allCapabilities} {
		c := newClientIdentity(OneClient, "n", "v")
		c.adopt([]byte(`{"protocolVersion":"2026-07-28","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}`), protocol.Stateless.Newest(), many, nil)
		want = `{"protocolVersion":"2025-11-25","capabilities":` + want + `,"clientInfo":{"name":"c"}}`
		if got, err := c.initializeParams(t.Context()); err != nil || string(got) != want {
			t.Errorf("many: %v: %s %v\nwant %s", many, got, err, want)
		}
	}
}
