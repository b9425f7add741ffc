package compose

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// TestSiblingsKeepTheirPermissions has two saved tools run at the same time below a chain of tools.
// Each may call a single tool, and calls the tool again when the other has begun: neither is judged
// by the permissions of the other.
func TestSiblingsKeepTheirPermissions(t *testing.T) {
	for depth := 1; depth <= 5; depth++ { // the memory of a list of grants has room for more at some lengths
		list := savedTools{}
		list.permit("makes", "s.make(n=1)\nreturn s.make(n=2)", "s.make")
		list.permit("removes", "s.remove(n=1)\nreturn s.remove(n=2)", "s.remove")
		list.permit("chain1", "return parallel(lambda: tools.makes(), lambda: tools.removes())", "tools.*", "s.*")
		for i := 2; i <= depth; i++ {
			list.permit(fmt.Sprint("chain", i), fmt.Sprintf("return tools.chain%d()", i-1), "tools.*", "s.*")
		}
		var u upstreams
		both := make(chan struct{})
		var begun atomic.Int32
		for _, tool := range []string{"s.make", "s.remove"} {
			u.add(tool, func(ctx context.Context, params []byte, _ func([]byte)) wire.Reply {
				if n, _ := wire.Get(params, "arguments", "n"); string(n) == "1" && begun.Add(1) == 2 {
					close(both)
				}
				select {
				case <-both:
				case <-ctx.Done():
				}
				return wire.Reply{Result: []byte(`{}`)}
			})
		}
		name := fmt.Sprint("chain", depth)
		reply := composer(sandboxtest.Guest(t), &u, list.in).CallSaved(t.Context(), list[name], route.Call{Params: params(`{}`)})
		if failed, _ := wire.Get(reply.Result, "isError"); string(failed) == "true" || len(u.calls()) != 4 {
			t.Errorf("a chain of %d: calls %q: %s", depth, u.calls(), reply.Result)
		}
	}
}
