// Package abitest is the conformance suite of package abi: handmade guests, and how a run of each
// must end in a host that implements the contract. Begin with [Case] and [Script]; the contract as
// data is in [HostFunctions].
//
// The package needs no wasm runtime and no package of the host, so it can test any host, or a guest
// in another language.
package abitest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Marker is abi.Request.Withheld of the scripts and of the cases about withheld answers.
const Marker = "withheld-0123456789abcdef-"

// Script is a script in a planned run, and how a guest must run the script. The servers are "w",
// with withheld answers numbered from 1, and "r", which answers with the arguments. The host
// answers a call of w with abi.ToolCall.Caught by an error of type withheld.
type Script struct {
	Code string
	// Result is the result, in which Marker with a number stands for an answer; "" if the
	// guest must end the run with an error of type withheld.
	Result string
	// Calls are the called tools, in order.
	Calls []string
}

// Scripts returns scripts that pass withheld answers on, and scripts that look into withheld
// answers.
func Scripts() []Script {
	const made = "w.make"
	m := func(n int) string { return fmt.Sprintf("%q", fmt.Sprint(Marker, n)) }
	one := func(code, result string, calls ...string) Script {
		return Script{"a = w.make(x=1)\n" + code, result, append([]string{made}, calls...)}
	}
	passed := []Script{
		one("return a", m(1)),
		one("return {'k': [a, (a,)]}", `{"k":[`+m(1)+`,[`+m(1)+`]]}`),
		one("b = w.make(of=a)\nreturn [b, a]", "["+m(2)+","+m(1)+"]", made),
		one("return r.read(x=a).x", m(1), "r.read"),
		one("def f(x):\n    return [x]\nreturn f(a)[0]", m(1)),
		one("print(a)\nreturn 1", "1"),
		one("return [x for x in [a, 2]][1]", "2"),
		one("undo(w.drop, {'id': a})\nreturn 0", "0"),
		one("return len([a, a])", "2"),
		one("return parallel([lambda: w.make(of=a), lambda: r.read(x=1).x])", "["+m(2)+",1]", made, "r.read"),
	}
	for _, look := range []string{
		"a.x", "a['x']", "a[0]", "a()", "a == 1", "a != a", "a is None", "a < 1", "not a", "a or 1", "1 if a else 2", "a + 1", "-a",
		"len(a)", "str(a)", "repr(a)", "f'{a}'", "'%s' % a", "'{}'.format(a)", "type(a)", "isinstance(a, str)", "bool(a)", "hash(a)",
		"{a: 1}", "[a].index(a)", "a in [1]", "1 in a", "list(a)", "[x for x in a]", "sorted([a, a])", "max(a, 1)", "any([a])", "hasattr(a, 'x')",
		"getattr(a, 'x', 1)", "json.dumps([a])", "fail(a)", "range(a)", "w.make(**a)", "w[a]", "print([a])", "parallel(a)", "sum([a])",
	} {
		s := one("import json\ndef f():\n    try:\n        return "+look+"\n    except:\n        return 'caught'\n    finally:\n        r.late()\nreturn [f(), r.later()]", "")
		passed = append(passed, s)
	}
	return append(passed,
		one("for x in a:\n    r.late()", ""), one("if a:\n    pass\nreturn 1", ""), one("x, y = a\nreturn 1", ""), one("assert a\nreturn 1", ""),
		// The script could go on after a failure.
		Script{"try:\n    w.make()\nexcept:\n    r.late()\nreturn 1", "", []string{made}},
		Script{"try:\n    r.read()\nexcept:\n    pass\nreturn w.make()", m(1), []string{"r.read", made}},
	)
}

// Generated returns a random script without failures. The script makes reads and writes with known
// values and with the answers of writes, and looks into answers of reads and sometimes of writes.
// read, write and undo are calls, for example "demo.get": read answers an object with the argument
// n, an integer, and write and undo take anything.
func Generated(seed uint64, read, write, undo string) string {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 7)), read: read, write: write, undo: undo}
	g.line(0, "known, given = [%s(n=%d).n], []", read, seed%7)
	g.line(0, "def pass_on(x, *more):")
	g.line(0, "    return {'was': x, 'more': list(more)}")
	for range 3 + g.rng.IntN(8) {
		g.statement(0)
	}
	g.line(0, "return [known, given]")
	return g.out.String()
}

type generator struct {
	rng               *rand.Rand
	out               strings.Builder
	read, write, undo string
}

func (g *generator) line(depth int, format string, args ...any) {
	fmt.Fprintf(&g.out, "%s%s\n", strings.Repeat("    ", depth), fmt.Sprintf(format, args...))
}

// number writes an expression with an integer value known to the script.
func (g *generator) number() string {
	switch g.rng.IntN(4) {
	case 0:
		return "known[-1]"
	case 1:
		return fmt.Sprintf("(known[0] * %d + len(given))", g.rng.IntN(5))
	case 2:
		return "len(known)"
	}
	return fmt.Sprint(g.rng.IntN(100))
}

// value writes an expression for anything, often with withheld answers inside.
func (g *generator) value() string {
	switch g.rng.IntN(8) {
	case 0:
		return g.number()
	case 1:
		return fmt.Sprintf("{'of': %s, 'n': %s}", g.value(), g.number())
	case 2:
		return fmt.Sprintf("[%s, %s]", g.number(), g.value())
	case 3:
		return fmt.Sprintf("pass_on(%s, %s)", g.value(), g.number())
	case 4:
		return "[x for x in given]"
	case 5:
		return fmt.Sprintf("(given[-1] if given else %s)", g.number())
	case 6:
		return fmt.Sprintf("(lambda x: (x, 1))(%s)[0]", g.value())
	}
	return "given"
}

func (g *generator) statement(depth int) {
	n := g.rng.IntN(14)
	if depth > 2 {
		n = n % 5
	}
	switch n {
	case 0, 1, 2:
		g.line(depth, "given.append(%s(v=%s))", g.write, g.value())
	case 3:
		g.line(depth, "known.append(%s(n=%s).n)", g.read, g.number())
	case 4:
		g.line(depth, "%s(v=%s, n=%s)", g.write, g.value(), g.number())
	case 5:
		g.line(depth, "if %s %% %d:", g.number(), 2+g.rng.IntN(3))
		g.statement(depth + 1)
		g.line(depth, "else:")
		g.statement(depth + 1)
	case 6:
		g.line(depth, "for i in range(%s %% 4):", g.number())
		g.statement(depth + 1)
	case 7:
		g.line(depth, "undo(%s, {'v': %s})", g.undo, g.value())
	case 8:
		g.line(depth, "given += parallel([lambda: %s(v=%s), lambda: %s(v=%s)])", g.write, g.value(), g.write, g.value())
	case 9:
		g.line(depth, "known += [x.n for x in parallel_map(lambda n: %s(n=n), [%s, %s])]", g.read, g.number(), g.number())
	case 10:
		g.line(depth, "given += parallel_map(lambda n: %s(n=n), known)", g.write)
	case 11: // the plan ends here
		g.line(depth, "if given and %s:", g.look())
		g.statement(depth + 1)
	case 12:
		g.line(depth, "try:")
		g.line(depth+1, "given.append(%s(n=%s))", g.write, g.number())
		g.line(depth, "except Exception:")
		g.statement(depth + 1)
	default:
		g.line(depth, "commit()")
	}
}

// look writes an expression that depends on the content of an answer.
func (g *generator) look() string {
	return []string{"given[-1].n > 2", "str(given[0]) != ''", "given[0] == given[-1]", "len(given[-1]) > 1", "'n' in given[0]"}[g.rng.IntN(5)]
}
