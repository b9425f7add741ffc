package compose

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	memory "github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// TestReceiptsShowTheTree checks that the receipt of a run includes the saved tools of the run, and
// the saved tools called by them.
func TestReceiptsShowTheTree(t *testing.T) {
	var u upstreams
	u.result("s.t", `{}`)
	saved := savedScripts{
		"leaf":  "x = 'x' * (20 * 1024 * 1024)\ns.t()\ns.t()\nreturn len(x)",
		"inner": "return tools.leaf()",
		"outer": "x = 'x' * (30 * 1024 * 1024)\ntools.inner()\ntools.leaf()\nreturn len(x)",
		"asks":  "return tools.outer.raw()._meta",
	}
	c := composer(sandboxtest.Guest(t), &u, saved.in)
	type figures struct{ Memory, Calls, Fuel uint64 }
	receipt := func(tool string) (f figures) {
		reply := saved.call(t.Context(), c, tool, `{}`)
		if err := json.Unmarshal([]byte(get(t, reply, "_meta", ReceiptKey)), &f); err != nil {
			t.Fatalf("%s: %v", reply.Result, err)
		}
		return f
	}
	leaf, outer := receipt("leaf"), receipt("outer")
	if leaf.Calls != 2 || leaf.Memory < 20<<20 {
		t.Errorf("leaf: %+v", leaf)
	}
	if outer.Calls != 7 || outer.Memory < 50<<20 || outer.Fuel < 2*leaf.Fuel {
		t.Errorf("outer: %+v, leaf: %+v", outer, leaf)
	}
	var seen map[string]figures
	reply := saved.call(t.Context(), c, "asks", `{}`)
	if err := json.Unmarshal([]byte(get(t, reply, "structuredContent", "result")), &seen); err != nil {
		t.Fatalf("%s: %v", reply.Result, err)
	}
	if got := seen[ReceiptKey]; got.Calls != 7 || got.Memory < 50<<20 || got.Fuel < 2*leaf.Fuel {
		t.Errorf("seen by a script: %+v", got)
	}
}

// TestTotalMemoryOfNestedRuns checks that the memory of saved tools belongs to their root. If the
// root fails for lack of memory, the whole tree ends with the root's error and undoes all calls.
func TestTotalMemoryOfNestedRuns(t *testing.T) {
	b := memory.New(120 << 20)
	var u upstreams
	came, open := make(chan struct{}, 10), make(chan struct{})
	u.add("s.t", func(ctx context.Context, _ []byte, _ func([]byte)) wire.Reply {
		came <- struct{}{}
		select {
		case <-open:
		case <-ctx.Done():
		}
		return wire.Reply{Result: []byte(`{}`)}
	})
	u.result("s.undone", `{}`)
	saved := savedScripts{
		"inner": "undo(s.undone)\ny = 'y' * (20 * 1024 * 1024)\ns.t()\nz = 'z' * (50 * 1024 * 1024)\nreturn len(y) + len(z)",
		"outer": "x = 'x' * (20 * 1024 * 1024)\nparallel([lambda: tools.inner()])\nreturn len(x)",
	}
	c := composer(sandboxtest.GuestWithin(t, b), &u, saved.in)
	first, second := make(chan wire.Reply, 1), make(chan wire.Reply, 1)
	go func() {
		first <- c.Eval(t.Context(), "x = 'x' * (20 * 1024 * 1024)\ns.t()\ny = 'y' * (60 * 1024 * 1024)\nreturn len(x) + len(y)", nil, route.Call{})
	}()
	<-came
	go func() { second <- saved.call(t.Context(), c, "outer", `{}`) }()
	<-came
	if f := b.Figures(); f.Runs < 60<<20 {
		t.Errorf("20 MiB in each of three runs are %+v", f)
	}
	close(open)
	if reply := <-first; get(t, reply, "structuredContent", "result") != "83886080" {
		t.Errorf("the older one: %.300s", reply.Result)
	}
	reply := <-second
	e := []byte(get(t, reply, "structuredContent", "error"))
	for path, want := range map[string]string{"limit": `"total_memory"`, "value": "125829120", "setting": `"execution.max_total_memory"`} {
		if got, _ := wire.Get(e, "details", path); string(got) != want {
			t.Errorf("%s = %s, want %s: %s", path, got, want, e)
		}
	}
	if kind, _ := wire.GetString(e, "type"); kind != "resource" || !strings.Contains(string(e), `"undone":true`) {
		t.Errorf("%s", e)
	}
	if f := b.Figures(); f.Used != 0 || f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
}
