package interp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

var long = flag.Bool("long", false, "run more generated programs")

// A reachGen writes programs that pass servers, tools and their names around in all ways
// that there are, and call what they find. Most of what they do fails, which they catch.
type reachGen struct {
	rng    *rand.Rand
	out    strings.Builder
	indent int
	hides  bool // variables may have the names of servers
}

func generateReach(seed uint64) string {
	g := &reachGen{rng: rand.New(rand.NewPCG(seed, 3)), hides: seed%3 == 0}
	g.line("from functools import partial, reduce")
	g.line("from operator import attrgetter, itemgetter, methodcaller")
	g.line("from copy import copy, deepcopy")
	g.line("a, b, c, d = %s, %s, %s, \"t1\"", g.pick("demo", "None"), g.server(), g.pick("demo.t2", "1"))
	if g.rng.IntN(3) == 0 {
		g.line("global_server = %s", g.server())
	}
	for range 6 + g.rng.IntN(10) {
		g.line("try:")
		g.indent++
		g.statement(3)
		g.indent--
		g.line("except Exception as e:")
		g.line("    pass")
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		g.line("try:")
		g.line("    %s.last({})", name)
		g.line("except Exception:")
		g.line("    pass")
	}
	return g.out.String()
}

func (g *reachGen) line(format string, args ...any) {
	fmt.Fprintf(&g.out, "%s%s\n", strings.Repeat("    ", g.indent), fmt.Sprintf(format, args...))
}

func (g *reachGen) pick(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *reachGen) server() string { return g.pick("demo", "other", "tools", "demo") }

func (g *reachGen) name() string {
	if g.hides && g.rng.IntN(4) == 0 {
		return g.pick("demo", "other")
	}
	return g.pick("a", "b", "c", "d")
}

func (g *reachGen) tool() string {
	return g.pick("echo", "search", "t1", "t2", "raw", "items", "format")
}

// text writes an expression whose value is often a text.
func (g *reachGen) text(depth int) string {
	if depth <= 0 {
		return g.pick(`"echo"`, `"t1"`, `"t" "2"`, "d", "c")
	}
	switch g.rng.IntN(6) {
	case 0:
		return fmt.Sprintf("%s + %s", g.text(depth-1), g.text(depth-1))
	case 1:
		return fmt.Sprintf("f\"%s{%s}\"", g.pick("", "t"), strings.ReplaceAll(g.text(depth-1), `"`, "'"))
	case 2:
		return fmt.Sprintf("(%s if params.x else %s)", g.text(depth-1), g.text(depth-1))
	case 3:
		return fmt.Sprintf("str(%s)", g.text(depth-1))
	default:
		return g.text(0)
	}
}

// value writes an expression whose value is often a server, a tool, or holds one.
func (g *reachGen) value(depth int) string {
	if depth <= 0 {
		return g.pick(g.server(), g.server()+"."+g.tool(), g.name(), "None", "c")
	}
	v := func() string { return g.value(depth - 1) }
	switch g.rng.IntN(30) {
	case 0:
		return fmt.Sprintf("[%s, %s][0]", v(), v())
	case 1:
		return fmt.Sprintf("{'k': %s}[\"k\"]", v())
	case 2:
		return fmt.Sprintf("{'k': %s}.k", v())
	case 3:
		return fmt.Sprintf("(%s or %s)", v(), v())
	case 4:
		return fmt.Sprintf("(%s and %s)", v(), v())
	case 5:
		return fmt.Sprintf("(%s if %s else %s)", v(), g.pick("params.x", v()), v())
	case 6:
		return fmt.Sprintf("%s.%s", v(), g.tool())
	case 7:
		return fmt.Sprintf("%s[%s]", v(), g.text(2))
	case 8:
		return fmt.Sprintf("getattr(%s, %s)", v(), g.text(1))
	case 9:
		return fmt.Sprintf("(lambda %s: %s)(%s)", g.name(), v(), v())
	case 10:
		return fmt.Sprintf("(lambda s=%s: s)()", v())
	case 11:
		return fmt.Sprintf("[s for s in [%s, %s]][-1]", v(), v())
	case 12:
		return fmt.Sprintf("next(s for s in (%s, %s))", v(), v())
	case 13:
		return fmt.Sprintf("(%s := %s)", g.name(), v())
	case 14:
		return fmt.Sprintf("list(map(lambda s: s.%s, [%s]))[0]", g.tool(), v())
	case 15:
		return fmt.Sprintf("partial(getattr, %s)(%s)", v(), g.text(1))
	case 16:
		return fmt.Sprintf("attrgetter(%s)(%s)", g.text(0), v())
	case 17:
		return fmt.Sprintf("itemgetter(%s)(%s)", g.text(0), v())
	case 18:
		return fmt.Sprintf("parallel([lambda: %s, lambda: %s])[0]", v(), v())
	case 19:
		return fmt.Sprintf("parallel_map(lambda s: %s, [%s])[0]", g.pick("s", "s.t1", "s[d]", v()), v())
	case 20:
		return fmt.Sprintf("copy(%s)", v())
	case 21:
		return fmt.Sprintf("dict(k=%s)[\"k\"]", v())
	case 22:
		return fmt.Sprintf("max([%s], key=lambda s: 1)", v())
	case 23:
		return fmt.Sprintf("[%s(), 1][0]", v())
	case 24:
		return fmt.Sprintf("%s({})", v())
	case 25:
		return fmt.Sprintf("methodcaller(%s)(%s)", g.text(0), v())
	case 26:
		return fmt.Sprintf("reduce(lambda x, y: y, [1, %s])", v())
	default:
		return g.value(0)
	}
}

func (g *reachGen) block(depth int) {
	g.indent++
	for range 1 + g.rng.IntN(3) {
		g.statement(depth - 1)
	}
	g.indent--
}

func (g *reachGen) statement(depth int) {
	n := g.rng.IntN(16)
	if depth <= 0 {
		n = 8
	}
	switch n {
	case 0:
		g.line("for %s in [%s, %s]:", g.name(), g.value(1), g.value(1))
		g.block(depth)
	case 1:
		g.line("for %s, %s in [(%s, %s)]:", g.name(), "d", g.value(1), g.text(1))
		g.block(depth)
	case 2:
		g.line("if %s:", g.value(2))
		g.block(depth)
	case 3:
		g.def(depth)
	case 4:
		g.line("class K:")
		g.line("    m = %s", g.value(1))
		g.line("    def __init__(self, v): self.v = v")
		g.line("    def __getattr__(self, n): return getattr(self.v, n)")
		g.line("    def __call__(self, *args): return %s", g.value(1))
		g.line("    def __getitem__(self, n): return self.v[n]")
		g.line("%s = K(%s)", g.name(), g.value(1))
		g.line("%s({})", g.pick("K.m.t1", "K(demo).t2", "K(other)['t1']", "K(1).m", "K(2)()"))
	case 5:
		g.line("match %s:", g.pick("["+g.value(1)+"]", g.value(1), "{'k': "+g.value(1)+"}"))
		g.indent++
		g.line("case [%s]:", g.pick("a", "b"))
		g.block(depth)
		g.line("case {'k': %s}:", g.pick("a", "b"))
		g.block(depth)
		g.line("case %s:", g.pick("c", "d"))
		g.block(depth)
		g.indent--
	case 6:
		g.line("try:")
		g.block(depth)
		g.line("    raise Error('x', details=1)")
		g.line("except Error as %s:", g.pick("e", "b"))
		g.block(depth)
		g.line("finally:")
		g.block(depth)
	case 7:
		g.line("while %s:", g.value(1))
		g.block(depth)
		g.line("    break")
	default:
		g.simple()
	}
}

func (g *reachGen) def(depth int) {
	kind := g.pick("", "yield", "nonlocal", "global")
	g.line("def f(x, y=%s, *args, k=%s, **more):", g.value(1), g.value(1))
	g.indent++
	if kind == "global" {
		g.line("global a, c")
	}
	for range 1 + g.rng.IntN(3) {
		g.statement(depth - 1)
	}
	if kind == "nonlocal" {
		g.line("z = %s", g.value(1))
		g.line("def g():")
		g.line("    nonlocal z")
		g.line("    z = %s", g.value(1))
		g.line("g()")
		g.line("z.t1({})")
	}
	if kind == "yield" {
		g.line("yield %s", g.value(1))
	} else {
		g.line("return %s", g.pick("x", "y", "k", "args[0]", "more.m", g.value(1)))
	}
	g.indent--
	call := fmt.Sprintf("f(%s, %s=%s)", g.value(1), g.pick("y", "k", "m"), g.value(1))
	if kind == "yield" {
		call = "next(" + call + ")"
	}
	g.line("%s = %s", g.name(), call)
	g.line("%s.%s({})", call, g.tool())
}

func (g *reachGen) simple() {
	switch g.rng.IntN(16) {
	case 0, 1, 2:
		g.line("%s = %s", g.name(), g.value(3))
	case 3, 4:
		g.line("%s.%s({})", g.value(2), g.tool())
	case 5:
		g.line("%s[%s]({})", g.value(2), g.text(2))
	case 6:
		g.line("undo(%s.%s, {})", g.value(2), g.tool())
	case 7:
		g.line("%s, %s = %s, %s", g.name(), g.name(), g.value(2), g.value(2))
	case 8:
		g.line("%s = %s = %s", g.name(), g.name(), g.value(2))
	case 9:
		g.line("d = %s", g.text(2))
	case 10:
		g.line("d += %s", g.text(1))
	case 11:
		g.line("a = [%s]; a.append(%s); a[0].%s({})", g.value(1), g.value(1), g.tool())
	case 12:
		g.line("parallel_map(%s, [{}])", g.value(2))
	case 13:
		g.line("undo(%s, {})", g.value(2))
	default:
		g.line("%s({})", g.value(3))
	}
}

// A followedGen writes programs in which servers and names are only passed around in ways
// that are followed, and which do not fail.
type followedGen struct{ reachGen }

func generateFollowed(seed uint64) string {
	g := &followedGen{reachGen{rng: rand.New(rand.NewPCG(seed, 4))}}
	g.line("a, b, c = %s, %s, %s", g.of(0), g.of(0), g.of(0))
	g.line("d = %s", g.pick(`"echo"`, `"t1"`))
	for range 4 + g.rng.IntN(8) {
		g.step(3)
	}
	return g.out.String()
}

// of writes an expression whose value is a server.
func (g *followedGen) of(depth int) string {
	if depth <= 0 {
		return g.pick("demo", "other", "tools")
	}
	switch g.rng.IntN(6) {
	case 0:
		return fmt.Sprintf("(%s %s %s)", g.of(depth-1), g.pick("or", "and"), g.of(depth-1))
	case 1:
		return fmt.Sprintf("(%s if %s else %s)", g.of(depth-1), g.pick("params.x", g.of(depth-1)), g.of(depth-1))
	case 2:
		return fmt.Sprintf("(%s := %s)", g.pick("a", "b", "c"), g.of(depth-1))
	}
	return g.pick(g.of(0), "a", "b", "c")
}

// called writes an expression whose value is the name of a tool.
func (g *followedGen) called(depth int) string {
	if depth <= 0 {
		return g.pick(`"echo"`, `"t1"`, `"t" "2"`, "d")
	}
	switch g.rng.IntN(4) {
	case 0:
		return fmt.Sprintf("%s + %s", g.called(depth-1), g.called(0))
	case 1:
		return fmt.Sprintf("f\"x{%s}\"", strings.ReplaceAll(g.called(0), `"`, "'"))
	case 2:
		return fmt.Sprintf("(%s if params.x else %s)", g.called(0), g.called(0))
	}
	return g.called(0)
}

func (g *followedGen) any() string {
	switch g.rng.IntN(3) {
	case 0:
		return fmt.Sprintf("%s[%s]", g.of(2), g.called(2))
	case 1:
		return fmt.Sprintf("getattr(%s, %s)", g.of(2), g.called(1))
	}
	return g.of(2) + "." + g.tool()
}

func (g *followedGen) step(depth int) {
	n := g.rng.IntN(12)
	if depth <= 0 {
		n += 4
	}
	switch n {
	case 0:
		g.line("for %s in [%s, %s]:", g.pick("a", "b"), g.of(1), g.of(1))
	case 1:
		g.line("for c, d in [(%s, %s), (%s, %s)]:", g.of(1), g.called(1), g.of(1), g.called(1))
	case 2:
		g.line("if %s:", g.of(2))
	case 3:
		g.line("def f(s=%s):", g.of(1))
		g.line("    return s.%s({})", g.tool())
		g.line("f()")
		return
	case 4, 5:
		g.line("%s = %s", g.pick("a", "b", "c"), g.of(2))
		return
	case 6:
		g.line("a, b = %s, %s", g.of(2), g.of(2))
		return
	case 7:
		g.line("d = %s", g.called(0))
		return
	case 8:
		g.line("undo(%s, {})", g.any())
		return
	default:
		g.line("%s({})", g.any())
		return
	}
	g.indent++
	g.step(depth - 1)
	g.step(depth - 1)
	g.indent--
}

// reachHost answers every call and records it.
type reachHost struct {
	fakeHost
	made []abi.ToolCall
}

func (h *reachHost) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	h.made = append(h.made, calls...)
	answers := make([]abi.Answer, len(calls))
	for i := range answers {
		answers[i] = withTape(abi.Answer{Value: []byte(`"t1"`)})
	}
	return answers, nil
}

func (h *reachHost) Undo(c abi.ToolCall) (*abi.CallError, error) {
	h.made = append(h.made, c)
	return nil, nil
}

// runReach runs a program and checks that every call that it makes is one that lint has
// foreseen. It returns the number of calls, and of those that are not allowed by a whole
// server.
func runReach(t *testing.T, code string, steps uint64) (calls, precise int) {
	t.Helper()
	l := Lint(code, testServers)
	host := &reachHost{}
	result, err := serve(abi.Request{
		Op: abi.OpRun, Name: "t", Code: code, Servers: testServers, Params: []byte(`{"x":"t2","tags":["a","b"]}`),
	}, host, steps)
	if err != nil && err.Type == abi.ErrInternal {
		t.Fatalf("%s\n%s", err.Message, code)
	}
	if !l.Derived && (err == nil || err.Type == abi.ErrRuntime) {
		t.Fatalf("nothing is known of a program that runs: %q, %v\n%s", result, err, code)
	}
	for _, c := range host.made {
		covered := false
		for _, r := range l.Reach {
			if r.Covers(c) {
				covered = true
				if r.Tool != "" {
					precise++
				}
			}
		}
		if !covered {
			t.Fatalf("call of %s.%s (exact: %t) is not foreseen by %+v:\n%s", c.Server, c.Tool, c.Exact, l.Reach, code)
		}
	}
	return len(host.made), precise
}

// TestReachCoversCalls is the property that everything rests on: whatever a program does,
// it makes no call that was not foreseen. -long runs many more programs.
func TestReachCoversCalls(t *testing.T) {
	n := 40
	if *long {
		n = 5_000
	}
	calls, followed, precise := 0, 0, 0
	for seed := range n {
		made, _ := runReach(t, generateReach(uint64(seed)), 20_000)
		calls += made
		made, known := runReach(t, generateFollowed(uint64(seed)), 20_000)
		followed, precise = followed+made, precise+known
	}
	for _, code := range overlayCorpus(t) {
		runReach(t, code, 20_000)
	}
	t.Logf("%d programs made %d calls; %d programs made %d, of which %d were foreseen by name", n, calls, n, followed, precise)
	if calls < n || followed < n || precise < followed/2 {
		t.Error("the programs make too few calls to test anything, or too few are foreseen by name")
	}
}

// FuzzReach is the same for any code.
func FuzzReach(f *testing.F) {
	addScripts(f)
	seeds := 50
	if flag.Lookup("test.fuzz").Value.String() == "" {
		seeds = 5 // TestReachCoversCalls has them
	}
	for seed := range seeds {
		f.Add(generateReach(uint64(seed)))
		f.Add(generateFollowed(uint64(seed)))
	}
	f.Fuzz(func(t *testing.T, code string) { runReach(t, code, 20_000) })
}
