package route

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
)

// fixed is a handler with a constant reply.
type fixed string

func (f fixed) CallTool(context.Context, string, Call) wire.Reply { return reply(string(f)) }

// TestResultsForOldRevisions checks results in sessions with and without structuredContent. The
// structuredContent of an upstream is never removed.
func TestResultsForOldRevisions(t *testing.T) {
	const both = `{"content":[],"structuredContent":{"n":1},"isError":false}`
	g := newRig(t, "a")
	g.router.Register(catalog.Composite, fixed(both))
	g.router.Catalog.SetComposites([]catalog.Entry{{Name: "mine", Definition: []byte(`{"name":"mine","inputSchema":{"type":"object"}}`)}})
	g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{item(wire.Tools, "t")}, nil)
	g.ups["a"].on("tools/call", both)
	for _, tt := range []struct{ revision, tool, want string }{
		{"2025-11-25", "mine", both},
		{"2025-06-18", "mine", both},
		{"2025-03-26", "mine", `{"content":[],"isError":false}`},
		{"2024-11-05", "mine", `{"content":[],"isError":false}`},
		{"2024-11-05", "a__t", both},
	} {
		s := g.session(tt.revision+tt.tool, `{}`)
		s.old = tt.revision
		if got := g.ask(s, "tools/call", fmt.Sprintf(`{"name":%q}`, tt.tool)); got != tt.want {
			t.Errorf("%s of %s: %s", tt.tool, tt.revision, got)
		}
	}
}

// TestUnusableAnswer checks that an unusable answer is a JSON-RPC error, not a failed tool.
func TestUnusableAnswer(t *testing.T) {
	g := newRig(t, "a")
	g.router.Catalog.SetUpstream("a", wire.Tools, [][]byte{item(wire.Tools, "t")}, nil)
	g.ups["a"].answer["tools/call"] = func(context.Context, wire.Call) (wire.Reply, error) {
		return wire.Reply{}, errors.Join(wire.ErrUnusable, errors.New("it is too large"))
	}
	got := g.ask(g.session("s", `{}`), "tools/call", `{"name":"a__t"}`)
	if want := `{"code":-32603,"message":"unusable answer\nit is too large"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
