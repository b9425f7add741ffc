package compose

import (
	"context"
	"fmt"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// calling is a sandbox with a script that makes batches of calls.
func calling(batches, size int) fakeSandbox {
	return func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
		batch := make([]abi.ToolCall, size)
		for i := range batch {
			batch[i] = toolCall("s", "t", `{"a":1}`)
		}
		for range batches {
			for _, a := range r.Caller.CallTools(ctx, batch) {
				if a.Err != nil {
					return sandbox.Outcome{}, fmt.Errorf("%v", a.Err)
				}
			}
		}
		return ok("1")
	}
}

// BenchmarkCalls makes runs with the given number and size of batches; the figure of interest is
// the difference between rows.
func BenchmarkCalls(b *testing.B) {
	for _, n := range [][2]int{{0, 1}, {1, 1}, {100, 1}, {1, 16}} {
		b.Run(fmt.Sprintf("%dx%d", n[0], n[1]), func(b *testing.B) {
			var u upstreams
			u.result("s.t", `{"structuredContent":{"n":1}}`)
			c := composer(calling(n[0], n[1]), &u)
			def := saved("return s.t(a=params.a).n")
			call := route.Call{Params: params(`{"a":1}`)}
			b.ReportAllocs()
			for b.Loop() {
				if r := c.CallSaved(b.Context(), def, call); len(r.Result) == 0 {
					b.Fatal("no result")
				}
				u.seen = u.seen[:0]
			}
		})
	}
}
