package supervise

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// change has the server of an upstream announce a change of its tools.
func (r *rig) change(t testing.TB, s route.Session, name string) {
	t.Helper()
	c, ok := r.For(s, name)
	if !ok {
		t.Fatalf("no upstream %s", name)
	}
	call := wire.Call{Method: "tools/call", Params: []byte(mcptest.ToolParams("change", `{"list":"tools"}`, ""))}
	if reply, err := c.Call(bounded(t), call); err != nil || reply.Error != nil {
		t.Fatalf("%s %v", reply.Error, err)
	}
}

// TestRefreshed checks that Refreshed waits for a list that is being read again.
func TestRefreshed(t *testing.T) {
	t.Parallel()
	u, _ := server(t, "slow", mcptest.ServerOptions{PageSize: 1000, Faults: map[string]mcptest.Fault{
		"tools/list": {Kind: mcptest.Slow, Size: 100, Pause: 2, Skip: 1},
	}})
	r := start(t, configOf(t, u), NoClient)
	r.Started(bounded(t))
	r.env.changeWait = time.Minute
	for i := range 3 {
		r.change(t, nil, "slow")
		r.Refreshed(bounded(t), nil, wire.Tools)
		if got, want := r.lists.count("slow", wire.Tools), len(mcptest.Tools)+i+1; got != want {
			t.Errorf("%d tools, want %d", got, want)
		}
		if got, want := r.lists.notice("slow"), `{"_meta":{"n":9007199254740993}}`; got != want {
			t.Errorf("announced with %s", got)
		}
	}
}

// TestWaitForChangedListIsBounded checks that a server that does not answer the request for the
// changed list does not delay the lists of other servers, and neither does an upstream of another
// session, or a server that is down.
func TestWaitForChangedListIsBounded(t *testing.T) {
	t.Parallel()
	hangs := mcptest.ServerOptions{PageSize: 1000, Faults: map[string]mcptest.Fault{"tools/list": {Kind: mcptest.Hang, Skip: 1}}}
	shared, _ := server(t, "shared", hangs)
	own, _ := server(t, "own", hangs)
	own.Isolation = config.PerSession
	r := start(t, configOf(t, shared, own), ManyClients)
	one, two := &session{}, &session{}
	r.BeginSession(one)
	r.BeginSession(two)
	r.Started(bounded(t))

	r.env.changeWait = time.Hour
	r.cfg.Load().StartupWait = 2 * time.Hour
	r.change(t, one, "own")
	r.Refreshed(bounded(t), two, wire.Tools)
	r.Refreshed(bounded(t), one, wire.Prompts) // only the tools are read
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Refreshed(ctx, one, wire.Tools)

	r.env.changeWait = time.Millisecond
	r.change(t, nil, "shared")
	r.change(t, nil, "shared")
	r.Refreshed(bounded(t), nil, wire.Tools)
	if got := r.lists.count("shared", wire.Tools); got != len(mcptest.Tools) {
		t.Errorf("%d tools", got)
	}
	r.env.changeWait = time.Hour
	r.cfg.Load().StartupWait = 0 // nothing is waited for
	r.Refreshed(bounded(t), nil, wire.Tools)
}

// asked is a context that tells when a goroutine is about to wait for the end of the context.
type asked struct {
	context.Context
	done chan struct{}
}

// Done implements context.Context.
func (c asked) Done() <-chan struct{} {
	select {
	case c.done <- struct{}{}:
	default:
	}
	return c.Context.Done()
}

// TestStartedWaitsForReplacement checks that a caller that waits for the lists of a server gets the
// lists of the replacement after a reload in the meantime.
func TestStartedWaitsForReplacement(t *testing.T) {
	t.Parallel()
	hangs, before := server(t, "u", mcptest.ServerOptions{Faults: map[string]mcptest.Fault{"tools/list": {Kind: mcptest.Hang}}})
	works, _ := server(t, "u", mcptest.ServerOptions{})
	r := start(t, configOf(t, hangs), NoClient)
	setting, released := make(chan struct{}, 10), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	r.lists.setting = func(string) {
		setting <- struct{}{}
		<-released
	}
	if _, _, err := before.Received.Find(bounded(t), "tools/list", 0, mcptest.Method("tools/list")); err != nil {
		t.Fatal(err)
	}
	ctx := asked{bounded(t), make(chan struct{}, 1)}
	listed := make(chan int, 1)
	go func() {
		r.Started(ctx)
		listed <- r.lists.count("u", wire.Tools)
	}()
	mcptest.Receive(t, "the wait for the first", ctx.done)
	if !r.Apply(configOf(t, works)) {
		t.Fatal("not applied")
	}
	mcptest.Receive(t, "the wait for its replacement", ctx.done)
	mcptest.Receive(t, "the list of the replacement", setting)
	select {
	case <-listed:
		t.Error("the lists of the replacement are not waited for")
	default:
	}
	release()
	if n := mcptest.Receive(t, "the lists", listed); n == 0 {
		t.Error("there are no tools")
	}
}
