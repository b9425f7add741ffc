package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// The tests of this file, like TestGolden, run scripts in the real guest.

func TestLimitsOfRealRuns(t *testing.T) {
	var u upstreams
	u.result("s.t", `{"content":[]}`)
	u.result("s.big", `{"structuredContent":"`+strings.Repeat("x", 5000)+`"}`)
	u.result("s.deep", `{"structuredContent":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`)
	for _, tt := range []struct {
		name, code, class, limit, value, setting string
	}{
		{"time", "while True:\n    pass", "timeout", "time", "0.3", "execution.timeout"},
		{"fuel", "while True:\n    pass", "resource", "fuel", "100000000", "execution.max_fuel"},
		{"memory", "x = ['x' * 1000000]\nwhile True:\n    x.append(x[-1] + 'y')", "resource", "memory", "67108864", "execution.max_memory"},
		{"calls", "while True:\n    s.t()", "resource", "calls", "1000", "execution.max_calls"},
		{"arguments", "s.t(x='x' * 5000)", "resource", "arguments", "4096", "execution.max_arguments"},
		{"answer", "s.big()", "resource", "answer", "4096", "execution.max_answer"},
		{"result", "return 'x' * 5000", "resource", "result", "4096", "execution.max_result"},
		{"size", "list(range(1 << 62))", "resource", "memory", "67108864", ""},
		{"recursion", "def f(n):\n    return f(n + 1)\nf(0)", "resource", "recursion", "1000", ""},
		{"depth", "x = []\nfor _ in range(2000):\n    x = [x]\nreturn x", "runtime", "depth", "1000", ""},
		{"depth of an answer", "s.deep()", "tool", "depth", "1000", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := func(timeout time.Duration) wire.Reply {
				c := composer(sandboxtest.Guest(t), &u, func(o *Options) {
					o.Limits = sandbox.Limits{Memory: 64 << 20, Arguments: 4 << 10, Answer: 4 << 10, Result: 4 << 10}
					o.Timeout = timeout
					if tt.name == "fuel" {
						o.Limits.Fuel = 100_000_000
					}
				})
				return c.CallSaved(t.Context(), saved("print('start')\n"+tt.code), route.Call{Params: params(`{}`)})
			}
			timeout := time.Minute
			if tt.name == "time" {
				timeout = 300 * time.Millisecond
			}
			reply := run(timeout)
			// On a busy machine, the script may not begin in time.
			for timeout < time.Minute && get(t, reply, "structuredContent", "logs") != `["start"]` {
				timeout *= 2
				reply, tt.value = run(timeout), fmt.Sprint(timeout.Seconds())
			}
			e := get(t, reply, "structuredContent", "error")
			if class, _ := wire.GetString([]byte(e), "type"); class != tt.class {
				t.Fatalf("error = %s", e)
			}
			limit, _ := wire.GetString([]byte(e), "details", "limit")
			value, _ := wire.Get([]byte(e), "details", "value")
			setting, _ := wire.GetString([]byte(e), "details", "setting")
			fuel, _ := wire.Get([]byte(e), "details", "fuel")
			if limit != tt.limit || string(value) != tt.value || setting != tt.setting || len(fuel) < 4 {
				t.Errorf("error = %s\nwant limit %s, value %s, setting %q and the fuel", e, tt.limit, tt.value, tt.setting)
			}
			if receipt := get(t, reply, "_meta", ReceiptKey, "fuel"); receipt != string(fuel) {
				t.Errorf("fuel in the receipt %s, in the details %s", receipt, fuel)
			}
			message, _ := wire.GetString([]byte(e), "message")
			if want := cmp.Or(setting, "fixed"); !strings.Contains(message, want) {
				t.Errorf("%q does not say %q", message, want)
			}
			if logs := get(t, reply, "structuredContent", "logs"); logs != `["start"]` {
				t.Errorf("logs = %s", logs)
			}
		})
	}
}

// TestCancelRealRun checks that cancelling stops scripts, whether they compute or wait.
func TestCancelRealRun(t *testing.T) {
	for name, code := range map[string]string{
		"waiting":   "return s.wait()",
		"computing": "s.start()\nwhile True:\n    pass",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var u upstreams
			called := u.block("s.wait")
			u.add("s.start", func(context.Context, []byte, func([]byte)) wire.Reply {
				called <- struct{}{}
				return wire.Reply{Result: []byte(`{}`)}
			})
			c := composer(sandboxtest.Guest(t), &u)
			done := make(chan wire.Reply, 1)
			go func() { done <- c.CallSaved(ctx, saved(code), route.Call{Params: params(`{}`)}) }()
			<-called
			cancel(&wire.CancelledError{})
			if got := get(t, <-done, "structuredContent", "error", "type"); got != `"cancelled"` {
				t.Errorf("error of type %s", got)
			}
		})
	}
}

func TestEval(t *testing.T) {
	var u upstreams
	u.result("s.t", `{"structuredContent":{"n":1}}`)
	c := composer(sandboxtest.Guest(t), &u)
	call := route.Call{Params: []byte(`{"name":"eval_starlark","arguments":{},"_meta":{"traceparent":"00-1"}}`)}
	reply := c.Eval(t.Context(), "print('hi')\nreturn s.t(a=params.a).n + 1", []byte(`{"a":1}`), call)
	if got, want := normal(get(t, reply, "structuredContent")),
		`{"result":2,"logs":["hi"],"executionTime":TIME,"toolCalls":[{"server":"s","tool":"t","params":{"a":1},"result":{"n":1}}]}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := strings.Join(u.calls(), "\n"), `s {"name":"t","arguments":{"a":1},"_meta":{"traceparent":"00-1"}}`; got != want {
		t.Errorf("the upstream got %s, want %s", got, want)
	}
	for params, want := range map[string]string{"": `{"result":{}`, "[]": `{"error":{"type":"validation"`, "\"\xff": `{"error":{"type":"validation"`} {
		raw := []byte(params)
		if params == "" {
			raw = nil
		}
		reply := c.Eval(t.Context(), "return params", raw, call)
		if got := get(t, reply, "structuredContent"); !strings.HasPrefix(got, want) {
			t.Errorf("params %q: %s", params, got)
		}
	}
}

func TestCheck(t *testing.T) {
	var u upstreams
	u.result("github.search", `{}`)
	c := composer(sandboxtest.Guest(t), &u)
	for _, tt := range []struct{ code, want string }{
		{"return github.search({})", ""},
		{"while True:\n    github.search()", ""}, // the script does not run
		{"x = 1\nif x\n    y", "my_tool:2:5: syntax error: got newline, want ':'"},
		{"return githib.x()", "my_tool:1:8: "},
	} {
		err := c.Check(t.Context(), "my_tool", tt.code)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%q: %v", tt.code, err)
			}
			continue
		}
		var source *SourceError
		if !errors.As(err, &source) || !strings.HasPrefix(err.Error(), tt.want) || source.Position.Source == "" {
			t.Errorf("%q: %v, want %s", tt.code, err, tt.want)
		}
	}
	if len(u.calls()) > 0 {
		t.Error("a check made calls")
	}
	if a := (noCalls{}).CallTools(t.Context(), []abi.ToolCall{toolCall("s", "t", `{}`)}); a[0].Err == nil || a[0].Err.Type != abi.ErrPermission {
		t.Errorf("a checked script called a tool: %+v", a)
	}
}

// TestRunsAreIndependent checks that concurrent runs see only their own data.
func TestRunsAreIndependent(t *testing.T) {
	var u upstreams
	u.add("s.echo", func(_ context.Context, p []byte, progress func([]byte)) wire.Reply {
		progress([]byte(`{"progress":1,"total":2}`))
		args, _ := wire.Get(p, "arguments")
		return wire.Reply{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, args)}
	})
	c := composer(sandboxtest.Guest(t), &u)
	def := saved("print(params.i)\nreturn [s.echo(i=params.i).i for _ in range(5)]")
	done := make(chan string, 8)
	for i := range cap(done) {
		go func() {
			var s sink
			reply := c.CallSaved(t.Context(), def, route.Call{Params: params(fmt.Sprintf(`{"i":%d}`, i)), Progress: s.send})
			want := fmt.Sprintf(`[%[1]d,%[1]d,%[1]d,%[1]d,%[1]d]`, i)
			result, _ := wire.Get(reply.Result, "structuredContent", "result")
			logs, _ := wire.Get(reply.Result, "structuredContent", "logs")
			if string(result) != want || string(logs) != fmt.Sprintf(`["%d"]`, i) || len(s.params) != 10 {
				done <- fmt.Sprintf("run %d: %s, %d notifications", i, reply.Result, len(s.params))
				return
			}
			done <- ""
		}()
	}
	for range cap(done) {
		if problem := <-done; problem != "" {
			t.Error(problem)
		}
	}
}

func BenchmarkCallSaved(b *testing.B) {
	var u upstreams
	u.result("s.t", `{"structuredContent":{"n":1}}`)
	c := composer(sandboxtest.Guest(b), &u)
	def := saved("return s.t(a=params.a).n")
	call := route.Call{Params: params(`{"a":1}`)}
	for b.Loop() {
		if r := c.CallSaved(b.Context(), def, call); len(r.Result) == 0 {
			b.Fatal("no result")
		}
	}
}
