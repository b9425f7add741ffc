package interp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

func TestNamedTools(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"demo.search({})", `1:1 demo.search {}`},
		{"x = demo.a(q='b', n=-2, f=1.5, big=123456789012345678901234567890, t=True, no=None)", `1:5 demo.a {"q":"b","n":-2,"f":1.5,"big":123456789012345678901234567890,"t":true,"no":null}`},
		{"return demo['a-b'].raw({'x': [1, (2, {'k': y})], 'a' \"b\": f'{1}', f'c': not 1}, timeout=1, z=2) if 1 else 0\ny = 1",
			`1:8 demo["a-b"] {"x":[1,[2,{"k":null}]],"ab":null,"c":null,"z":2} unknown /x/1/1/k /ab /c`},
		{"demo.a(timeout=1)", `1:1 demo.a {"timeout":1}`},
		{"demo.a(params)\ndemo.a(*[])\ndemo.a({}, {})", "1:1 demo.a | 2:1 demo.a | 3:1 demo.a"},
		{"demo.a({'x': 1, params.k: 2}, **params)", `1:1 demo.a {"x":1} more`},
		{"demo.a({'x/~': params.x})", `1:1 demo.a {"x/~":null} unknown /x~1~0`},
		{"demo.a({'x': 1, 'x': 2})", "1:1 demo.a"},
		{"demo.a({'x': {1: 2}})", `1:1 demo.a {"x":null} unknown /x`},
		{"parallel_map(demo.echo, [1])\nundo(demo.a, id=1)\nt = demo.b\nt()", `1:14 demo.echo | 2:6 demo.a {"id":1} | 3:5 demo.b`},
		{"def undo(x, y):\n    return [x, y]\nundo(demo.a, 1)", "3:6 demo.a"},
		{"(demo.a)(x=1)\ntools.other({'y': [demo.b(c=1).z]})", `1:2 demo.a {"x":1} | 2:1 tools.other {"y":[null]} unknown /y/0 | 2:20 demo.b {"c":1}`},
		{"demo = {}\ndemo.get('x')\nparams.items()\njson.encode(1)\nfor other in []:\n    other.x()", ""},
		{"gitlab.x(a=1)\ngitlab.y", `1:1 gitlab.x {"a":1} undefined | 2:1 gitlab.y  undefined`},
		{"demo[params.name]({})\ndemo.a.b()", "2:1 demo.a"},
		{"True = 1\ndemo.a(x=True, **{})", `2:1 demo.a {"x":null} unknown /x more`},
	} {
		var got []string
		for _, n := range Lint(c.code, testServers).Calls {
			text := fmt.Sprintf("%d:%d %s %s", n.Position.Line, n.Position.Column, tool{server: n.Server, name: n.Tool, exact: n.Exact}.Name(), n.Arguments)
			if n.Unknown != nil {
				text += " unknown " + strings.Join(n.Unknown, " ")
			}
			if n.More {
				text += " more"
			}
			if n.Undefined {
				text += " undefined"
			}
			got = append(got, strings.TrimSpace(text))
		}
		if got := strings.Join(got, " | "); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.code, got, c.want)
		}
	}
	if n := len(Lint(strings.Repeat("demo.a()\n", 2000), testServers).Calls); n != maxNamedTools {
		t.Errorf("%d calls", n)
	}
}

func TestOutline(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"", ""},
		{"# only this\n", ""},
		{"x = 1\n", "x"},
		{"x\n", "value 1:1"},
		{"x = 1; x + 1\n", "x value 1:8"},
		{"a = 1\n(a +\n 2).b[0]('x') if a else 1, 2\n", "a value 2:1"},
		{"f'{1}' 'b'\n", "value 1:1"},
		{"-x\n", "value 1:1"},
		{"()\n", "value 1:1"},
		{"raise 'x'\n", ""},
		{"if 1:\n    raise\n", "block"},
		{"x = (\n", "open"},
		{"demo.a({\n  'b': [1,\n", "open"},
		{"def f(a,\n", "open"},
		{"def f():\n", "open"},
		{"def f():\n    # later\n", "open"},
		{"def f():\n    return 1\n", "f=1-2 block"},
		{"for x in y: pass\n", "x block"},
		{"try:\n", "open"},
		{"try:\n    x = 1\n", "open"},
		{"try:\n    x = 1\nexcept Error as e:\n", "open"},
		{"try:\n    x = 1\nexcept Error as e:\n    pass\n", "e x block"},
		{"x = \"\"\"a\n", "open"},
		{"x = f'''a {x}\nb'\n", "open"},
		{"x = r\"\"\"a\"\"\"\n", "x"},
		{"x = 1 + \\\n", "open"},
		{"x = 'a\n", ""},
		{"x =\n", ""},
		{"if x\n", ""},
		{"x = )\n", ""},
		{"import json as y\n", "y"},
		{"f = lambda x, y=1: x\ng = lambda x=demo.a(): x; h = 1\n", "f=1-1 g h"},
		{"a = 1; f = lambda: 1\n", "a f"},
		{"f = lambda: 1; a = 1\n", "f a"},
		{"if 1:\n    def f(): pass\n", "f block"},
		{"f = 1\ndef f():\n    return 1\nx.y = 1\nz, (w, x[0]) = 1, (2, 3)\nz += 1\n", "f z w"},
		{"def f(x=[d for d in []]): pass\ndef g(x={'a': -1 if 1 else f}): pass\ndef h(x=f'{demo.a()}'): pass\n", "f g=2-2 h block"},
	} {
		var got []string
		l := Lint(c.code, testServers)
		for _, b := range l.Bound {
			text := b.Name
			if b.First > 0 {
				text += fmt.Sprintf("=%d-%d", b.First, b.Last)
			}
			got = append(got, text)
		}
		if l.Open {
			got = append(got, "open")
		}
		if l.Block {
			got = append(got, "block")
		}
		if _, err := libraryOptions.Parse("", c.code, 0); err == nil && !l.Parses || l.Parses && l.Open {
			t.Errorf("%s\nparses: %v", c.code, l.Parses)
		}
		if v := l.Value; v != nil {
			got = append(got, fmt.Sprintf("value %d:%d", v.Line, v.Column))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.code, got, c.want)
		}
	}
}

// TestLineByLine checks that code that is typed line by line is not run, or refused, before
// its last line.
func TestLineByLine(t *testing.T) {
	for _, code := range []string{
		"def f():\n    for a in [1]:\n        try:\n            print(a)\n        except Exception as e:\n            print(e)\n        else:\n            pass\n        finally:\n            pass\n    return 1\n",
		"def f():\n    try:\n        try:\n            x = 1\n\n            # a comment\n        finally:\n            pass\n    except:\n        pass\n",
		"try:\n    if x:\n        pass\n    elif y:\n        try:\n            z = 1\n        except (KeyError, ValueError):\n            pass\n    else:\n        pass\nfinally:\n    pass\n",
		"for x in y:\n    while x:\n        break\n    else:\n        pass\nelse:\n    pass\n",
		"match x:\n    # the first\n    case 1 | 2:\n        y = 1\n        print(y)\n    case [a, *_] if a:\n        pass\n    case _:\n        y = 2\n        print(y)\n",
		"match x:\n    case _:\n        y = 2\n        print(y)\n",
		"match (x, y):\n\n    case (1, 2):\n        try:\n            pass\n        except:\n            pass\n",
		"@functools.cache\n# a comment\n@other(1,\n    2)\ndef f(a,\n      b=[\n        1]):\n    x = 1\n    return x\n",
		"class A:\n    x = 1\n    @property\n    def f(self):\n        return 1\n    def g(self):\n        return 2\n",
		"def f():\n    x = [\n1,\n{'a':\n 2}]\n    y = '''a\nb: \n'''\n    z = f\"\"\"{x}\n:\n\"\"\"\n    w = 1 + \\\n2\n    return x\n",
		"def f():\n    \"\"\"Says\n\n    what.\n    \"\"\"\n    return 1\n",
		"if x:  # a comment\n    def f(): pass\n    y = f()\nelse: pass\n",
	} {
		lines := strings.SplitAfter(strings.TrimSuffix(code, "\n"), "\n")
		for n := 1; n < len(lines); n++ {
			l := Lint(strings.Join(lines[:n], ""), testServers)
			if !l.Open && !l.Block {
				t.Errorf("%s\nis complete", strings.Join(lines[:n], ""))
			}
		}
		if l := Lint(code, testServers); l.Open || !l.Block || !l.Parses || l.Value != nil {
			t.Errorf("%s\n%+v", code, l)
		} else if slices.ContainsFunc(l.Bound, func(b abi.Binding) bool { return isHidden(b.Name) }) {
			t.Errorf("%s\nbinds %+v", code, l.Bound)
		}
	}
	for _, code := range []string{
		"def f():\n    try:\n        x = 1\n    y = 2\n", "try:\n    x = 1\ny\n", "match:\n", "match x\n", "match x:\ny = 1\n", "try: x = 1\nelse:\n", "x = 1:\n", "@f\nx = 1\n",
	} {
		if l := Lint(code, testServers); l.Open || l.Block || l.Parses {
			t.Errorf("%s\n%+v", code, l)
		}
	}
}

// libraryOptions are the language of the library's own parser.
var libraryOptions = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
