package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// ownSandbox returns a Sandbox with a snapshot of its own, which has compiled no script.
func ownSandbox(t testing.TB) *Sandbox {
	t.Helper()
	s, err := realSandbox(t).Share(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.base = ownSnapshot(t)
	return s
}

// TestPreparedCorpus runs each script of the corpus three times: the first time it is
// compiled, the second time the state after compiling it is kept, and the third run
// starts from that. All three must be the same in all that can be seen, fuel included.
// Without -long it takes every fourth script.
func TestPreparedCorpus(t *testing.T) {
	s := ownSandbox(t)
	used := 0
	runs := corpus(t)
	if !*long {
		runs = slices.DeleteFunc(runs, func(r corpusRun) bool { return len(r.name)%4 > 0 })
	}
	for _, r := range runs {
		first := r.describe(s)
		if again := r.describe(s); again != first {
			t.Errorf("differs in the run that keeps the state:\n%s\n%s", first, again)
		}
		s.base.prepared.mu.Lock()
		kept := len(s.base.prepared.states)
		s.base.prepared.mu.Unlock()
		if again := r.describe(s); again != first {
			t.Errorf("differs in the run that starts from the state:\n%s\n%s", first, again)
		}
		used += min(kept, 1)
		s.base.prepared = newPreparedStates()
	}
	t.Logf("%d scripts, %d of them from a prepared state", len(runs), used)
	if used < len(runs)/2 {
		t.Errorf("only %d of %d scripts had a prepared state", used, len(runs))
	}
}

// TestPreparedLimits checks that a run reaches a limit of fuel at the same place whether
// it compiles the script or not.
func TestPreparedLimits(t *testing.T) {
	s := ownSandbox(t)
	const code = "def f(x):\n    return x + 1\ny = 0\nfor i in range(20):\n    y = f(y)\nreturn y"
	run := func(fuel uint64, repeats bool) (string, uint64) {
		out, err := s.Run(context.Background(), Run{Request: request(code, "{}"), Limits: Limits{Fuel: fuel}, Caller: &fakeCaller{}, Repeats: repeats})
		var limit *LimitError
		if errors.As(err, &limit) {
			return limit.Message, out.Fuel
		}
		if err != nil || out.Err != nil {
			t.Fatal(err, out.Err)
		}
		return string(out.Result), out.Fuel
	}
	result, all := run(0, false)
	if result != "20" {
		t.Fatal(result)
	}
	limits := []uint64{1, 1000, all / 4, all / 2, all * 3 / 4, all - 1, all, all + 1}
	type end struct {
		result string
		fuel   uint64
	}
	var want []end
	for _, fuel := range limits {
		s.base.prepared = newPreparedStates()
		r, used := run(fuel, false)
		want = append(want, end{r, used})
	}
	if run(0, true); len(s.base.prepared.states) != 1 {
		t.Fatal("the state is not kept")
	}
	for n, fuel := range limits {
		if r, used := run(fuel, true); r != want[n].result || used != want[n].fuel {
			t.Errorf("with %d units: %q with %d used, compiled: %q with %d", fuel, r, used, want[n].result, want[n].fuel)
		}
	}
}

// TestPreparedKey checks what makes a state that of another script.
func TestPreparedKey(t *testing.T) {
	base := abi.Request{Op: abi.OpRun, Name: "a", Code: "return 1", Servers: []string{"x", "y"}, AgentTools: []string{"t"}, Memory: 1 << 20}
	same := base
	same.Params = []byte(`{"a":1}`)
	if keyOf(base) != keyOf(same) {
		t.Error("the key depends on params")
	}
	for name, change := range map[string]func(*abi.Request){
		"name":       func(r *abi.Request) { r.Name = "b" },
		"code":       func(r *abi.Request) { r.Code += " " },
		"servers":    func(r *abi.Request) { r.Servers = []string{"x"} },
		"more":       func(r *abi.Request) { r.Servers = []string{"x", "y", "z"} },
		"joined":     func(r *abi.Request) { r.Servers = []string{"xy"} },
		"agentTools": func(r *abi.Request) { r.AgentTools = nil },
		"memory":     func(r *abi.Request) { r.Memory *= 2 },
	} {
		other := base
		if change(&other); keyOf(other) == keyOf(base) {
			t.Errorf("%s: the key is the same", name)
		}
	}
}

// TestPreparedStates checks which states are kept, and that they are bounded.
func TestPreparedStates(t *testing.T) {
	s := newPreparedStates()
	key := func(n int) programKey { return programKey{code: fmt.Sprint(n)} }
	if _, keep := s.get(key(0), false); keep {
		t.Error("a script is kept that was never run before")
	}
	if _, keep := s.get(key(0), false); !keep {
		t.Error("a script is not kept that runs again")
	}
	if _, keep := s.get(key(1), true); !keep {
		t.Error("a saved tool is not kept")
	}
	for n := range maxSeen {
		s.get(key(n+10), false)
	}
	if _, keep := s.get(key(0), false); keep {
		t.Errorf("a script is remembered after %d others", maxSeen)
	}
	const count = 10
	state := &prepared{changes: changes{content: make([]byte, maxPrepared/count)}}
	for n := range 3 * count {
		s.put(key(n), state)
		if got, _ := s.get(key(0), true); got != state {
			t.Fatalf("after %d states the one that is used most is gone", n)
		}
		if s.bytes > maxPrepared {
			t.Fatalf("%d bytes are kept", s.bytes)
		}
	}
	total := 0
	for k, e := range s.states {
		total += e.bytes
		if n := 0; k != key(0) {
			if fmt.Sscan(k.code, &n); n < 2*count {
				t.Errorf("state %d is kept, newer ones are not", n)
			}
		}
	}
	if total != s.bytes || len(s.states) != count-1 {
		t.Errorf("%d states with %d bytes, %d counted", len(s.states), total, s.bytes)
	}
	s.put(key(-1), &prepared{changes: changes{content: make([]byte, maxPrepared+1)}})
	if len(s.states) != count-1 {
		t.Error("a state that is too large has removed others")
	}
}

// TestManyServers checks that servers which a script does not mention cost it nothing, and
// that they are suggested when it fails to compile.
func TestManyServers(t *testing.T) {
	s := ownSandbox(t)
	run := func(code string, count int) Outcome {
		r := request(code, "{}")
		r.Servers = nil
		for n := range count {
			r.Servers = append(r.Servers, fmt.Sprintf("server%d", n))
		}
		out, err := s.Run(context.Background(), Run{Request: r, Caller: &fakeCaller{tools: echoTools}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, code := range []string{"return 1", "return server0.echo({'n': 1}).n", `return f"{server0.echo(n=1).n}"`} {
		few := run(code, 1)
		for _, count := range []int{20, 200} {
			if many := run(code, count); many.Fuel != few.Fuel || many.Err != nil || few.Err != nil {
				t.Errorf("%s: %d units with 1 server, %d with %d (%+v, %+v)", code, few.Fuel, many.Fuel, count, few.Err, many.Err)
			}
		}
	}
	for code, want := range map[string]string{
		"return server17.x({}) + nope": "undefined: nope",
		"return serve17.x({})":         "did you mean server17?",
		"return srv.x({})":             "the servers are server0, server1, server10",
	} {
		if out := run(code, 200); out.Err == nil || !strings.Contains(out.Err.Message, want) {
			t.Errorf("%s: %+v, want %q", code, out.Err, want)
		}
	}
}

func TestMentioned(t *testing.T) {
	names := []string{"a", "git", "git_hub", "x1", "_y"}
	for code, want := range map[string]string{
		"":                               "",
		"git.x()":                        "git",
		"git_hub.x(a)":                   "a git_hub",
		"x1":                             "x1",
		"x12 + agit + gita":              "",
		"f'{git}'\n# _y":                 "git _y",
		"é.git+_y":                       "git _y",
		"parallel(lambda:x1.f(), (git))": "git x1",
	} {
		if got := strings.Join(mentioned(code, names), " "); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}

// TestCompilingHasNoEffects checks that a guest cannot call tools, log, or answer with a
// result while it is asked to compile a script.
func TestCompilingHasNoEffects(t *testing.T) {
	for guest, want := range map[string]string{
		callingGuest:       "it calls the host while it compiles a script",
		"undo, commit":     "it calls the host while it compiles a script",
		"log and progress": "it calls the host while it compiles a script",
		"no response":      "it returned without a response",
		"result":           "unreachable", // its result is refused
	} {
		s := newSandbox(t, Options{Guest: guestNamed(t, guest)})
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		s.base.prepared = newPreparedStates()
		caller := &fakeCaller{tools: echoTools}
		_, err := s.Run(context.Background(), Run{Request: request("return 1", "{}"), Caller: caller, Repeats: true})
		var trap *TrapError
		if !errors.As(err, &trap) || trap.Reason != want {
			t.Errorf("%s: %v, want %q", guest, err, want)
		}
		if len(s.base.prepared.states) > 0 {
			t.Errorf("%s: its state is kept", guest)
		}
	}
}
