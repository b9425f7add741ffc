package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	memory "github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// hostileSchema takes minutes to check a property of a megabyte of x.
var hostileSchema = fmt.Sprintf(`{"type":"object","properties":{"x":{"type":"string","pattern":%q}}}`, strings.Repeat("(x+x+)+y|", 880)+"z")

// observedCatalog is a catalog with a report of each lookup of a tool's schema.
type observedCatalog struct {
	Catalog
	asked chan struct{}
}

func (a observedCatalog) InputSchema(server, tool string) []byte {
	if tool != "hostile" {
		return nil
	}
	select {
	case a.asked <- struct{}{}:
	default:
	}
	return []byte(hostileSchema)
}

// hostileRuns are runs with schemas with minutes of work to check, in each place for schemas.
func hostileRuns(t *testing.T) map[string]tools.Definition {
	t.Helper()
	const text = "'x' * 1000000"
	params, result := saved("return 1"), saved("return {'x': "+text+"}")
	params.InputSchema = json.RawMessage(hostileSchema)
	result.OutputSchema = json.RawMessage(hostileSchema)
	return map[string]tools.Definition{
		"arguments of a call":     saved("s.hostile(x=" + text + ")"),
		"arguments to undo with":  saved("undo(s.hostile, x=" + text + ")"),
		"calls at once":           saved("parallel_map(lambda i: s.hostile(x=" + text + "), range(4))"),
		"a call that is caught":   saved("try: s.hostile(x=" + text + ")\nexcept Error: pass\nwhile True: pass"),
		"arguments of the tool":   params,
		"the result":              result,
		"of a tool that it calls": saved("tools.inner(x=" + text + ")"),
	}
}

// TestCheckingIsPartOfTheRun checks that schemas with minutes of work use up the fuel or the time
// of the run, or end with the run's request.
func TestCheckingIsPartOfTheRun(t *testing.T) {
	var u upstreams
	u.result("s.hostile", `{"content":[]}`)
	inner := saved("return 1")
	inner.Name, inner.InputSchema = "inner", json.RawMessage(hostileSchema)
	call := func(ctx context.Context, def tools.Definition, asked chan struct{}, change func(*Options)) wire.Reply {
		c := composer(sandboxtest.Guest(t), &u, func(o *Options) {
			o.Catalog, o.Saved, o.Timeout = observedCatalog{o.Catalog, asked}, savedTools{"inner": inner}, time.Hour
			change(o)
		})
		args := "{}"
		if string(def.InputSchema) == hostileSchema {
			args = `{"x":"` + strings.Repeat("x", 1_000_000) + `"}`
		}
		return c.CallSaved(ctx, def, route.Call{Params: params(args)})
	}
	for name, def := range hostileRuns(t) {
		t.Run(name, func(t *testing.T) {
			reply := call(t.Context(), def, nil, func(o *Options) { o.Limits.Fuel = 20_000_000 })
			e := get(t, reply, "structuredContent", "error")
			for path, want := range map[string]string{"type": `"resource"`, "limit": `"fuel"`, "value": "20000000", "setting": `"execution.max_fuel"`} {
				got, _ := wire.Get([]byte(e), "details", path)
				if path == "type" {
					got, _ = wire.Get([]byte(e), path)
				}
				if string(got) != want {
					t.Errorf("fuel: %s is %s, want %s, in %s", path, got, want, e)
				}
			}
			if !strings.HasPrefix(name, "arguments") && name != "the result" {
				return
			}
			reply = call(t.Context(), def, nil, func(o *Options) { o.Limits.Fuel, o.Timeout = math.MaxInt64/4, testenv.Quiet(50*time.Millisecond) })
			if limit := get(t, reply, "structuredContent", "error", "details", "limit"); limit != `"time"` {
				t.Errorf("time: %s", get(t, reply, "structuredContent", "error"))
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{}, 1)
		go func() {
			<-asked
			cancel()
		}()
		reply := call(ctx, hostileRuns(t)["arguments of a call"], asked, func(o *Options) { o.Limits.Fuel = math.MaxInt64 / 4 })
		if class := get(t, reply, "structuredContent", "error", "type"); class != `"cancelled"` {
			t.Errorf("cancelled: %s", get(t, reply, "structuredContent", "error"))
		}
	})
	if n := len(u.calls()); n > 0 {
		t.Errorf("%d calls have left", n)
	}
}

// largeRuns are runs with checks of n tiny objects, in each place where values are checked. Scripts
// make the objects with a few bytes.
func largeRuns(n int) map[string]tools.Definition {
	text := fmt.Sprintf("{'a': [{'': 1}] * %d}", n)
	arguments, result := saved("return 1"), saved("return "+text)
	arguments.InputSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"array"}}}`)
	result.OutputSchema = json.RawMessage(`{"type":"object"}`)
	return map[string]tools.Definition{
		"arguments of a call":     saved("s.checked(" + text + ")"),
		"arguments to undo with":  saved("undo(s.checked, " + text + ")"),
		"arguments of the tool":   arguments,
		"the result":              result,
		"of a tool that it calls": saved("tools.inner(" + text + ")"),
	}
}

// checkedCatalog has a schema for every tool.
type checkedCatalog struct{ Catalog }

func (checkedCatalog) InputSchema(_, _ string) []byte { return []byte(`{"type":"object"}`) }

// TestCheckedValuesAreCounted checks that the memory of values during a check is the run's, that no
// memory remains, and that the check is refused without memory. Seven bytes of a value are 350 of
// memory.
func TestCheckedValuesAreCounted(t *testing.T) {
	var u upstreams
	u.result("s.checked", `{"content":[]}`)
	inner := saved("return 1")
	inner.Name, inner.InputSchema = "inner", json.RawMessage(`{"type":"object"}`)
	const objects = 60_000
	for _, c := range []struct {
		memory int64
		class  string // of the error
	}{
		{1 << 30, ""},
		{44 << 20, `"resource"`},
	} {
		for name, def := range largeRuns(objects) {
			b := memory.New(c.memory)
			run := composer(sandboxtest.GuestWithin(t, b), &u, func(o *Options) {
				o.Catalog, o.Saved = checkedCatalog{o.Catalog}, savedTools{"inner": inner}
			})
			args := "{}"
			if name == "arguments of the tool" {
				args = `{"a":[` + strings.Repeat(`{"":1},`, objects-1) + `{"":1}]}`
			}
			reply := run.CallSaved(t.Context(), def, route.Call{Params: params(args)})
			failure, failed := wire.Get(reply.Result, "structuredContent", "error")
			class, _ := wire.Get(failure, "type")
			if failed != (c.class != "") || string(class) != c.class {
				t.Errorf("%d bytes, %s: %.300s", c.memory, name, failure)
			}
			f := b.Figures()
			if tree := int64(objects) * 400; c.class == "" && f.Peak < tree {
				t.Errorf("%d bytes, %s: they have %d bytes, and at most %d were counted", c.memory, name, tree, f.Peak)
			}
			if f.Used != 0 {
				t.Errorf("%d bytes, %s: %d bytes were not given back", c.memory, name, f.Used)
			}
		}
	}
}
