package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// echoTools answers with the arguments of the call; the tool "fail" fails.
func echoTools(_ context.Context, c abi.ToolCall) abi.Answer {
	if c.Tool == "fail" {
		return abi.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: c.Server, Tool: c.Tool, Message: "it is broken", Details: json.RawMessage(`{"code":7}`)}}
	}
	return abi.Answer{Value: c.Arguments}
}

func request(code, params string) abi.Request {
	return abi.Request{Op: abi.OpRun, Name: "tool", Code: code, Params: json.RawMessage(params), Servers: []string{"s"}}
}

// runScript runs code with the embedded guest.
func runScript(t testing.TB, ctx context.Context, code, params string, l Limits, c *fakeCaller) (Outcome, error) {
	t.Helper()
	if c.tools == nil {
		c.tools = echoTools
	}
	return realSandbox(t).Run(ctx, Run{Request: request(code, params), Limits: l, Caller: c})
}

// fineClock reports whether the clock is fine enough to measure a run. The clock of
// Windows advances in steps of up to 15 ms.
const fineClock = runtime.GOOS != "windows"

func TestScripts(t *testing.T) {
	for name, c := range map[string]struct {
		code, params, want string
		calls              int
	}{
		"trivial":         {code: "return 1 + 1", want: "2"},
		"params":          {code: "return [params.a, params['b']]", params: `{"a":"x","b":[1,null,true]}`, want: `["x",[1,null,true]]`},
		"large integers":  {code: "return [params.n + 1, 1 << 70]", params: `{"n":9007199254740993}`, want: `[9007199254740994,1180591620717411303424]`},
		"a call":          {code: "return s.echo({'n': params.n})", params: `{"n":12345678901234567890}`, want: `{"n":12345678901234567890}`, calls: 1},
		"keyword form":    {code: "return s.echo(a=1).a", want: "1", calls: 1},
		"calls in a loop": {code: "return [s.echo({'i': i}).i for i in range(20)]", want: "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]", calls: 20},
		"text of all kinds": {
			code: "return s.echo({'t': params.t})['t']", params: `{"t":"<&> \u2028 \ud83d\ude00 é \u0000"}`, want: `"<&> ` + "\u2028 \U0001F600 é" + ` \u0000"`, calls: 1,
		},
		"code points": {
			code: "t = params.t\nreturn [len(t), t[:3], t[-1], t.find('日'), t.count('ë'), list(t[:3]), t[::-1][0]]", params: `{"t":"Zoë日\ud83d\ude00"}`,
			want: `[5,"Zoë","\ud83d\ude00",3,1,["Z","o","ë"],"\ud83d\ude00"]`,
		},
		"a large message": {code: "return len(s.echo({'t': 'x' * 1000000}).t)", want: "1000000", calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.params == "" {
				c.params = "{}"
			}
			out, err := runScript(t, context.Background(), c.code, c.params, Limits{}, &fakeCaller{})
			if err != nil || out.Err != nil {
				t.Fatalf("%v, %+v", err, out.Err)
			}
			if !sameJSON(t, out.Result, c.want) {
				t.Errorf("got %s, want %s", out.Result, c.want)
			}
			if out.Calls != c.calls || out.Memory == 0 || fineClock && (out.Instantiate == 0 || out.Duration == 0) {
				t.Errorf("figures: %+v", out)
			}
		})
	}
}

// sameJSON compares JSON, including the text of numbers.
func sameJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	normal := func(b []byte) string {
		var v any
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return normal(got) == normal([]byte(want))
}

func TestScriptErrors(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		typ  abi.ErrorType
		line int
		has  string
	}{
		"runtime":     {"x = 1\nreturn x // 0", abi.ErrRuntime, 2, "division by zero"},
		"syntax":      {"return (", abi.ErrValidation, 1, ""},
		"undefined":   {"y = 2\nreturn nope", abi.ErrValidation, 2, "nope"},
		"tool":        {"\n\ns.fail({})", abi.ErrTool, 3, "it is broken"},
		"no infinity": {"return float('inf')", abi.ErrRuntime, 0, "inf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runScript(t, context.Background(), c.code, "{}", Limits{}, &fakeCaller{})
			if err != nil || out.Err == nil || out.Result != nil {
				t.Fatalf("%v, %+v", err, out)
			}
			e := out.Err
			if e.Type != c.typ || !strings.Contains(e.Message, c.has) ||
				c.line > 0 && (e.Position == nil || e.Position.Line != c.line || e.Position.File != "tool") {
				t.Errorf("%+v at %+v", e, e.Position)
			}
			if (e.Call != nil) != (c.typ == abi.ErrTool) || e.Call != nil && string(e.Call.Details) != `{"code":7}` {
				t.Errorf("call %+v", e.Call)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	s := realSandbox(t)
	for code, ok := range map[string]bool{"return s.echo({})": true, "return nope": false, "s.fail({})": true} {
		r := request(code, "")
		r.Op, r.Params = abi.OpCheck, nil
		caller := &fakeCaller{tools: echoTools}
		out, err := s.Run(context.Background(), Run{Request: r, Caller: caller})
		if err != nil || (out.Err == nil) != ok || len(caller.calls) > 0 {
			t.Errorf("%q: %v, %+v, %d calls", code, err, out.Err, len(caller.calls))
		}
	}
}

func TestLogs(t *testing.T) {
	caller := &fakeCaller{}
	out, err := runScript(t, context.Background(), "print('a', 1)\nprint('é'[:1])\nreturn None", "{}", Limits{}, caller)
	if err != nil || out.Err != nil {
		t.Fatal(err, out.Err)
	}
	if want := []string{"a 1", "é"}; !slices.Equal(caller.logs, want) {
		t.Errorf("logs %q, want %q", caller.logs, want)
	}

	caller = &fakeCaller{}
	out, err = runScript(t, context.Background(), "for i in range(10000): print('some text')\nreturn 'done'", "{}", Limits{Logs: 4096}, caller)
	if err != nil || string(out.Result) != `"done"` {
		t.Fatal(err, out.Err)
	}
	last := len(caller.logs) - 1
	if last > 4096/logEntryOverhead || !strings.HasPrefix(caller.logs[last], "the log is full (4 KiB)") || caller.levels[last] != abi.LogWarn {
		t.Errorf("%d entries, the last %q", len(caller.logs), caller.logs[last])
	}
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		code   string
		limits Limits
		want   Limit
		value  uint64
	}{
		"memory, list":    {"x = []\nwhile True: x.append('y' * 1000 + str(len(x)))", Limits{Memory: 32 << 20}, LimitMemory, 32 << 20},
		"memory, string":  {"x = 'y'\nwhile True: x += x", Limits{Memory: 32 << 20}, LimitMemory, 32 << 20},
		"memory to start": {"return 1", Limits{Memory: 1 << 20}, LimitMemory, 1 << 20},
		"calls":           {"for i in range(100): s.echo({})", Limits{Calls: 10}, LimitCalls, 10},
		"arguments":       {"return s.echo({'t': 'x' * 5000})", Limits{Arguments: 4 << 10}, LimitArguments, 4 << 10},
		"answer":          {"return len(s.echo({'t': 'x' * 5000}).t)", Limits{Answer: 4 << 10}, LimitAnswer, 4 << 10},
		"result":          {"return 'x' * 5000", Limits{Result: 4 << 10}, LimitResult, 4 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := runScript(t, context.Background(), c.code, "{}", c.limits, &fakeCaller{})
			var limit *LimitError
			if !errors.As(err, &limit) {
				t.Fatalf("%v, %+v", err, out)
			}
			if limit.Limit != c.want || limit.Value != c.value {
				t.Errorf("%+v", limit)
			}
			if out.Result != nil || out.Memory > DefaultMemory || c.limits.Memory > 0 && out.Memory > c.limits.Memory {
				t.Errorf("figures: %+v", out)
			}
			if c.limits.Calls > 0 && out.Calls != c.limits.Calls {
				t.Errorf("%d calls, want %d", out.Calls, c.limits.Calls)
			}
		})
	}
}

// TestRecursion checks that a recursive script reaches the interpreter's limit before
// the guest's or the host's stack overflows.
func TestRecursion(t *testing.T) {
	out, err := runScript(t, context.Background(), "def f(n): return f(n + 1) + 1\nreturn f(0)", "{}", Limits{}, &fakeCaller{})
	if err != nil || out.Err == nil || out.Err.Type != abi.ErrResource {
		t.Errorf("%v, %+v", err, out.Err)
	}
	out, err = runScript(t, context.Background(), "def f(n): return f(n - 1) + 1 if n else 0\nreturn f(500)", "{}", Limits{}, &fakeCaller{})
	if err != nil || string(out.Result) != "500" {
		t.Errorf("%v, %+v", err, out.Err)
	}
}

func TestStop(t *testing.T) {
	blocked := func(ctx context.Context, _ abi.ToolCall) abi.Answer {
		<-ctx.Done()
		return abi.Answer{Err: &abi.CallError{Type: abi.ErrTool, Message: "stopped"}}
	}
	cause := errors.New("the client went away")
	for name, c := range map[string]struct {
		code  string
		tools func(context.Context, abi.ToolCall) abi.Answer
		after bool // cancel once the script has printed
	}{
		"deadline in a loop":    {code: "while True: pass"},
		"deadline in a builtin": {code: "return sorted(range(5000000), key=lambda x: -x)"},
		"deadline in a call":    {code: "return s.slow({})", tools: blocked},
		"cancel in a loop":      {code: "print('go')\nwhile True: pass", after: true},
		"cancel in a call":      {code: "print('go')\nreturn s.slow({})", tools: blocked, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			realSandbox(t)
			caller := &fakeCaller{tools: c.tools}
			ctx, cancelCause := context.WithCancelCause(context.Background())
			defer cancelCause(nil)
			caller.onLog = func(string) { cancelCause(cause) }
			out, err := Outcome{}, error(nil)
			want := context.Canceled
			if !c.after {
				want = context.DeadlineExceeded
			}
			// A slow machine may not have begun when a deadline passes.
			for deadline := testenv.Quiet(20 * time.Millisecond); out.Memory == 0 && deadline < time.Hour; deadline *= 10 {
				ctx, cancel := ctx, context.CancelFunc(func() {})
				if !c.after {
					ctx, cancel = context.WithTimeout(ctx, deadline)
				}
				out, err = runScript(t, ctx, c.code, "{}", Limits{}, caller)
				cancel()
			}
			if !errors.Is(err, want) || c.after && !errors.Is(err, cause) {
				t.Fatalf("%v, want %v", err, want)
			}
			if out.Result != nil || out.Err != nil || out.Memory == 0 {
				t.Errorf("%+v", out)
			}
		})
	}
	t.Run("before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := runScript(t, ctx, "return 1", "{}", Limits{}, &fakeCaller{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	})
}

// TestConcurrent checks many runs at once, each with its own answers and failures.
func TestConcurrent(t *testing.T) {
	const runs = 100
	s := realSandbox(t)
	var wg sync.WaitGroup
	for n := range runs {
		wg.Go(func() {
			code, limits := "return s.echo({'n': params.n}).n * 2", Limits{Memory: 32 << 20}
			if n%10 == 3 {
				code = "fail('no ' + str(params.n))"
			}
			out, err := s.Run(context.Background(), Run{
				Request: request(code, fmt.Sprintf(`{"n":%d}`, n)), Limits: limits, Caller: &fakeCaller{tools: echoTools},
			})
			switch {
			case err != nil:
				t.Errorf("run %d: %v", n, err)
			case n%10 == 3 && (out.Err == nil || !strings.Contains(out.Err.Message, fmt.Sprintf("no %d", n))):
				t.Errorf("run %d: %+v", n, out.Err)
			case n%10 != 3 && string(out.Result) != fmt.Sprint(2*n):
				t.Errorf("run %d: %s", n, out.Result)
			}
		})
	}
	wg.Wait()
}

// TestIndependent checks that a run sees nothing of an earlier one and needs the same
// memory.
func TestIndependent(t *testing.T) {
	peak := func() uint64 {
		out, err := runScript(t, context.Background(), "return 1", "{}", Limits{}, &fakeCaller{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Memory
	}
	before := peak()
	for _, code := range []string{"x = 'y'\nwhile True: x += x", "json.encode = 1", "fail('x')", "while True: s.echo({})"} {
		if out, err := runScript(t, context.Background(), code, "{}", Limits{Memory: 16 << 20}, &fakeCaller{}); err == nil && out.Err == nil {
			t.Errorf("%q ended well", code)
		}
		if after := peak(); after != before {
			t.Errorf("after %q a run takes %d bytes, %d before", code, after, before)
		}
	}
}
