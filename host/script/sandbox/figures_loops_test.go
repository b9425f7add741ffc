package sandbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// loops compares one iteration of tight loops in the sandbox and in the interpreter
// without one. The time of a script with few iterations is taken off.
func loops(t *testing.T, all *table) {
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
		all.ratio("iteration of "+l.name+", against native", inside, outside, 12)
		all.time("  in the sandbox: "+l.name, inside, 0)
	}
}

// longTool is a tool with 300 lines, most of which a run does not reach.
func longTool() workload {
	var code strings.Builder
	for i := range 75 {
		fmt.Fprintf(&code, "def step%d(x):\n    if x %% 2 == 0:\n        return {'n': x, 'half': x // 2}\n    return {'n': x, 'odd': True}\n", i)
	}
	code.WriteString("return [step1(params.a), step2(params['b'])]")
	return workload{"long", code.String(), trivial.params}
}

// saved measures saved tools, which are compiled once.
func saved(t *testing.T, all *table) {
	s := realSandbox(t)
	run := func(w workload) func() {
		r := Run{Request: w.request(), Caller: &workloadTools{}, Repeats: true}
		return func() {
			if out, err := s.Run(context.Background(), r); err != nil || out.Err != nil {
				t.Fatal(out.Err, err)
			}
		}
	}
	long := longTool()
	first := 0
	m := takeTurns(40, 5, map[string]func(){
		"trivial": run(trivial), "trivial native": func() { trivial.native(t) },
		"long": run(long), "long native": func() { long.native(t) },
		"long first": func() {
			w := long
			first++
			r := Run{Request: w.request(), Caller: &workloadTools{}, Repeats: true}
			r.Request.Name = fmt.Sprint("first", first)
			if out, err := s.Run(context.Background(), r); err != nil || out.Err != nil {
				t.Fatal(out.Err, err)
			}
		},
	})
	all.ratio("trivial saved tool, against native", m["trivial"], m["trivial native"], 3.5)
	all.time("  in the sandbox: trivial saved tool", m["trivial"], 0)
	all.ratio("saved tool with 300 lines, against native", m["long"], m["long native"], 0.7)
	all.ratio("  the same, first run", m["long first"], m["long native"], 0)
}

// manyServers measures runs with many configured servers, of which a script names one.
func manyServers(t *testing.T, all *table) {
	s := realSandbox(t)
	run := func(count int) func() {
		w := workload{"servers", "return server0.echo({'n': 1}).n", "{}"}
		r := Run{Request: w.request(), Caller: &workloadTools{}}
		r.Request.Servers = nil
		for n := range count {
			r.Request.Servers = append(r.Request.Servers, fmt.Sprint("server", n))
		}
		n := 0
		return func() {
			n++
			r.Request.Name = fmt.Sprint("servers", count, "-", n)
			if out, err := s.Run(context.Background(), r); err != nil || out.Err != nil {
				t.Fatal(out.Err, err)
			}
		}
	}
	m := takeTurns(40, 5, map[string]func(){"1": run(1), "20": run(20), "200": run(200)})
	all.ratio("eval_starlark with 20 servers, against 1", m["20"], m["1"], 0)
	all.ratio("eval_starlark with 200 servers, against 1", m["200"], m["1"], 0)
}
