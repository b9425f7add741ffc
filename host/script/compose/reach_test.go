package compose

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// TestReachesAreBounded checks that the reach of a limited number of scripts is kept, and that the
// oldest makes room.
func TestReachesAreBounded(t *testing.T) {
	var r Reaches
	key := func(n int) [32]byte { return reachKey(fmt.Sprint(n), nil) }
	const more = 10
	for n := range maxReaches + more {
		r.add(key(n), reach{compiles: true})
		r.add(key(n), reach{}) // the reach is known
	}
	if len(r.known) != maxReaches || len(r.oldest) != maxReaches {
		t.Errorf("%d are kept, in an order of %d; want %d", len(r.known), len(r.oldest), maxReaches)
	}
	for n := range maxReaches + more {
		if found, ok := r.find(key(n)); ok != (n >= more) || ok && !found.compiles {
			t.Fatalf("script %d: %v %v", n, found, ok)
		}
	}
	if maxReaches > 10_000 {
		t.Error("each can have many names")
	}
	for n := range 3 * maxWarned {
		if key := fmt.Sprint(n); !r.first(key) || r.first(key) {
			t.Fatalf("warning %d is not given once", n)
		}
		if len(r.warned) > maxWarned {
			t.Fatalf("%d warnings are kept", len(r.warned))
		}
	}
	if a, b := reachKey("x", []string{"a", "b"}), reachKey("x", []string{"a"}); a == b {
		t.Error("the servers do not matter")
	}
}

// arriving is a server with known tools only after a wait for the server.
type arriving struct {
	Upstreams
	catalog *catalog.Catalog
}

func (a arriving) Ready(context.Context, route.Origin, string) error {
	a.catalog.SetUpstream("down", wire.Tools, [][]byte{[]byte(`{"name":"to-ol"}`)}, nil)
	return nil
}

// TestPermissionsWaitForServers checks that the permissions of a tool are derived from the tools of
// a starting server, by their real names, and not from the names in the script.
func TestPermissionsWaitForServers(t *testing.T) {
	c, _ := lintComposer(t)
	def := saved("return down.to_ol()")
	if p, _, err := c.Permissions(t.Context(), def); err != nil || len(p.Calls) > 0 || !slices.Equal(p.Unresolved, []string{"down.to_ol"}) {
		t.Errorf("a server that is down: %+v, %v", p, err)
	}
	c.cfg.Upstreams = arriving{c.cfg.Upstreams, c.cfg.Catalog.(*catalog.Catalog)}
	if p, _, err := c.Permissions(t.Context(), def); err != nil || len(p.Unresolved) > 0 || !slices.Equal(p.Calls, []string{"down.to-ol"}) {
		t.Errorf("a server that comes: %+v, %v", p, err)
	}
}
