package interp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

func TestLint(t *testing.T) {
	for _, c := range []struct {
		code string
		want []string
	}{
		{"", nil},
		{"x = 1\nreturn x", nil},
		{"x = 1\nx", nil},
		{"x = 1\n_y = 2", []string{"1:1: x is assigned but never used"}},
		{"x = 1\nx += 1", []string{"1:1: x is assigned but never used"}},
		{"x = {}\nx.a = 1", nil},
		{"for i in range(3):\n    print(1)\n(a, b) = (1, 2)", nil},
		{"def f(a, b):\n    c = 1\n    return a", []string{
			"1:5: the script only defines functions, so its result is None: end with return f(...)", "2:5: c is assigned but never used"}},
		{"import math\ndef main():\n    return math.pi", []string{"2:5: the script only defines functions, so its result is None: end with return main(...)"}},
		{"def main():\n    return 1\nif __name__ == '__main__':\n    main()", nil},
		{"x = demo.a({})\nresult = x.b", []string{"2:1: the result of the script is None: end with return result"}},
		{"x = demo.a({})\nif x:\n    return 1\nresult = x.b", []string{"4:1: result is assigned but never used"}},
		{"import math\nfrom json import loads as l, dumps\nfrom typing import List\nreturn dumps", []string{"1:8: import math is never used", "2:27: import l is never used"}},
		{"import math\ndef f(x: math.x) -> int:\n    y: List = x\n    return y\nreturn f(1)", nil},
		{"class A:\n    def f(self):\n        return self.x\nreturn A().f()", nil},
		{"def g():\n    yield 1\nreturn [(x for x in g()), 1 < len([]) < 2, {1}]", nil},
		{"def f():\n    return later\nlater = 1\nf()", nil},
		{"x = 1\ny = [x for x in [1]]\nreturn y", []string{"1:1: x is assigned but never used"}},
		{"x = 1\nf = lambda x: x\nreturn f", []string{"1:1: x is assigned but never used"}},
		{"x = 1\nw = 2\nreturn f'{x:>{w}}'", nil},
		{"return 1\nprint(2)\nprint(3)", []string{"2:1: this is never reached"}},
		{"for x in []:\n    if x:\n        continue\n    else:\n        break\n    print(x)", []string{"6:5: this is never reached"}},
		{"if params.a:\n    return 1\nelif params.b:\n    fail('x')\nelse:\n    raise Error('y')\nprint(1)", []string{"7:1: this is never reached"}},
		{"if params.a:\n    return 1\nelif params.b:\n    fail('x')\nprint(1)", nil},
		{"try:\n    return 1\nexcept Error as e:\n    return 2\nelse:\n    return 3\nprint(1)", []string{"6:5: this is never reached", "7:1: this is never reached"}},
		{"try:\n    x = demo.f({})\nexcept Error as e:\n    raise\nreturn x", nil},
		{"try:\n    pass\nfinally:\n    return 1\nprint(1)", []string{"5:1: this is never reached"}},
		{"list = [1]\nreturn list", []string{"1:1: list hides the built-in of that name"}},
		{"def f(json, demo):\n    return [json, demo]\nreturn f([len for len in []], 1)", []string{
			"1:7: json hides the built-in of that name", "1:13: demo hides the server of that name", "3:19: len hides the built-in of that name"}},
		{"return dmo.search({})", []string{"1:8: no server is called dmo (did you mean demo?)"}},
		{"return gitlab['x-y']({'a': [huub.b()]})", []string{
			"1:8: no server is called gitlab (the servers are demo, other)", "1:29: no server is called huub (the servers are demo, other)"}},
		{"x = {}\nreturn x.get('a')", nil},
		{"x = = 1", nil},
		{"except:\n    pass", nil},
	} {
		var got []string
		for _, w := range Lint(c.code, testServers).Warnings {
			got = append(got, fmt.Sprintf("%d:%d: %s", w.Position.Line, w.Position.Column, w.Message))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s\ngot  %q\nwant %q", c.code, got, c.want)
		}
	}
	if n := len(Lint(strings.Repeat("return 1\nif 1:\n  pass\n  return 2\n  pass\n", 200), nil).Warnings); n != maxWarnings {
		t.Errorf("%d warnings", n)
	}
}

func TestLintRequest(t *testing.T) {
	result, failure := Run(abi.Request{Op: abi.OpLint, Name: "t", Code: "é = '日'; x = 1", Servers: testServers}, &fakeHost{})
	if failure != nil {
		t.Fatal(failure.Message)
	}
	var got abi.Lint
	if err := json.Unmarshal(result, &got); err != nil || len(got.Warnings) != 2 {
		t.Fatalf("%s: %v", result, err)
	}
	want := abi.Warning{
		Position: abi.Position{File: "t", Line: 1, Column: 10, Source: "é = '日'; x = 1"}, Message: "the result of the script is None: end with return x",
	}
	if got.Warnings[1] != want {
		t.Errorf("got %+v", got.Warnings[1])
	}
	if result, failure := Run(abi.Request{Op: abi.OpLint, Code: "("}, &fakeHost{}); string(result) != `{"parses":false,"warnings":[],"calls":[],"open":true,"bound":[]}` || failure != nil {
		t.Errorf("got %s, %v", result, failure)
	}
}

func TestNamedParams(t *testing.T) {
	for code, want := range map[string][]string{
		"return params.a":                           {"1:15 a"},
		"x = params['b c']; y = params[\"d\"]":      {"1:12 b c", "1:31 d"},
		"return params.get('e', params.get(\"f\"))": {"1:19 e", "1:35 f"},
		"return f\"{params.g} {params['h']}\"":      {"1:18 g", "1:29 h"},
		"def f():\n    return params.i\nreturn f()": {"2:19 i"},
		"params.j.k": {"1:8 j"},
		"return params.keys(), params.items(), params.get, params.copy()": nil,
		"name = 'l'\nreturn params[name], params[1]":                      nil,
		"def f(params):\n    return params.m\nreturn f({})":               nil,
		"params = {}\nreturn params.n":                                    nil,
		"return demo.echo(params.o).params":                               {"1:25 o"},
	} {
		var got []string
		for _, p := range Lint(code, testServers).Params {
			got = append(got, fmt.Sprintf("%d:%d %s", p.Position.Line, p.Position.Column, p.Name))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", code, got, want)
		}
	}
	if n := len(Lint(strings.Repeat("params.a\n", 1100), nil).Params); n != maxNamedParams {
		t.Errorf("%d parameters", n)
	}
}
