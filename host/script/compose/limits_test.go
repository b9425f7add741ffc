package compose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// limitsOf parses a tool's own limits.
func limitsOf(t *testing.T, raw string) tools.Limits {
	t.Helper()
	l, err := tools.ParseLimits([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestDetailsOfLimits checks that errors about limits have the name, the value, the usage, and the
// setting to raise the limit.
func TestDetailsOfLimits(t *testing.T) {
	met := func(limit sandbox.Limit, value uint64) error {
		return &sandbox.LimitError{Limit: limit, Value: value, Message: "too much"}
	}
	guest := func(e abi.Error) sandbox.Outcome { return sandbox.Outcome{Err: &e, Fuel: 9} }
	used := sandbox.Outcome{Memory: 5, Calls: 6, Fuel: 7}
	for _, tt := range []struct {
		name          string
		limits        string // the tool's own
		out           sandbox.Outcome
		err           error
		text, details string
	}{
		{"memory", `{}`, used, met(sandbox.LimitMemory, 4), "resource error: too much (raise execution.max_memory)",
			`{"limit":"memory","value":4,"used":5,"setting":"execution.max_memory","fuel":7}`},
		{"fuel", `{}`, used, met(sandbox.LimitFuel, 4), "resource error: too much (raise execution.max_fuel)",
			`{"limit":"fuel","value":4,"used":7,"setting":"execution.max_fuel","fuel":7}`},
		{"large figures", `{}`, sandbox.Outcome{Fuel: 10_000_000_000}, met(sandbox.LimitFuel, 10_000_000_000),
			"resource error: too much (raise execution.max_fuel)",
			`{"limit":"fuel","value":10000000000,"used":10000000000,"setting":"execution.max_fuel","fuel":10000000000}`},
		{"calls", `{}`, used, met(sandbox.LimitCalls, 4), "resource error: too much (raise execution.max_calls)",
			`{"limit":"calls","value":4,"used":6,"setting":"execution.max_calls","fuel":7}`},
		{"answer", `{}`, used, met(sandbox.LimitAnswer, 4), "resource error: too much (raise execution.max_answer)",
			`{"limit":"answer","value":4,"setting":"execution.max_answer","fuel":7}`},
		{"queue", `{}`, sandbox.Outcome{}, met(sandbox.LimitQueue, 4), "resource error: too much (call again later, or raise execution.max_queued)",
			`{"limit":"queue","value":4,"setting":"execution.max_queued"}`},
		{"native recursion", `{}`, used, met(sandbox.LimitRecursion, 0), "resource error: too much; this limit is fixed",
			`{"limit":"recursion","fuel":7}`},
		{"own memory", `{"memory":"32MB"}`, used, met(sandbox.LimitMemory, 4),
			"resource error: too much (raise limits.memory of the saved tool, at most to execution.max_memory)",
			`{"limit":"memory","value":4,"used":5,"setting":"limits.memory","fuel":7}`},
		{"own fuel", `{"fuel":10000000}`, used, met(sandbox.LimitFuel, 4),
			"resource error: too much (raise limits.fuel of the saved tool, at most to execution.max_fuel)",
			`{"limit":"fuel","value":4,"used":7,"setting":"limits.fuel","fuel":7}`},
		{"own calls", `{"calls":3}`, used, met(sandbox.LimitCalls, 3),
			"resource error: too much (raise limits.calls of the saved tool, at most to execution.max_calls)",
			`{"limit":"calls","value":3,"used":6,"setting":"limits.calls","fuel":7}`},
		{"another limit than its own", `{"calls":3}`, used, met(sandbox.LimitFuel, 4),
			"resource error: too much (raise execution.max_fuel)", `{"limit":"fuel","value":4,"used":7,"setting":"execution.max_fuel","fuel":7}`},
		{"recursion", `{}`, guest(abi.Error{Type: abi.ErrResource, Message: "deep", Limit: abi.LimitRecursion}), nil,
			"resource error: deep", `{"limit":"recursion","value":1000,"fuel":9}`},
		{"JSON depth", `{}`, guest(abi.Error{Type: abi.ErrRuntime, Message: "deep", Limit: abi.LimitDepth}), nil,
			"runtime error: deep", `{"limit":"depth","value":1000,"fuel":9}`},
		{"JSON depth of an answer", `{}`, guest(abi.Error{Type: abi.ErrTool, Message: "deep",
			Call: &abi.CallError{Type: abi.ErrTool, Server: "s", Tool: "t", Message: "deep", Limit: abi.LimitDepth}}), nil,
			"tool error: deep", `{"server":"s","tool":"t","limit":"depth","value":1000,"fuel":9}`},
		{"a limit only the host may speak of", `{}`, guest(abi.Error{Type: abi.ErrRuntime, Message: "m", Limit: "fuel"}), nil,
			"runtime error: m", `{"fuel":9}`},
		{"the host's limit before the guest's", `{}`, guest(abi.Error{Type: abi.ErrResource, Message: "m", Limit: abi.LimitDepth}),
			met(sandbox.LimitResult, 4), "resource error: too much (raise execution.max_result)",
			`{"limit":"result","value":4,"setting":"execution.max_result","fuel":9}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := composer(fakeSandbox(func(context.Context, sandbox.Run) (sandbox.Outcome, error) { return tt.out, tt.err }), &upstreams{})
			def := saved("x")
			def.Limits = limitsOf(t, tt.limits)
			reply := c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
			if got := textOf(t, reply); got != tt.text {
				t.Errorf("text = %s\nwant   %s", got, tt.text)
			}
			if got := get(t, reply, "structuredContent", "error", "details"); got != tt.details {
				t.Errorf("details = %s\nwant      %s", got, tt.details)
			}
			want := ""
			if tt.out.Fuel > 0 {
				want = fmt.Sprint(tt.out.Fuel)
			}
			if got := get(t, reply, "_meta", ReceiptKey, "fuel"); got != want {
				t.Errorf("fuel in the receipt = %q, want %q", got, want)
			}
		})
	}
}

// TestOwnLimits checks that a tool's own lower limits apply.
func TestOwnLimits(t *testing.T) { synctest.Test(t, testOwnLimits) }

func testOwnLimits(t *testing.T) {
	for _, tt := range []struct {
		limits  string
		want    sandbox.Limits
		timeout time.Duration
	}{
		{`{}`, sandbox.Limits{Fuel: sandbox.DefaultFuel, Memory: 100 << 20, Calls: 10, Answer: 77}, time.Minute},
		{`{"fuel":10000000,"memory":"16MB","timeout":"5s","calls":3}`, sandbox.Limits{Fuel: 10_000_000, Memory: 16 << 20, Calls: 3, Answer: 77}, 5 * time.Second},
		{`{"fuel":99999999999999,"memory":"4GB","timeout":"24h","calls":11}`, sandbox.Limits{Fuel: sandbox.DefaultFuel, Memory: 100 << 20, Calls: 10, Answer: 77}, time.Minute},
		{`{"memory":"16MB"}`, sandbox.Limits{Fuel: sandbox.DefaultFuel, Memory: 16 << 20, Calls: 10, Answer: 77}, time.Minute},
	} {
		var got sandbox.Limits
		var left time.Duration
		s := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			got = r.Limits
			begun := time.Now()
			<-ctx.Done()
			left = time.Since(begun)
			return ok(`1`)
		})
		c := composer(s, &upstreams{}, func(o *Options) {
			o.Limits = sandbox.Limits{Memory: 100 << 20, Calls: 10, Answer: 77}
		})
		def := saved("x")
		def.Limits = limitsOf(t, tt.limits)
		c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
		if got != tt.want.WithDefaults() || left != tt.timeout {
			t.Errorf("%s: ran under %+v with %v left\nwant %+v and %v", tt.limits, got, left, tt.want, tt.timeout)
		}
	}
}

func TestCheckLimits(t *testing.T) {
	c := composer(neverReady{}, &upstreams{}, func(o *Options) { o.Limits = sandbox.Limits{Memory: 64 << 20, Calls: 10} })
	for limits, want := range map[string][]string{
		`{}`: nil,
		`{"fuel":10000000000,"memory":"64MB","timeout":"1m","calls":10}`: nil,
		`{"fuel":10000000001,"memory":"65MB","timeout":60001,"calls":11}`: {
			"/limits/fuel: got 10000000001, want at most 10000000000 (execution.max_fuel)",
			"/limits/memory: got 65MiB, want at most 64MiB (execution.max_memory)",
			"/limits/timeout: got 1m0.001s, want at most 1m (execution.timeout)",
			"/limits/calls: got 11, want at most 10 (execution.max_calls)",
		},
	} {
		var got []string
		for _, v := range c.CheckLimits(limitsOf(t, limits)) {
			got = append(got, v.String())
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\ngot  %q\nwant %q", limits, got, want)
		}
	}
}

// TestLate checks that the error of a run out of time tells whether the run waited for a slot.
func TestLate(t *testing.T) { synctest.Test(t, testLate) }

func testLate(t *testing.T) {
	for _, tt := range []struct {
		limits, text, details string
		queued                time.Duration
	}{
		{`{}`, "timeout error: the script ran longer than 20ms (raise execution.timeout)",
			`{"limit":"time","value":0.02,"setting":"execution.timeout"}`, 0},
		{`{"timeout":"10ms"}`, "timeout error: the script ran longer than 10ms (raise limits.timeout of the saved tool, at most to execution.timeout)",
			`{"limit":"time","value":0.01,"setting":"limits.timeout"}`, 0},
		{`{}`, "timeout error: the script ran longer than 20ms, and waited 15ms of it for other scripts " +
			"(raise execution.timeout, or execution.max_concurrent)",
			`{"limit":"time","value":0.02,"setting":"execution.timeout","queued":0.015}`, 15 * time.Millisecond},
	} {
		s := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			<-ctx.Done()
			return sandbox.Outcome{Queued: tt.queued}, context.Cause(ctx)
		})
		c := composer(s, &upstreams{}, func(o *Options) { o.Timeout = 20 * time.Millisecond })
		def := saved("x")
		def.Limits = limitsOf(t, tt.limits)
		reply := c.CallSaved(t.Context(), def, route.Call{Params: params(`{}`)})
		if got := textOf(t, reply); got != tt.text {
			t.Errorf("text = %s\nwant   %s", got, tt.text)
		}
		if got := get(t, reply, "structuredContent", "error", "details"); got != tt.details {
			t.Errorf("details = %s\nwant      %s", got, tt.details)
		}
	}
}

// TestDeepArguments checks JSON of clients with nesting too deep for a guest.
func TestDeepArguments(t *testing.T) {
	c := composer(fakeSandbox(func(context.Context, sandbox.Run) (sandbox.Outcome, error) {
		t.Error("it was run")
		return sandbox.Outcome{}, errors.New("no")
	}), &upstreams{})
	deep := `{"a":` + strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth) + `}`
	for what, reply := range map[string]wire.Reply{
		`arguments of "job"`: c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(deep)}),
		"params":             c.Eval(t.Context(), "x", []byte(deep), route.Call{}),
	} {
		if got, want := textOf(t, reply), "validation error: "+what+": nested deeper than 1000 levels, a fixed limit"; got != want {
			t.Errorf("text = %s\nwant   %s", got, want)
		}
		if got, want := get(t, reply, "structuredContent", "error", "details"), `{"limit":"depth","value":1000}`; got != want {
			t.Errorf("details = %s, want %s", got, want)
		}
	}
}

// TestCheckIsLimited checks that limits also apply to checking a script.
func TestCheckIsLimited(t *testing.T) {
	limit := &sandbox.LimitError{Limit: sandbox.LimitFuel, Value: 4, Message: "too much"}
	c := composer(fakeSandbox(func(context.Context, sandbox.Run) (sandbox.Outcome, error) { return sandbox.Outcome{Fuel: 4}, limit }), &upstreams{})
	var f *Failure
	if err := c.Check(t.Context(), "x", "y"); !errors.As(err, &f) || f.Limit != "fuel" || f.Used != 4 ||
		f.Error() != "resource error: checking the script: too much (raise execution.max_fuel)" {
		t.Errorf("%+v", f)
	}
}

// computing needs more fuel for an answer than a run has.
type computing struct{ upstreams }

func (c *computing) CallUpstream(_ context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	_ = call.Compute(func(spend tools.Spend) error { return spend(1 << 60) })
	return wire.Reply{Result: []byte(`{"content":[]}`)}
}

// TestAnswersCostFuel checks that work for an answer without a server is limited by the fuel of the
// run, and that a script cannot go on afterwards.
func TestAnswersCostFuel(t *testing.T) {
	var u computing
	u.result("s.x", `{"content":[]}`)
	c := composer(sandboxtest.Guest(t), &u.upstreams, func(o *Options) { o.Upstreams = &u })
	reply := c.CallSaved(t.Context(), saved("try:\n  s.x()\nexcept:\n  pass\nreturn 1"), route.Call{Params: params(`{}`)})
	failed := get(t, reply, "structuredContent", "error")
	if class, _ := wire.GetString([]byte(failed), "type"); class != "resource" || !strings.Contains(failed, "units of fuel (raise execution.max_fuel)") {
		t.Error(failed)
	}
}
