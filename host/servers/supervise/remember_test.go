package supervise

import (
	"fmt"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// declaring is the session of a client with these capabilities, a raw object.
type declaring struct {
	session
	capabilities string
	revision     protocol.Revision
}

func (s *declaring) Client() []byte {
	return fmt.Appendf(nil, `{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"c","version":"1"}}`, s.capabilities)
}

func (s *declaring) Revision() protocol.Revision { return s.revision }

// TestRememberedForClient checks that lists are remembered for a client's capabilities: the only
// client sees the lists of an earlier client with the same capabilities, of either era, and no
// other lists.
func TestRememberedForClient(t *testing.T) {
	t.Parallel()
	old := protocol.Handshake.Newest()
	cfg := configOf(t, subprocess(mcptest.ServerOptions{SamplingTool: true}))
	few, more := 0, 0
	for i, step := range []struct {
		session    declaring
		remembered *int // nil: none
		now        *int
	}{
		{declaring{capabilities: `{}`, revision: old}, nil, &few},
		{declaring{capabilities: `{"sampling":{}}`, revision: old}, nil, &more},
		{declaring{capabilities: `{}`, revision: old}, &few, &few},
		{declaring{capabilities: `{}`, revision: protocol.Stateless.Newest()}, &few, &few},
		{declaring{capabilities: `{"sampling":{}}`, revision: protocol.Stateless.Newest()}, &more, &more},
		{declaring{capabilities: `{"roots":{}}`, revision: old}, nil, &few},
		{declaring{capabilities: `{"elicitation":{}}`, revision: old}, nil, &few},
		{declaring{capabilities: `{"x":{}}`, revision: old}, nil, &few},
		{declaring{capabilities: `{"sampling":{}}`, revision: old}, &more, &more}, // {} is forgotten
		{declaring{capabilities: `{}`, revision: old}, nil, &few},
	} {
		r := start(t, cfg, OneClient)
		if n, ok := r.lists.tools[true]; ok {
			t.Errorf("start %d: %d tools before the client is known", i, n)
		}
		r.BeginSession(&step.session)
		n, ok := r.lists.tools[true]
		if ok != (step.remembered != nil) || ok && n != *step.remembered {
			t.Errorf("start %d: %d tools are remembered: %v", i, n, ok)
		}
		m, err := r.sharedUpstream("u")
		if err == nil {
			err = m.Ready(bounded(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		r.lists.mu.Lock()
		n = r.lists.tools[false]
		r.lists.mu.Unlock()
		if *step.now == 0 {
			*step.now = n
		}
		if n != *step.now || n == 0 {
			t.Errorf("start %d: %d tools, want %d", i, n, *step.now)
		}
		if err := r.Close(bounded(t)); err != nil { // which waits for the saving
			t.Error(err)
		}
		s, _ := m.env.snapshots.load("u", m.key, m.mark())
		if len(s.rest) > maxRest || len(s.Lists[wire.Tools].Items) != n {
			t.Errorf("start %d: %d tools are saved, and lists for %d other clients", i, len(s.Lists[wire.Tools].Items), len(s.rest))
		}
	}
	if few+1 != more {
		t.Errorf("%d and %d tools", few, more)
	}
}
