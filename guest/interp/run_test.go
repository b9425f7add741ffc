package interp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

func TestCheck(t *testing.T) {
	host := &fakeHost{}
	for code, want := range map[string]string{
		"demo.search({}); fail('not run')": "null\n",
		"":                                 "null\n",
		"x = ":                             "error: validation\nmessage: syntax error: got end of file, want primary expression\nat: t:1:5\n  | x = \n  |     ^\n",
		"zyzzyva({})":                      "error: validation\nmessage: undefined: zyzzyva (a saved tool is called as tools.zyzzyva({...}))\nat: t:1:1\n  | zyzzyva({})\n  | ^\n",
		"x = 1\ny = 'a\x00b'":              "error: validation\nmessage: a script cannot contain a NUL character\nat: t:2:7\n  | y = 'a\x00b'\n  |       ^\n",
		"x = 1\r\n\r\ny = zyzzyva\r\n":     "error: validation\nmessage: undefined: zyzzyva\nat: t:3:5\n  | y = zyzzyva\n  |     ^\n",
		"x = 1\ry = zyzzyva\r":             "error: validation\nmessage: undefined: zyzzyva\nat: t:2:5\n  | y = zyzzyva\n  |     ^\n",
	} {
		result, err := Run(abi.Request{Op: abi.OpCheck, Name: "t", Code: code, Servers: testServers}, host)
		if got := outcome(result, err); got != want {
			t.Errorf("%q:\ngot:\n%s\nwant:\n%s", code, got, want)
		}
	}
	if host.log.Len() > 0 || len(host.calls) > 0 {
		t.Error("a check ran the script")
	}
}

func TestBadRequest(t *testing.T) {
	for _, c := range []struct {
		req  abi.Request
		want abi.ErrorType
	}{
		{abi.Request{Op: "walk"}, abi.ErrInternal},
		{abi.Request{Op: abi.OpRun, Params: []byte(`[1]`)}, abi.ErrValidation},
		{abi.Request{Op: abi.OpRun, Params: []byte(`{"a":`)}, abi.ErrValidation},
		{abi.Request{Op: abi.OpRun, Code: "\xff\xfe"}, abi.ErrValidation},
		{abi.Request{Op: abi.OpRun, Code: "json.encode(1)", Servers: []string{"json", "", "a b", "·dict"}}, ""},
	} {
		result, err := Run(c.req, &fakeHost{})
		switch {
		case (result == nil) == (err == nil):
			t.Errorf("%+v: result %q and error %v", c.req, result, err)
		case err != nil && err.Type != c.want, err == nil && c.want != "":
			t.Errorf("%+v: got %v, want %q", c.req, err, c.want)
		}
	}
}

// panicking simulates a bug in the host.
type panicking struct{ fakeHost }

func (panicking) Log(abi.LogLevel, string) { panic("oops") }

func TestPanicIsInternalError(t *testing.T) {
	result, err := Run(abi.Request{Op: abi.OpRun, Code: "print(1)"}, &panicking{})
	if result != nil || err == nil || err.Type != abi.ErrInternal || err.Message != "internal error: oops" {
		t.Errorf("got %q, %+v", result, err)
	}
}

// TestHostileShapes checks that source that makes the library recurse deeply ends in an
// error or runs, and never overflows the stack.
func TestHostileShapes(t *testing.T) {
	n, m := 20_000, 4_000
	if *long {
		n, m = 100_000, 8_000
	}
	indented := func(line string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat(" ", i) + line + "\n")
		}
		return b.String()
	}
	for name, code := range map[string]string{
		"parens":         strings.Repeat("(", n),
		"closed parens":  strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"lists":          strings.Repeat("[", n),
		"dicts":          strings.Repeat("{1:", n),
		"calls nested":   strings.Repeat("f(", n),
		"calls chained":  "len" + strings.Repeat("()", n),
		"index chained":  "x=[]\nx" + strings.Repeat("[0]", n),
		"slices chained": "x=[]\nx" + strings.Repeat("[:]", n),
		"attributes":     "params" + strings.Repeat(".a", n),
		"sum":            "1" + strings.Repeat("+1", n),
		"product":        "1" + strings.Repeat("*1", n),
		"and":            "1" + strings.Repeat(" and 1", n),
		"not":            strings.Repeat("not ", n) + "1",
		"minus":          strings.Repeat("-", n) + "1",
		"conditional":    strings.Repeat("1 if 1 else ", n) + "1",
		"lambda":         strings.Repeat("lambda: ", n) + "1",
		"lambda default": strings.Repeat("lambda a=", n) + "1",
		"elif":           "if 0: pass\n" + strings.Repeat("elif 0: pass\n", n),
		"clauses":        "[1 " + strings.Repeat("for x in [] ", n) + "]",
		"if clauses":     "[1 for x in [] " + strings.Repeat("if x ", n) + "]",
		"targets":        strings.Repeat("(", n) + "x" + strings.Repeat(")", n) + " = 1",
		"blocks":         indented("if 1:", 2000),
		"defs":           indented("def f():", 2000),
		"many ifs":       strings.Repeat("if 0: pass\n", n),
		"many ifs inner": "def f():\n" + strings.Repeat(" if 0: pass\n", n),
		"many ands":      "def f():\n" + strings.Repeat(" 0 and 1\n", n),
		"many loops":     strings.Repeat("for x in []: pass\n", n),
		"many lambdas":   strings.Repeat("lambda: 1 if 0 else 1\n", n),
		"many lines":     strings.Repeat("x = 1\n", n),
		"long string":    `"` + strings.Repeat("x", n) + `"`,
		"long name":      strings.Repeat("x", n),
		"long number":    strings.Repeat("9", n),
		"many args":      "len(" + strings.Repeat("1,", n) + ")",
		"many params":    "def f(" + strings.Repeat("a,", n) + "): pass",
		"open string":    `"""` + strings.Repeat("\n", n),
		"semicolons":     strings.Repeat("1;", n),
		"backslashes":    strings.Repeat("\\\n", n),

		"tries":             indented("try:", 2000),
		"many tries":        strings.Repeat("try: pass\nexcept: pass\n", m),
		"many tries inner":  "def f():\n" + strings.Repeat(" try: pass\n finally: pass\n", m),
		"clauses of a try":  "try: pass\n" + strings.Repeat("except Error: pass\n", m),
		"excepts":           strings.Repeat("except: pass\n", m),
		"finallies":         "try: pass\n" + strings.Repeat("finally: pass\n", m),
		"raises":            strings.Repeat("raise 1 from 2\n", m),
		"classes":           "try: pass\nexcept " + strings.Repeat("(", m) + "Error" + strings.Repeat(")", m) + ": pass",
		"names in a try":    "try:\n" + strings.Repeat(" if 0: x = y = z\n", m) + "finally: pass",
		"shared names":      sharedNamesCode(3000),
		"tries in defs":     indented("def f():\n try:", 500),
		"fields":            `f"` + strings.Repeat("{1}", m) + `"`,
		"fields with specs": `f"` + strings.Repeat("{1:{2}}", m) + `"`,
		"open fields":       `f"` + strings.Repeat("{", m),
		"open f-strings":    strings.Repeat(`f"{`, m),
		"open f-strings 2":  strings.Repeat(`f"{(`, m),
		"f-strings":         strings.Repeat(`f"{1}"`, m),
		"brackets in field": `f"{` + strings.Repeat("(", m) + `}"`,
		"literals":          strings.Repeat(`"abc" `, m),
		"literals in lines": "(" + strings.Repeat("\"\"\"a\nb\"\"\"\n", m) + ")",
		"long f-string":     `f"""` + strings.Repeat("x\n", m) + `{1}"""`,
		"quotes in field":   `f"{` + strings.Repeat(`""`, m) + `}"`,
		"wide":              `f"{1:10000}" + "".join([f"{1:>10000}" for i in range(100)])`,
		"percents":          "'" + strings.Repeat("%d", m) + "' % 1",
		"braces":            "'" + strings.Repeat("{", m) + "'.format(1)",
		"nested braces":     "'" + strings.Repeat("{:", m) + strings.Repeat("}", m) + "'.format(1)",
	} {
		t.Run(name, func(t *testing.T) {
			result, err := serve(abi.Request{Op: abi.OpRun, Name: "t", Code: code}, &fakeHost{}, 10_000_000)
			if (result == nil) == (err == nil) {
				t.Errorf("result %.50q and error %v", result, err)
			}
			if err != nil && err.Type == abi.ErrInternal {
				t.Error(err.Message)
			}
			if len(code) < 10*m { // this parses three times
				Lint(code, testServers)
			}
		})
	}
}

// sharedNamesCode returns a function with n variables, each bound in several parts.
func sharedNamesCode(n int) string {
	var b strings.Builder
	for range 40 {
		b.WriteString("try:\n")
		for i := range n / 40 {
			fmt.Fprintf(&b, "  x%d = %d\n", i, i)
		}
		b.WriteString("finally: pass\n")
	}
	return b.String()
}

// TestDeterministic checks that two runs of a script give the same bytes, with any seeds
// of Go's maps.
func TestDeterministic(t *testing.T) {
	const code = `
d = {str(i): i for i in range(200)}
s = set(d.keys())
d.pop("7")
print(d, s, dir(d), dir(json), dir("x"))
[d, s, sorted(d), [k for k in d], json.encode(d), undefined_key(d)]
def undefined_key(d): return d.get("x")
`
	run := func(code string) string {
		host := &fakeHost{}
		result, err := Run(abi.Request{Op: abi.OpRun, Name: "t", Code: code, Servers: testServers}, host)
		return outcome(result, err) + host.log.String()
	}
	valid := strings.Replace(code, ", undefined_key(d)]\ndef undefined_key(d): return d.get(\"x\")", "]", 1)
	for _, code := range []string{code, valid, "x = lenn + prnt + strr + dmo", "params.x"} {
		want := run(code)
		for range 20 {
			if got := run(code); got != want {
				t.Fatalf("got:\n%s\nthen:\n%s", want, got)
			}
		}
	}
}

// TestOperatorsOnAllValues checks that all operations on values of all kinds never panic and
// never return a dict that is not an Object.
func TestOperatorsOnAllValues(t *testing.T) {
	const values = `
def function(a=1, **kw): return kw
values = [None, True, 0, 1, -5, 1 << 70, 1.5, float("nan"), float("inf"), "", "abc", b"abc", [], [1, {}], (), (1,), {}, {"a": 1}, {"a": {}},
  {k: 1 for k in "ab".elems()}, dict(a=1), function(x=1), (lambda **kw: kw)(y=2), json.decode('{"a": [{}]}'), params, params | {}, set(), set([1]), set([(1, "a")]),
  range(3), range(0), "abc".elems(), "abc".codepoints(), function, len, "a".upper, {"items": 1}.items, {}.keys, lambda x: x, demo, demo.echo, demo["x"].raw, json, math, log, type, Error, ToolError, Error("x", details={"a": [1]}), ToolError("y", server="s", tool="t")]
`
	for _, expr := range []string{
		"x == y", "x != y", "x < y", "x >= y", "x + y", "x - y", "x * y if type(x) != 'int' and type(y) != 'int' else 0", "x / y", "x // y", "x % y", "x | y", "x & y", "x ^ y", "x << y", "x >> y",
		"x in y", "x not in y", "x[y]", "x[y:]", "x and y or x", "[x, y] == [y, x]", "(x, y) < (y, x)", "{'k': x} == {'k': y}", "{'k': x} | {'k': y}", "{x: y}", "set([x, y])",
		"dict(x)", "dict([(x, y)])", "list(x)", "sorted([x, y])", "max(x, y)", "x(y)", "x(**y)", "x(*y)", "str([x, y])", "repr({1: x})", "json.encode([x, y])", "'%s %r' % (x, y)", "'{} {}'.format(x, y)",
		"hasattr(x, 'a')", "getattr(x, 'a', y)", "dir(x)", "zip(x, y)", "x.a", "x.items", "x.items()", "x.get('a', y)", "x.values()", "demo.echo(x)", "demo.echo(a=x)", "bool(x) == bool(y)", "len(x)", "reversed(x)", "[a for a in x]", "print(x, y)", "fail(x, y)", "f'{x}{y!r}'", "f'{x:{y}}'", "f'{x:>9}'", "Error(x, details=y)", "[e for e in [Error(x)]][0].message",
	} {
		code := fmt.Sprintf("%s\ndef check(x, y):\n  return %s\nreturn (values, check)\n", values, expr)
		env := predeclared(testServers)
		prog, failure := compile(newSource("t", code), env)
		if failure != nil {
			t.Fatal(failure.Message)
		}
		params, failure := (&run{}).readParams([]byte(`{"d":{"x":[{}]}}`))
		if failure != nil {
			t.Fatal(failure.Message)
		}
		setParams(env, params)
		thread := &starlark.Thread{}
		thread.SetLocal(runKey, &run{host: &fakeHost{}})
		globals, err := prog.Init(thread, env)
		if err != nil {
			t.Fatal(err)
		}
		made, err := starlark.Call(thread, globals[toplevel], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, check := made.(starlark.Tuple)[0].(*starlark.List), made.(starlark.Tuple)[1]
		for x := range list.Elements() {
			for y := range list.Elements() {
				v, err := starlark.Call(thread, check, starlark.Tuple{x, y}, nil)
				if err == nil && hasBareDict(v, 0) {
					t.Errorf("%s with %s and %s gives a bare dict: %s", expr, x, y, v)
				}
			}
		}
	}
}

// hasBareDict reports whether v contains a dict that is not an Object.
func hasBareDict(v starlark.Value, depth int) bool {
	if depth > 10 {
		return false
	}
	switch v := v.(type) {
	case *starlark.Dict:
		return true
	case Object:
		for _, e := range v.Entries() {
			if hasBareDict(e, depth+1) {
				return true
			}
		}
	case starlark.Sequence:
		for e := range starlark.Elements(v) {
			if hasBareDict(e, depth+1) {
				return true
			}
		}
	}
	return false
}

func TestObjectEqualsBareDict(t *testing.T) {
	if ok, err := starlark.Equal(newObject(0), starlark.NewDict(0)); err != nil || !ok {
		t.Errorf("got %v, %v", ok, err)
	}
}

// TestNames checks that package abi's table of reserved names has every name with a
// meaning in scripts.
func TestNames(t *testing.T) {
	names := Names()
	for _, name := range names {
		if !abi.Reserved(name) {
			t.Errorf("abi.Reserved does not know %q", name)
		}
	}
	for _, name := range []string{"None", "len", "json", "params", "load", "import", "while"} {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
			t.Errorf("Names does not have %q", name)
		}
	}
	for _, name := range []string{"github", "filesystem", "Json", ""} {
		if abi.Reserved(name) {
			t.Errorf("abi.Reserved(%q)", name)
		}
	}
}
