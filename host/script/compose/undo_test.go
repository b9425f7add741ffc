package compose

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// saga has tools to make and remove things.
func saga() *upstreams {
	var u upstreams
	u.result("s.make", `{}`)
	u.result("s.remove", `{}`)
	u.result("s.fails", `{"isError":true,"content":[{"type":"text","text":"it is stuck"}]}`)
	return &u
}

// made returns the upstream's calls in short form: their tools with the argument n.
func made(u *upstreams) string {
	var all []string
	for _, call := range u.calls() {
		_, p, _ := strings.Cut(call, " ")
		name, _ := wire.GetString([]byte(p), "name")
		n, _ := wire.Get([]byte(p), "arguments", "n")
		all = append(all, name+string(n))
	}
	return strings.Join(all, " ")
}

const twoSteps = `
for n in [1, 2]:
    s.make(n=n)
    undo(s.remove, {"n": n})
`

func TestUndo(t *testing.T) {
	for _, tt := range []struct{ name, code, calls, compensation string }{
		{"success", twoSteps + "return 1", "make1 make2", ""},
		{"error", twoSteps + "fail('no')", "make1 make2 remove2 remove1",
			`[{"server":"s","tool":"remove","params":{"n":2},"undone":true},{"server":"s","tool":"remove","params":{"n":1},"undone":true}]`},
		{"commit", twoSteps + "commit()\nfail('no')", "make1 make2", ""},
		{"committed in part", twoSteps + "commit()\nundo(s.remove, n=3)\nfail('no')", "make1 make2 remove3",
			`[{"server":"s","tool":"remove","params":{"n":3},"undone":true}]`},
		{"one that fails", "undo(s.remove, n=1)\nundo(s.fails, n=2)\ns.make(n=3)\nfail('no')", "make3 fails2 remove1",
			`[{"server":"s","tool":"fails","params":{"n":2},"undone":false,"error":{"type":"tool","message":"it is stuck"}},{"server":"s","tool":"remove","params":{"n":1},"undone":true}]`},
		{"limit", twoSteps + "while True: pass", "make1 make2 remove2 remove1", `undone`},
		{"a limit of calls", twoSteps + "while True: s.make(n=0)", "remove2 remove1", `undone`},
		{"a result that does not match", twoSteps + "return 'text'", "make1 make2 remove2 remove1", `undone`},
		{"a wrong tool", "try:\n    undo(s.remov, n=1)\nexcept Error as e:\n    s.make(n=len(e.message) > 0)\nfail('no')", "maketrue", ""},
		{"wrong arguments", "undo(s.strict, n='x')", "", ""},
		{"a hidden tool", "try:\n    undo(s.secret, n=1)\nexcept:\n    s.make(n=1)", "", ""},
		{"a saved tool", "undo(tools.other, n=1)", "", ""},
		{"in parallel", "parallel_map(lambda n: [s.make(n=n), undo(s.remove, n=n)], range(3))\nfail('no')", "remove2 remove1 remove0", `undone`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := saga()
			u.result("s.strict", `{}`)
			c := composer(sandboxtest.Guest(t), u, savedScripts{"other": "return 1"}.in, func(o *Options) {
				o.Limits.Fuel, o.Limits.Calls, o.Calls = 50_000_000, 20, Full
				o.Catalog.(*catalog.Catalog).SetUpstream("s", wire.Tools, [][]byte{[]byte(`{"name":"make"}`), []byte(`{"name":"remove"}`), []byte(`{"name":"fails"}`),
					[]byte(`{"name":"secret"}`), []byte(`{"name":"strict","inputSchema":{"properties":{"n":{"type":"integer"}}}}`)}, nil)
			})
			def := saved(tt.code)
			if tt.name == "a result that does not match" {
				def.OutputSchema = []byte(`{"type":"integer"}`)
			}
			reply := c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
			if got := made(u); got != tt.calls && (len(tt.calls) == 0 || !strings.HasSuffix(got, " "+tt.calls)) {
				t.Errorf("calls: %s, want %s", got, tt.calls)
			}
			if (get(t, reply, "isError") == "true") != (tt.name != "success") {
				t.Errorf("result = %s", reply.Result)
			}
			got := get(t, reply, "structuredContent", "error", "details", "compensation")
			if got != tt.compensation && (tt.compensation != "undone" || strings.Count(got, `"undone":true`) < 2) {
				t.Errorf("compensation = %s, want %s", got, tt.compensation)
			}
			if listed := strings.Count(get(t, reply, "structuredContent", "toolCalls"), `"undo":true`); listed != strings.Count(got, "undone") {
				t.Errorf("%d calls are listed: %s", listed, reply.Result)
			}
		})
	}
}

// TestUndoAfterCancel checks that a cancelled run is undone.
func TestUndoAfterCancel(t *testing.T) {
	u := saga()
	called := u.block("s.wait")
	c := composer(sandboxtest.Guest(t), u)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan wire.Reply, 1)
	go func() { done <- c.CallSaved(ctx, saved(twoSteps+"s.wait()"), route.Call{Params: params(`{}`)}) }()
	<-called
	cancel(&wire.CancelledError{})
	reply := <-done
	if got := made(u); got != "make1 make2 wait remove2 remove1" {
		t.Errorf("calls: %s", got)
	}
	if got := get(t, reply, "structuredContent", "error", "details", "compensation"); strings.Count(got, `"undone":true`) != 2 {
		t.Errorf("compensation = %s", got)
	}
}

// step makes n and registers the compensation, as a script would.
func step(ctx context.Context, r sandbox.Run, n int) {
	arguments := fmt.Sprintf(`{"n":%d}`, n)
	r.Caller.CallTools(ctx, []abi.ToolCall{toolCall("s", "make", arguments)})
	r.Caller.Undo(ctx, toolCall("s", "remove", arguments))
}

// hang calls a tool without an answer, as a script would.
func hang(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	r.Caller.CallTools(ctx, []abi.ToolCall{toolCall("s", "wait", `{}`)})
	return sandbox.Outcome{}, context.Cause(ctx)
}

// TestUndoAfterTimeout checks that a run out of time is undone.
func TestUndoAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := saga()
		u.block("s.wait")
		c := composer(fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			step(ctx, r, 1)
			step(ctx, r, 2)
			return hang(ctx, r)
		}), u)
		reply := c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
		if got := made(u); got != "make1 make2 wait remove2 remove1" {
			t.Errorf("calls: %s", got)
		}
		if got := get(t, reply, "structuredContent", "error", "details", "compensation"); strings.Count(got, `"undone":true`) != 2 {
			t.Errorf("compensation = %s", got)
		}
	})
}

// TestUndoAfterTimeoutOfASavedTool checks that the caller continues once the saved tool
// is undone.
func TestUndoAfterTimeoutOfASavedTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := saga()
		u.block("s.wait")
		all := savedScripts{"slow": "slow"}
		c := composer(fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			if r.Request.Code == "slow" {
				step(ctx, r, 1)
				return hang(ctx, r)
			}
			late := toolCall(abi.Composites, "slow", `{"n":1}`)
			late.Timeout = 0.05
			if answer := r.Caller.CallTools(ctx, []abi.ToolCall{late})[0]; answer.Err == nil || answer.Err.Type != abi.ErrTimeout {
				t.Errorf("the caller got %+v", answer)
			}
			r.Caller.CallTools(ctx, []abi.ToolCall{toolCall("s", "make", `{"n":2}`)})
			return ok(`1`)
		}), u, all.in)
		c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
		if got, want := made(u), "make1 wait remove1 make2"; got != want {
			t.Errorf("calls %s, want %s", got, want)
		}
	})
}

// TestUndoIsBounded checks the time limit for hanging compensations.
func TestUndoIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := saga()
		u.block("s.hangs")
		c := composer(fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			r.Caller.Undo(ctx, toolCall("s", "remove", `{"n":1}`))
			r.Caller.Undo(ctx, toolCall("s", "hangs", `{"n":2}`))
			return sandbox.Outcome{Err: &abi.Error{Type: abi.ErrRuntime, Message: "no"}}, nil
		}), u, func(o *Options) { o.UndoTimeout = 30 * time.Millisecond })
		reply := c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
		got := get(t, reply, "structuredContent", "error", "details", "compensation")
		if made(u) != "hangs2 remove1" || strings.Count(got, "not done within 30ms (execution.undo_timeout)") != 1 || strings.Count(got, `"undone":true`) != 1 {
			t.Errorf("calls %s, compensation %s", made(u), got)
		}
		if text := textOf(t, reply); !strings.Contains(text, "\n  NOT undone by s.hangs({\"n\":2}): not done within 30ms") {
			t.Errorf("text = %s", text)
		}
	})
}

// TestUndoInTrees checks that a saved tool is undone after its failure, or after a later failure of
// the caller.
func TestUndoInTrees(t *testing.T) {
	step := "s.make(n=params.n)\nundo(s.remove, n=params.n)\n"
	for code, want := range map[string]string{
		"tools.good(n=1)\nfail('no')":                                         "make1 remove1",
		"undo(s.remove, n=0)\ntools.good(n=1)\ntools.good(n=2)\nfail('no')":   "make1 make2 remove2 remove1 remove0",
		"tools.good(n=1)\ntry:\n    tools.bad(n=2)\nexcept:\n    s.make(n=3)": "make1 make2 remove2 make3",
		"tools.good(n=1)\ncommit()\nfail('no')":                               "make1",
		"tools.done(n=1)\nfail('no')":                                         "make1",
		"tools.good(n=1)\ntools.bad(n=2)":                                     "make1 make2 remove2 remove1",
		"tools.middle(n=1)\nfail('no')":                                       "make1 remove1",
	} {
		u := saga()
		all := savedScripts{"good": step, "bad": step + "fail('no')", "done": step + "commit()", "middle": "tools.good(n=params.n)"}
		composer(sandboxtest.Guest(t), u, all.in).CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
		if got := made(u); got != want {
			t.Errorf("%s\ncalls %s, want %s", code, got, want)
		}
	}
}

// TestUndoSharesTime checks that hanging compensations leave each of the others a share of the
// time, for any number of compensations, and that slow ones may use the remaining time.
func TestUndoSharesTime(t *testing.T) {
	for parallel, undone := range map[int]int{1: 3, 16: 4} {
		synctest.Test(t, func(t *testing.T) {
			u := saga()
			u.block("s.hangs")
			u.add("s.slow", func(ctx context.Context, _ []byte, _ func([]byte)) wire.Reply {
				select {
				case <-time.After(5 * time.Second): // more than the call's share
				case <-ctx.Done():
				}
				return wire.Reply{Result: []byte(`{}`)}
			})
			c := composer(fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
				for n, tool := range []string{"remove", "slow", "hangs", "remove", "hangs", "remove", "hangs", "hangs", "hangs", "hangs"} {
					r.Caller.Undo(ctx, toolCall("s", tool, fmt.Sprintf(`{"n":%d}`, n)))
				}
				return sandbox.Outcome{Err: &abi.Error{Type: abi.ErrRuntime, Message: "no"}}, nil
			}), u, func(o *Options) { o.Parallel, o.UndoTimeout = parallel, 20*time.Second })
			begun := time.Now()
			reply := c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			if got, want := made(u), "hangs9 hangs8 hangs7 hangs6 remove5 hangs4 remove3 hangs2 slow1 remove0"; got != want {
				t.Errorf("calls %s\nwant  %s", got, want)
			}
			got := get(t, reply, "structuredContent", "error", "details", "compensation")
			if strings.Count(got, `"undone":true`) != undone || strings.Count(got, "undo_timeout") != 10-undone {
				t.Errorf("compensation %s", got)
			}
		})
	}
}
