package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// loops compares one iteration of tight loops in the sandbox and in the interpreter
// without one. The time of a script with few iterations is taken off.
func loops(t *testing.T, line lineFunc) {
	const many, few = 20_000, 10
	s := realSandbox(t)
	for _, l := range []struct{ name, body string }{
		{"empty loop", "pass"},
		{"n += 1", "n += 1"},
		{"d.get(k)", "d.get(k)"},
		{"f(x)", "f(x)"},
	} {
		script := func(n int) workload {
			code := "def f(x):\n    return x\nd = {'a': 1}\nk = 'a'\nx = 5\ndef run():\n    n = 0\n    for i in range(%d):\n        %s\n    return n\nrun()\nreturn 0"
			return workload{l.name, fmt.Sprintf(code, n, l.body), "{}"}
		}
		m := takeTurns(15, 1, map[string]func(){
			"many": func() { script(many).sandboxed(t, s.base) }, "few": func() { script(few).sandboxed(t, s.base) },
			"native many": func() { script(many).native(t) }, "native few": func() { script(few).native(t) },
		})
		each := func(a, b string) time.Duration { return (m[a] - m[b]) / (many - few) }
		inside, outside := each("many", "few"), each("native many", "native few")
		line("iteration of "+l.name, inside.String(), "native "+outside.String(), times(inside, outside), "at most 12x")
	}
}

// longTool measures a tool with 300 lines, most of which a run does not reach.
func longTool(t *testing.T, line lineFunc) {
	s := realSandbox(t)
	var code strings.Builder
	for i := range 75 {
		fmt.Fprintf(&code, "def step%d(x):\n    if x %% 2 == 0:\n        return {'n': x, 'half': x // 2}\n    return {'n': x, 'odd': True}\n", i)
	}
	code.WriteString("return [step1(params.a), step2(params['b'])]")
	w := workload{"long", code.String(), trivial.params}
	m := takeTurns(15, 2, map[string]func(){"sandboxed": func() { w.sandboxed(t, s.base) }, "native": func() { w.native(t) }})
	line("tool with 300 lines", short(m["sandboxed"]), "native "+short(m["native"]), times(m["sandboxed"], m["native"]), "at most 0.7x")
}
