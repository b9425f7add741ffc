package route

import (
	"context"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// BenchmarkCallTool measures the time added by the router to a proxied call.
func BenchmarkCallTool(b *testing.B) {
	g := newRig(b, "a")
	g.lists("a", wire.Tools, "echo")
	g.shared.Set("a", instant{})
	s := &fakeSession{}
	call := Call{Method: "tools/call", Origin: s, Params: []byte(`{"name":"a__echo","arguments":{"text":"hello"},"_meta":{"progressToken":1}}`)}
	b.ReportAllocs()
	for b.Loop() {
		if r := g.router.Handle(b.Context(), call); r.Error != nil {
			b.Fatal(string(r.Error))
		}
	}
}

// instant is an Upstream with an immediate answer.
type instant struct{ Upstream }

func (instant) Call(context.Context, wire.Call) (wire.Reply, error) { return empty(), nil }
