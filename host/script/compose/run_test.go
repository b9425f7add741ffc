package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// TestRunOutcomes checks all ways in which the sandbox can end a run.
func TestRunOutcomes(t *testing.T) {
	position := &abi.Position{File: "job", Line: 2, Column: 3, Source: "  x.y"}
	end := func(out sandbox.Outcome, err error) fakeSandbox {
		return func(context.Context, sandbox.Run) (sandbox.Outcome, error) { return out, err }
	}
	secret := errors.New("wasm error: unreachable at 0xdead")
	tests := []struct {
		name    string
		sandbox fakeSandbox
		class   abi.ErrorType
		details string
		text    string
	}{
		{"script error", end(sandbox.Outcome{Err: &abi.Error{Type: abi.ErrRuntime, Message: "no y", Position: position, Stack: "Traceback"}}, nil),
			abi.ErrRuntime, `{"file":"job","line":2,"column":3,"source":"  x.y"}`,
			"runtime error: no y\n  at job:2:3\n      x.y\n      ^"},
		{"tool error", end(sandbox.Outcome{Err: &abi.Error{Type: abi.ErrTool, Message: "s.t: no",
			Call: &abi.CallError{Type: abi.ErrTool, Server: "s", Tool: "t", Message: "no", Details: json.RawMessage(`{"code":7}`)}}}, nil),
			abi.ErrTool, `{"server":"s","tool":"t","upstream":{"code":7}}`, "tool error: s.t: no"},
		{"details of the script", end(sandbox.Outcome{Err: &abi.Error{Type: abi.ErrRuntime, Message: "m", Details: json.RawMessage(`{"page":3}`)}}, nil),
			abi.ErrRuntime, `{"data":{"page":3}}`, "runtime error: m"},
		{"tool error of the script's own", end(sandbox.Outcome{Err: &abi.Error{Type: abi.ErrTool, Message: "m"}}, nil),
			abi.ErrTool, ``, "tool error: m"},
		{"class only the host may say", end(sandbox.Outcome{Err: &abi.Error{Type: abi.ErrTimeout, Message: "m"}}, nil),
			abi.ErrRuntime, ``, "runtime error: m"},
		{"memory", end(sandbox.Outcome{Err: &abi.Error{Type: abi.ErrResource, Message: "x", Position: position}},
			&sandbox.LimitError{Limit: sandbox.LimitMemory, Value: 1 << 20, Message: "out of memory"}),
			abi.ErrResource, `{"file":"job","line":2,"column":3,"source":"  x.y","limit":"memory","value":1048576,"setting":"execution.max_memory"}`,
			"resource error: out of memory (raise execution.max_memory)\n  at job:2:3\n      x.y\n      ^"},
		{"trap", end(sandbox.Outcome{}, &sandbox.TrapError{Reason: secret.Error()}), abi.ErrInternal, `{"run":"RUN"}`,
			"internal error: the sandbox failed (run RUN; the server's log says why)"},
		{"fault in the guest", end(sandbox.Outcome{Err: &abi.Error{Type: abi.ErrInternal, Message: secret.Error()}}, nil), abi.ErrInternal,
			`{"run":"RUN"}`, "internal error: the sandbox failed (run RUN; the server's log says why)"},
		{"nothing", end(sandbox.Outcome{}, nil), abi.ErrInternal, `{"run":"RUN"}`,
			"internal error: the sandbox failed (run RUN; the server's log says why)"},
		{"shutdown", end(sandbox.Outcome{}, sandbox.ErrClosed), abi.ErrCancelled, ``, "cancelled error: the server is shutting down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			c := composer(tt.sandbox, &upstreams{}, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			reply := c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
			id, _ := wire.GetString(reply.Result, "_meta", ReceiptKey, "run")
			plain := func(s string) string { return strings.ReplaceAll(s, id, "RUN") }
			if get(t, reply, "isError") != "true" || get(t, reply, "structuredContent", "error", "type") != `"`+string(tt.class)+`"` {
				t.Errorf("result = %s", reply.Result)
			}
			if got := plain(get(t, reply, "structuredContent", "error", "details")); got != tt.details {
				t.Errorf("details = %s\nwant %s", got, tt.details)
			}
			if got := plain(textOf(t, reply)); got != tt.text {
				t.Errorf("text = %s\nwant %s", got, tt.text)
			}
			if strings.Contains(string(reply.Result), "0xdead") {
				t.Errorf("the inside of the sandbox shows: %s", reply.Result)
			}
			if tt.class == abi.ErrInternal && tt.name != "nothing" && !strings.Contains(log.String(), "0xdead") {
				t.Errorf("the log does not say what happened: %s", log.String())
			}
			if want := "outcome=" + string(tt.class); !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "run="+id) {
				t.Errorf("log = %s, want %s", log.String(), want)
			}
		})
	}
}

func textOf(t *testing.T, r wire.Reply) string {
	t.Helper()
	blocks, err := wire.Elements([]byte(get(t, r, "content")))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("content of %s", r.Result)
	}
	text, _ := wire.GetString(blocks[0], "text")
	return text
}

func TestStackInDebugModeOnly(t *testing.T) {
	s := fakeSandbox(func(context.Context, sandbox.Run) (sandbox.Outcome, error) {
		return sandbox.Outcome{Err: &abi.Error{Type: abi.ErrRuntime, Message: "m", Stack: "Traceback: here"}}, nil
	})
	for _, debug := range []bool{false, true} {
		c := composer(s, &upstreams{}, func(o *Options) { o.Debug = debug })
		reply := c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
		if got := get(t, reply, "structuredContent", "error", "stack") == `"Traceback: here"`; got != debug {
			t.Errorf("debug %v: %s", debug, reply.Result)
		}
		if got := strings.Contains(textOf(t, reply), "Traceback"); got != debug {
			t.Errorf("debug %v: %s", debug, textOf(t, reply))
		}
	}
}

func TestTimeout(t *testing.T) { synctest.Test(t, testTimeout) }

func testTimeout(t *testing.T) {
	var u upstreams
	called := u.block("s.slow")
	var answer abi.Answer
	script := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
		r.Caller.Log(abi.LogInfo, "before")
		answer = r.Caller.CallTools(ctx, []abi.ToolCall{toolCall("s", "slow", `{}`)})[0]
		return sandbox.Outcome{Memory: 5}, context.Cause(ctx)
	})
	c := composer(script, &u, func(o *Options) { o.Timeout = 20 * time.Millisecond })
	reply := c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
	<-called
	want := `{"error":{"type":"timeout","message":"the script ran longer than 20ms (raise execution.timeout)",` +
		`"details":{"limit":"time","value":0.02,"setting":"execution.timeout"}},"logs":["before"],"executionTime":TIME,` +
		`"toolCalls":[{"server":"s","tool":"slow","params":{},"error":{"type":"timeout","message":"no answer before the run ended"}}]}`
	if got := normal(get(t, reply, "structuredContent")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if answer.Err == nil || answer.Err.Type != abi.ErrTimeout {
		t.Errorf("the call got %+v", answer)
	}
}

// normal replaces values with a new value in each run.
func normal(structured string) string {
	if took, ok := wire.Get([]byte(structured), "executionTime"); ok {
		return strings.Replace(structured, `"executionTime":`+string(took), `"executionTime":TIME`, 1)
	}
	return structured
}

func TestCancelWhileCallsBlock(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cause   error
		message string
	}{
		{"by the client", &wire.CancelledError{Params: []byte(`{"requestId":1,"reason":"enough"}`)}, "cancelled by the client: enough"},
		{"by shutdown", wire.ErrClosed, "the server is shutting down"},
		{"for no reason", nil, "the request was cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var u upstreams
			called := u.block("s.slow")
			script := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
				calls := make([]abi.ToolCall, 20)
				for i := range calls {
					calls[i] = toolCall("s", "slow", `{}`)
				}
				r.Caller.CallTools(ctx, calls)
				return sandbox.Outcome{}, context.Cause(ctx)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			c := composer(script, &u, func(o *Options) { o.Parallel, o.Calls = 3, Full })
			done := make(chan wire.Reply, 1)
			var s sink
			go func() { done <- c.CallSaved(ctx, saved("x"), route.Call{Params: params(`{}`), Progress: s.send}) }()
			for range 3 {
				<-called
			}
			cancel(tt.cause)
			reply := <-done
			if got := get(t, reply, "structuredContent", "error", "message"); got != `"`+tt.message+`"` {
				t.Errorf("message %s", got)
			}
			if n := len(u.calls()); n != 3 {
				t.Errorf("%d calls were made, want no more than the 3 under way", n)
			}
			calls, _ := wire.Elements([]byte(get(t, reply, "structuredContent", "toolCalls")))
			if len(calls) != 20 || len(s.params) != 0 {
				t.Errorf("%d calls listed, progress %q", len(calls), s.params)
			}
		})
	}
}

// TestCancelWhileCompiling checks cancelling a request during the wait for the guest.
func TestCancelWhileCompiling(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&wire.CancelledError{})
	c := composer(neverReady{}, &upstreams{})
	for name, reply := range map[string]wire.Reply{
		"saved": c.CallSaved(ctx, saved("x"), route.Call{Params: params(`{}`)}),
		"eval":  c.Eval(ctx, "x", nil, route.Call{}),
	} {
		if got := get(t, reply, "structuredContent", "error", "type"); got != `"cancelled"` {
			t.Errorf("%s: %s", name, reply.Result)
		}
	}
	var f *Failure
	if err := c.Check(ctx, "x", "y"); !errors.As(err, &f) || f.Type != abi.ErrCancelled {
		t.Errorf("check: %v", err)
	}
}

// neverReady is a sandbox without a ready guest.
type neverReady struct{ fakeSandbox }

func (neverReady) Ready() <-chan struct{} { return nil }

func TestParallelIsBounded(t *testing.T) {
	const limit = 4
	var u upstreams
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	u.add("s.wait", func(_ context.Context, p []byte, _ func([]byte)) wire.Reply {
		entered <- struct{}{}
		<-leave
		args, _ := wire.Get(p, "arguments")
		return wire.Reply{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, args)}
	})
	script := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
		calls := make([]abi.ToolCall, 10)
		for i := range calls {
			calls[i] = toolCall("s", "wait", fmt.Sprintf(`{"i":%d}`, i))
		}
		for i, a := range r.Caller.CallTools(ctx, calls) {
			if want := fmt.Sprintf(`{"i":%d}`, i); string(a.Value) != want {
				t.Errorf("answer %d = %s, %+v", i, a.Value, a.Err)
			}
		}
		return ok(`null`)
	})
	c := composer(script, &u, func(o *Options) { o.Parallel = limit })
	done := make(chan wire.Reply, 1)
	go func() { done <- c.CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)}) }()
	for range limit {
		<-entered // they overlap
	}
	if n := len(u.calls()); n != limit {
		t.Errorf("%d calls at once, want %d", n, limit)
	}
	close(leave)
	reply := <-done
	calls, _ := wire.Elements([]byte(get(t, reply, "structuredContent", "toolCalls")))
	for i, c := range calls {
		if args, _ := wire.Get(c, "params", "i"); string(args) != fmt.Sprint(i) {
			t.Errorf("call %d is listed as %s", i, c)
		}
	}
}

// TestRequestForUpstream checks the input of an upstream from a script's call and from the client's
// request.
func TestRequestForUpstream(t *testing.T) {
	call := func(meta string) string {
		var u upstreams
		u.result("my-server.odd tool!", `{"content":[]}`)
		script := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
			r.Caller.CallTools(ctx, []abi.ToolCall{toolCall("my_server", "odd_tool_", `{"n":9007199254740993,"f":1.50}`)})
			return ok(`null`)
		})
		composer(script, &u).CallSaved(t.Context(), saved("x"), route.Call{Params: []byte(`{"name":"job"` + meta + `}`)})
		return strings.Join(u.calls(), "\n")
	}
	const start = `my-server {"name":"odd tool!","arguments":{"n":9007199254740993,"f":1.50}`
	for _, tt := range []struct{ meta, want string }{
		{``, `}`},
		{`,"_meta":{}`, `}`},
		{`,"_meta":{"progressToken":"a"}`, `}`},
		{`,"_meta":5`, `}`},
		{`,"_meta":{"traceparent":"00-1","progressToken":1,"x":{"n":1.0}}`, `,"_meta":{"traceparent":"00-1","x":{"n":1.0}}}`},
	} {
		if got, want := call(tt.meta), start+tt.want; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.meta, got, want)
		}
	}
}

func TestForbiddenCalls(t *testing.T) {
	var u upstreams
	u.result("github.search_issues", `{}`)
	var answers []abi.Answer
	script := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
		answers = r.Caller.CallTools(ctx, []abi.ToolCall{
			toolCall("github", "search_isues", `{}`), toolCall("githib", "x", `{}`), toolCall("github", "secret", `{}`),
		})
		return ok(`null`)
	})
	reply := composer(script, &u).CallSaved(t.Context(), saved("x"), route.Call{Params: params(`{}`)})
	for i, want := range []abi.CallError{
		{Type: abi.ErrRuntime, Server: "github", Tool: "search_isues", Message: `server "github" has no tool "search_isues" (did you mean search_issues?)`},
		{Type: abi.ErrRuntime, Message: `unknown server "githib" (did you mean github?)`, Server: "githib", Tool: "x"},
		{Type: abi.ErrPermission, Server: "github", Tool: "secret", Message: `tool "secret" of server "github" may not be called (the configuration hides it)`},
	} {
		if got := answers[i].Err; got == nil || got.Type != want.Type || got.Server != want.Server || got.Tool != want.Tool || got.Message != want.Message {
			t.Errorf("answer %d = %+v, want %+v", i, got, want)
		}
	}
	if len(u.calls()) != 0 {
		t.Errorf("calls were made: %q", u.calls())
	}
	if calls, _ := wire.Elements([]byte(get(t, reply, "structuredContent", "toolCalls"))); len(calls) != 3 {
		t.Errorf("%d calls listed", len(calls))
	}
}
