package interp

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// reachText returns what a script can call as text: demo.x, demo["x"], demo.*
func reachText(code string) string {
	l := Lint(code, testServers)
	if !l.Derived {
		return "not derived"
	}
	var all []string
	for _, r := range l.Reach {
		switch {
		case r.Tool == "":
			all = append(all, r.Server+".*")
		case r.Exact:
			all = append(all, fmt.Sprintf("%s[%q]", r.Server, r.Tool))
		default:
			all = append(all, r.Server+"."+r.Tool)
		}
	}
	return strings.Join(all, " ")
}

func TestReach(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"", ""},
		{"return 1", ""},
		{"x = = 1", "not derived"},
		{"return nobody.tool({})", "not derived"},
		{"return demo.search({})", "demo.search"},
		{"return demo.search({}), demo.echo(a=1), demo.search({})", "demo.echo demo.search"},
		{`return demo["odd-name"]({}), demo["echo"]()`, `demo["echo"] demo["odd-name"]`},
		{`return demo["a" "b" + "c"]()`, `demo["abc"]`},
		{`return demo[f"a{'b'}c"]()`, `demo["abc"]`},
		{`return demo[f"{'b'!r}"]()`, "demo.*"},
		{`return demo[("a")](), demo["a" if params.x else "b"]()`, `demo["a"] demo["b"]`},
		{"return demo[params.x]({})", "demo.*"},
		{"return demo[params.x]({}), demo.echo({}), other.x()", "demo.* other.x"},
		{`return demo[""]({})`, ""},
		{"return demo.search.raw({})", "demo.search"},
		{"return demo.raw({})", "demo.raw"},
		{"return demo['raw'].raw({})", `demo["raw"]`},
		{"return (demo).echo({})", "demo.echo"},
		{"undo(demo.delete, {}); commit()", "demo.delete"},
		{"undo(demo[params.t], {})", "demo.*"},
		{"return tools.other({}), tools['x-y']()", `tools.other tools["x-y"]`},
		{"return tools[params.n]({})", "tools.*"},
		{"t = tools\nreturn t.a()", "tools.a"},

		// Aliases of servers.
		{"gh = demo\nreturn gh.search({})", "demo.search"},
		{"gh = demo\nh = gh\nreturn h.search({})", "demo.search"},
		{"h = gh = demo\nreturn [h.a(), gh.b()]", "demo.a demo.b"},
		{"gh = demo if params.x else other\nreturn gh.search({})", "demo.search other.search"},
		{"gh = params.x and demo or other\nreturn gh.search({})", "demo.search other.search"},
		{"gh = None\ngh = gh or demo\nreturn gh.a()", "demo.a"},
		{"a, b = demo, other\nreturn a.x(), b.y()", "demo.x other.y"},
		{"(a, [b, c]) = (demo, [other, demo])\nreturn a.x(), b.y(), c.z()", "demo.x demo.z other.y"},
		{"a, b = (demo, other) if params.x else (other, demo)\na.x()", "demo.* other.*"},
		{"a, *b = demo, other\nreturn b[0].y()", "demo.* other.*"},
		{"if (s := demo): return s.x()", "demo.x"},
		{"return (s := demo).x(), s.y()", "demo.x demo.y"},
		{"def f(s=demo):\n    return s.x()\nreturn f()", "demo.x"},
		{"f = lambda s=demo: s.x()\nreturn f()", "demo.x"},
		{"for s in [demo, other]:\n    s.x()", "demo.x other.x"},
		{"for s, n in [(demo, 'a'), (other, 'b')]:\n    s[n]()", `demo["a"] demo["b"] other["a"] other["b"]`},
		{"return [s.x() for s in (demo, other)]", "demo.x other.x"},
		{"for s in {'a': demo}.values():\n    s.x()", "demo.*"},
		{"while True:\n    s = demo\n    s.x()", "demo.x"},
		{"def f():\n    return gh.x()\ngh = demo\nreturn f()", "demo.x"},
		{"def f():\n    global gh\n    gh = demo\nf()\nreturn gh.x()", "demo.*"},
		{"def f():\n    s = None\n    def g():\n        nonlocal s\n        s = demo\n    g()\n    return s.x()\nreturn f()", "demo.*"},
		{"try:\n    s = demo\nexcept Error:\n    pass\nreturn s.x()", "demo.*"},

		// Values that go elsewhere.
		{"return demo", "demo.*"},
		{"demo", "demo.*"},
		{"def f(s):\n    return s.x()\nreturn f(demo)", "demo.*"},
		{"def f(*a, **k):\n    return k.s.x()\nreturn f(s=demo)", "demo.*"},
		{"def f():\n    return demo\nreturn f().x()", "demo.*"},
		{"return (lambda: demo)().x()", "demo.*"},
		{"return [demo][0].x()", "demo.*"},
		{"return {'s': demo}['s'].x()", "demo.*"},
		{"return {'s': demo}.s.x()", "demo.*"},
		{"return {s for s in [demo]}.pop().x()", "demo.*"},
		{"d = {}\nd.s = demo\nreturn d.s.x()", "demo.*"},
		{"d = [0]\nd[0] = demo\nreturn d[0].x()", "demo.*"},
		{"d = [0]\nd[0:1] = [demo]\nreturn d[0].x()", "demo.*"},
		{"d = []\nd.append(demo)\nreturn d[0].x()", "demo.*"},
		{"d = []\nd += [demo]\nreturn d[0].x()", "demo.*"},
		{"class A:\n    s = demo\nreturn A().s.x()", "demo.*"},
		{"class A:\n    def __init__(self):\n        self.s = demo\n    def go(self):\n        return self.s.x()\nreturn A().go()", "demo.*"},
		{"class A:\n    def __getattr__(self, n):\n        return demo[n]\nreturn A().x()", "demo.*"},
		{"from dataclasses import dataclass\n@dataclass\nclass A:\n    s: object = demo\nreturn A().s.x()", "demo.*"},
		{"def f():\n    yield demo\nreturn next(f()).x()", "demo.*"},
		{"return next(s for s in [demo]).x()", "demo.*"},
		{"return list(map(lambda s: s.x(), [demo]))", "demo.*"},
		{"match demo:\n    case s:\n        return s.x()", "demo.*"},
		{"match demo:\n    case s if s.ok():\n        return s.x()\n    case _:\n        return demo.y()", "demo.*"},
		{"match [demo]:\n    case [s]:\n        return s.x()", "demo.*"},
		{"match params:\n    case {'a': a} if demo.check(): return 1", "demo.check"},
		{"from functools import partial\nreturn partial(getattr, demo)('x')()", "demo.*"},
		{"from operator import attrgetter\nreturn attrgetter('x')(demo)()", "demo.*"},
		{"from operator import itemgetter\nreturn itemgetter('x')(demo)()", "demo.*"},
		{"return '{0.x}'.format(demo)", "demo.*"},
		{"return f'{demo}'", "demo.*"},
		{"return f'{demo.x()}'", "demo.x"},
		{"return f'{1:{demo.x()}}'", "demo.x"},
		{"return demo.echo({'s': demo.search({})})", "demo.echo demo.search"},
		{"return demo.echo({'s': other})", "demo.echo other.*"},
		{"raise Error('x', details=demo)", "demo.*"},
		{"def f(x):\n    return x\nreturn f(x=demo).y()", "demo.*"},
		{"@demo.wrap\ndef f(): pass", "demo.wrap"},
		{"@demo\ndef f(): pass", ""}, // a server cannot be called
		{"return demo({})", ""},
		{"assert demo.ok(), demo.why()", "demo.ok demo.why"},
		{"try:\n    demo.a()\nexcept demo.b():\n    demo.c()\nelse:\n    demo.d()\nfinally:\n    demo.e()", "demo.a demo.b demo.c demo.d demo.e"},
		{"x = [demo.a() for y in demo.b() if demo.c()]", "demo.a demo.b demo.c"},
		{"x = [1]\nx[demo.a()] = demo.b()\ndel x[demo.c()]", "demo.a demo.b demo.c"},
		{"x = 1\nx += demo.a()\nx = x[demo.b():demo.c():demo.d()]", "demo.a demo.b demo.c demo.d"},
		{"return -demo.a() < demo.b() < demo.c() is not demo.d()", "demo.a demo.b demo.c demo.d"},

		// Functions, tools as values.
		{"f = demo.search\nreturn f({})", "demo.search"},
		{"return parallel([lambda: demo.a(), demo.b])", "demo.a demo.b"},
		{"return parallel_map(demo.a, [{}])", "demo.a"},
		{"return parallel_map(lambda t: t({}), [demo.a, demo.b.raw])", "demo.a demo.b"},
		{"return parallel_map(lambda s: s.a(), [demo, other])", "demo.* other.*"},
		{"return parallel_map(lambda n: demo[n](), ['a', 'b'])", "demo.*"},
		{"return [demo[n]() for n in ['a', 'b']]", `demo["a"] demo["b"]`},
		{"for n in 'a', 'b':\n    demo['x_' + n]()", `demo["x_a"] demo["x_b"]`},
		{"n = 'a'\nreturn demo[n]()", `demo["a"]`},
		{"n = 'a'\nif params.x:\n    n = 'b'\nreturn demo[n]()", `demo["a"] demo["b"]`},
		{"n = 'a'\nn += params.x\nreturn demo[n]()", "demo.*"},
		{"n = 'a'\nfor n in params.tags: pass\nreturn demo[n]()", "demo.*"},
		{"n = 'a'\ndef f(n):\n    return demo[n]()\nreturn f('b')", "demo.*"},
		{"def f(n='a'):\n    return demo[n]()\nreturn f('b')", "demo.*"},
		{"n = 'a'\ndef f():\n    global n\n    n = params.x\nf()\nreturn demo[n]()", "demo.*"},
		{"n = 'a'\nwhile params.x:\n    n = n + 'a'\nreturn demo[n]()", "demo.*"},
		{"def n(): pass\nreturn demo[n]", "demo.*"},
		{"return getattr(demo, 'a')()", "demo.a"},
		{"return getattr(demo, params.x, None)()", "demo.*"},
		{"return getattr(*[demo, 'a'])()", "demo.*"},
		{"g = getattr\nreturn g(demo, 'a')()", "demo.*"},
		{"def getattr(a, b): return a.z\nreturn getattr(demo, 'a')()", "demo.*"},
		{"return hasattr(demo, 'a')", "demo.*"},
		{"return vars(demo), dir(demo), repr(demo), type(demo)", "demo.*"},

		// Names that hide servers.
		{"def f(demo):\n    return demo.x()\nreturn f(1)", ""},
		{"return [demo.x for demo in params.tags]", ""},
		{"return (lambda demo: demo.x)(params)", ""},
		{"def f():\n    demo = params\n    return demo.x\nreturn f()", ""},
		{"demo = params\nreturn demo.x", "demo.x"}, // at the top level it begins as the server
		{"x = demo.x\ndemo = 1\nreturn x()", "demo.x"},
		{"x = demo\ndemo = 1\nreturn x.y()", "demo.y"},
		{"def f():\n    return demo.x()\nf()\ndemo = params", "demo.x"},
		{"import math as demo\nreturn demo.pi", "demo.pi"},
		{"class demo: pass\nreturn demo()", ""},
		{"params.demo.x\nreturn params['demo'].y", ""},
		{"def f(demo=1): pass\nf(demo=2)", ""},
		{"return {'demo': 1}.demo", ""},
	} {
		if got := reachText(c.code); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.code, got, c.want)
		}
	}
}

func TestReachPosition(t *testing.T) {
	l := Lint("x = 1\nreturn [demo.a(),\n  demo[params.x]]", testServers)
	want := []abi.Reached{{Server: "demo", Line: 3, Column: 8}}
	if !slices.Equal(l.Reach, want) {
		t.Errorf("%+v", l.Reach)
	}
}

// TestReachIsBounded checks that code with very many tools, or with variables that depend
// on each other, does not make the answer or the work grow without bounds.
func TestReachIsBounded(t *testing.T) {
	var many, chain strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "demo.t%d()\n", i)
	}
	chain.WriteString("v0 = demo\n")
	for i := range 300 {
		fmt.Fprintf(&chain, "v%d = v%d\n", 300-i, 299-i)
	}
	chain.WriteString("v300.x()")
	doubled := "v0 = 'a'\n"
	for i := range 60 {
		doubled += fmt.Sprintf("v%d = v%d + f'{v%d}'\n", i+1, i, i)
	}
	if got := reachText(doubled + "demo[v60]()\nother[v3]()"); got != `demo.* other["aaaaaaaa"]` {
		t.Errorf("%.200s", got)
	}
	if got := reachText(many.String()); got != "demo.*" {
		t.Errorf("%.200s", got)
	}
	if got := reachText(chain.String()); got != "demo.* other.* tools.*" {
		t.Errorf("%.200s", got)
	}
}

// TestPermissionsPage checks the table in docs/permissions.md.
func TestPermissionsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| script | permissions |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 15 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), "` | ")
		code := strings.TrimPrefix(cells[0], "`")
		want := ""
		if len(cells) > 1 {
			want = strings.ReplaceAll(cells[1], "`", "")
		} else {
			code = strings.TrimSuffix(code, "` |")
		}
		code = strings.TrimSuffix(strings.TrimSpace(code), "`")
		l := Lint(strings.ReplaceAll(code, "; ", "\n"), []string{"github", "files"})
		var got []string
		for _, r := range l.Reach {
			if r.Tool == "" {
				r.Tool = "*"
			}
			got = append(got, r.Server+"."+r.Tool)
		}
		if !l.Derived || strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", code, got, want)
		}
	}
}
