package compose

import (
	"context"
	"sync"
	"testing"
	"time"

	memory "github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// principal is the client of a principal, in a session.
type principal struct {
	listener
	name string
}

func (p *principal) Session() route.Session { return p }
func (p *principal) Principal() string      { return p.name }

// held holds the calls of chat.post of a principal.
type held struct {
	*flowRig
	of      string
	arrived chan struct{}
	release chan struct{}
}

func (h *held) CallUpstream(ctx context.Context, o route.Origin, call route.ScriptCall) wire.Reply {
	if call.Tool == "post" && o.Session().Principal() == h.of {
		h.arrived <- struct{}{}
		<-h.release
	}
	return h.flowRig.CallUpstream(ctx, o, call)
}

// TestFlowPrincipals checks that a principal whose runs wait at sinks, from many sessions, leaves
// shadows to other principals.
func TestFlowPrincipals(t *testing.T) {
	h := &held{of: "greedy", arrived: make(chan struct{}), release: make(chan struct{})}
	r := newFlowRig(t, func(r *flowRig, o *Options) {
		h.flowRig, o.Upstreams, o.Journal = r, h, nil
		r.slots = shadow.NewSlots(16)
	})
	const code = "m = mail.list()\nchat.post({'text': 'x'})\nreturn 1"
	run := func(name string) string {
		origin := &principal{listener{revision: "2025-11-25"}, name}
		reply := r.composer.Eval(t.Context(), code, nil, route.Call{Origin: origin})
		class, _ := wire.GetString(reply.Result, "structuredContent", "error", "type")
		return class
	}
	var all sync.WaitGroup
	for range 2 { // a half of all
		all.Go(func() {
			if class := run("greedy"); class != "" {
				t.Errorf("a run of the principal that has none: %s error", class)
			}
		})
		<-h.arrived
	}
	if class := run("greedy"); class != "resource" {
		t.Errorf("a third run of the principal: %q", class)
	}
	for _, name := range []string{"modest", "another", ""} {
		if class := run(name); class != "" {
			t.Errorf("a run of principal %q: %s error", name, class)
		}
	}
	close(h.release)
	all.Wait()
	go func() { <-h.arrived }()
	if class := run("greedy"); class != "" || r.slots.Taken() != 0 {
		t.Errorf("after its runs have ended: %q, %d slots taken", class, r.slots.Taken())
	}
}

// TestFlowMemoryOfPrincipal checks that the memory of shadows counts for their principal: if the
// principal has the full share already, the shadows wait, and if another principal has, they do
// not.
func TestFlowMemoryOfPrincipal(t *testing.T) {
	for _, tt := range []struct {
		group   string
		timeout time.Duration // of shadows
		class   string
	}{
		{"greedy", 200 * time.Millisecond, "permission"},
		{"another", time.Minute, ""},
	} {
		b := memory.New(64 << 20)
		box := sandboxtest.GuestWithin(t, b)
		r := newFlowRig(t, func(r *flowRig, o *Options) { o.Sandbox, r.settings.Timeout = box, tt.timeout })
		r.composer.cfg.Flow.Sandbox = func() (Sandbox, error) { return box, nil }
		r.call.Origin = &principal{listener{revision: "2025-11-25"}, "greedy"}
		other := b.OpenRun(memory.Member{Group: tt.group, Of: "session"}, func(error) {})
		other.AddWorkers(1)
		r.calling = func(string) {
			for other.TryAcquire(1 << 20) {
			}
			r.calling = nil
		}
		if run := r.run(t, "m = mail.list()\nchat.post({'text': 'x'})\nreturn 1"); run.class != tt.class {
			t.Errorf("%q has its share: %q, want %q: %s", tt.group, run.class, tt.class, run.reply.Result)
		}
		other.AddWorkers(-1)
		other.Close()
	}
}
