package compose

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// slowUpstreams take some time to answer.
type slowUpstreams struct {
	*upstreams
	takes time.Duration
}

func (u slowUpstreams) CallUpstream(ctx context.Context, _ route.Origin, _ route.ScriptCall) wire.Reply {
	timer := time.NewTimer(u.takes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return wire.Reply{Result: []byte(`{"content":[]}`)}
}

// TestNestedRunsShareTime checks that saved tools that call one another have one time limit: that
// of the one which the client called, however deep they are, and how often they are called. Each
// has one of its own besides.
func TestNestedRunsShareTime(t *testing.T) {
	const limit = 10 * time.Second
	for name, c := range map[string]struct {
		takes, ends time.Duration // of each call, and of all
		failed      string
	}{
		"many calls":    {3 * time.Second, limit, "the script ran longer than 10s"},
		"one long call": {time.Hour, limit, "the script ran longer than 10s"},
		"in time":       {time.Second, 8 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := saga()
				// Each tool calls the one below it twice, and the last one calls the server.
				below := map[string]abi.ToolCall{"a": toolCall("tools", "b", `{}`), "b": toolCall("tools", "c", `{}`), "c": toolCall("s", "make", `{}`)}
				list := savedTools{}
				list.permit("a", "tools.b()", "tools.b", "tools.c", "s.make")
				list.permit("b", "tools.c()", "tools.c", "s.make")
				list.permit("c", "s.make()", "s.make")
				guest := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
					for range 2 {
						if a := r.Caller.CallTools(ctx, []abi.ToolCall{below[r.Request.Name]}); a[0].Err != nil {
							return sandbox.Outcome{Err: &abi.Error{Type: a[0].Err.Type, Message: a[0].Err.Message}}, nil
						}
					}
					return ok("1")
				})
				co := composer(guest, u, list.in, func(o *Options) { o.Timeout, o.Upstreams = limit, slowUpstreams{u, c.takes} })
				start := time.Now()
				reply := co.CallSaved(t.Context(), list["a"], route.Call{Params: params(`{}`)})
				if took := time.Since(start); took != c.ends {
					t.Errorf("it took %v, want %v", took, c.ends)
				}
				if got := get(t, reply, "structuredContent", "error", "message"); (got == "") != (c.failed == "") || !strings.Contains(got, c.failed) {
					t.Errorf("ended with %s", reply.Result)
				}
			})
		})
	}
}
