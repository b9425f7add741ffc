package interp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// TestHostilePython runs scripts that abuse what was added to Starlark: each must end,
// with the error that is given here, and never with a bug of ours.
func TestHostilePython(t *testing.T) {
	const (
		steps   = "more than"         // the limit of this test; fuel in the sandbox
		deep    = "call stack deeper" // frames
		nothing = ""                  // it ends, one way or another
	)
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	for name, c := range map[string]struct{ code, want string }{
		"generator without end":       {"def g():\n  while True: yield 1\nsum(g())", steps},
		"generator expression":        {"def g():\n  while True: yield 1\nany(x > 1 for x in g())", steps},
		"loop over a generator":       {"def g():\n  while True: yield 1\nfor x in g(): pass", steps},
		"generator of itself":         {"def g(): yield from g()\nlist(g())", deep},
		"generator of itself, pulled": {"def g():\n  for x in g(): yield x\nnext(g())", deep},
		"many generators":             {"def g():\n  yield 1\n  yield 2\nxs = [g() for i in range(3000)]\n[next(x) for x in xs]\nlen(xs)", nothing},
		"generator in itself":         {"def g():\n  yield next(it)\nit = g()\nnext(it)", "already executing"},
		"generator sends itself":      {"def g():\n  x = yield 1\n  x.send(1)\nit = g()\nnext(it)\nit.send(it)", "already executing"},
		"yield in a finally":          {"def g():\n  try: yield 1\n  finally: yield 2\nfor x in g(): break\nnext(g())", nothing},
		"swallows the end":            {"def g():\n  while True:\n    try: yield 1\n    except: pass\nfor x in g(): break\n1", nothing},
		"eq of itself":                {"class A:\n  def __eq__(self, o): return self == o\nA() == A()", deep},
		"lt of itself":                {"class A:\n  def __lt__(self, o): return sorted([self, o]) == []\nsorted([A(), A()])", deep},
		"hash of itself":              {"class A:\n  def __hash__(self): return hash((self,))\n{A(): 1}", deep},
		"repr of itself":              {"class A:\n  def __repr__(self): return repr([self])\nrepr(A())", deep},
		"str of itself":               {"class A:\n  def __str__(self): return f'{self}'\nstr(A())", deep},
		"bool of itself":              {"class A:\n  def __bool__(self): return not self\nif A(): pass", deep},
		"len of itself":               {"class A:\n  def __len__(self): return len(self)\nlen(A())", deep},
		"getattr of itself":           {"class A:\n  def __getattr__(self, n): return self.x\nA().y", deep},
		"iter of itself":              {"class A:\n  def __iter__(self): return iter(self)\nlist(A())", deep},
		"next without end":            {"class A:\n  def __iter__(self): return self\n  def __next__(self): return 1\nlist(A())", steps},
		"getitem without end":         {"class A:\n  def __getitem__(self, i): return i\nlist(A())", steps},
		"contains without end":        {"class A:\n  def __getitem__(self, i): return i\n-1 in A()", steps},
		"property of itself":          {"class A:\n  @property\n  def x(self): return self.x\nA().x", deep},
		"init of itself":              {"class A:\n  def __init__(self): A()\nA()", deep},
		"add of itself":               {"class A:\n  def __add__(self, o): return self + o\nA() + 1", deep},
		"error in bool":               {"class A:\n  def __bool__(self): raise ValueError('b')\nif A(): pass", "ValueError: b"},
		"error in repr":               {"class A:\n  def __repr__(self): return 5\nprint(A())", nothing},
		"class called string":         {"class string: pass\n'a' == string() or string() < 'a'", nothing},
		"classes called alike":        {"class list: pass\n[1] == list() or list() == [1]", nothing},
		"class called Error":          {"class Error: pass\nError() == Exception('x')", nothing},
		"bases in a circle":           {"class A: pass\nclass B(A): pass\nclass C(A, B): pass", "contradict"},
		"strange bases":               {"class A(5, None, print): pass", "no class"},
		"strange base of errors":      {"class A(ValueError, dict): pass", "no class"},
		"super outside":               {"super().x", "undefined: super"},
		"dataclass in itself":         {"from dataclasses import dataclass\n@dataclass\nclass A:\n  x: list\na = A([])\na.x.append(a)\nstr(a)", nothing},
		"dataclass compared":          {"from dataclasses import dataclass\n@dataclass\nclass A:\n  x: list\na, b = A([]), A([])\na.x.append(a)\nb.x.append(b)\na == b", nothing},
		"asdict in itself":            {"from dataclasses import dataclass, asdict\n@dataclass\nclass A:\n  x: list\na = A([])\na.x.append(a)\nasdict(a)", "nested deeper"},
		"enum of anything":            {"from enum import Enum\nclass A(Enum):\n  X = []\n  Y = {}\n  def f(self): return 1\n[A.X, A([]), A.Y.f()] == 0", nothing},
		"power":                       {"9 ** 9 ** 9", "more than"},
		"power in place":              {"x = 10\nfor i in range(99): x **= 10", "more than"},
		"power modulo":                {"pow(2 ** 20000, 2 ** 20000, 3)", "numbers of more than"},
		"center":                      {"'x'.center(10 ** 12)", nothing},
		"tabs":                        {"('\\t' * 1000).expandtabs(10 ** 8)", nothing},
		"to bytes":                    {"(1).to_bytes(10 ** 12, 'big')", nothing},
		"slice assigned to itself":    {"xs = [1, 2]\nfor i in range(12): xs[1:1] = xs\nlen(xs)", nothing},
		"extended by itself":          {"xs = [1]\nxs.extend(xs)\nxs.extend(x for x in [1])\nlen(xs)", nothing},
		"slice assigned in a loop":    {"xs = [1, 2, 3]\nfor x in xs: xs[0:1] = []", "during iteration"},
		"frozen slice":                {"params.xs[0:1] = [5]", "frozen"},
		"frozen del":                  {"del params['xs']", "frozen"},
		"map of maps":                 {"m = iter([1])\nfor i in range(5000): m = map(lambda x: x, m)\nlist(m)", "nested more than"},
		"map of itself":               {"m = map(lambda x: next(m), [1, 2])\nnext(m)", nothing},
		"exit as an error":            {"try:\n  raise SystemExit(1)\nexcept Exception: pass", "SystemExit"},
		"limits stay uncatchable":     {"def f(): f()\ntry: f()\nexcept BaseException: pass", deep},
		"chain":                       {"1" + strings.Repeat(" < 2", 2000), "levels deep"},
		"powers":                      {"1" + strings.Repeat(" ** 1", 2000), "excessive nesting"},
		"targets":                     {strings.Repeat("a = ", 5000) + "1", nothing},
		"stars":                       {"[" + strings.Repeat("*[1], ", 5000) + "]", nothing},
		"decorators":                  {strings.Repeat("@f\n", 3000) + "def f(): pass", nothing},
		"classes in classes":          {indentedCode("class A:", 400), nothing},
		"walruses":                    {"(" + strings.Repeat("(x := ", 400) + "1" + strings.Repeat(")", 400) + ")", nothing},
		"globals":                     {"def f():\n  global " + strings.TrimSuffix(many("a#, ", 3000), ", ") + "\n  a1 = 1\nf()\na1", nothing},
		"errors in each line":         {strings.Repeat("x = = 1\n", 3000), "and 44 more"},
		"yields":                      {"def f():\n" + strings.Repeat(" yield 1\n", 3000) + "len(list(f()))", nothing},
		"nested generators":           {"f = " + strings.Repeat("(x for x in ", 200) + "[1]" + strings.Repeat(")", 200) + "\nlist(f)", nothing},
		"imports":                     {strings.Repeat("import math\n", 3000), nothing},
		"iter without end":            {"list(iter(lambda: 1, 2))", steps},
		"iter called in itself":       {"def f(): return next(it)\nit = iter(f, 2)\nnext(it)", deep},
		"json of itself":              {"class A:\n  def __json__(self): return self\nreturn A()", "nested deeper"},
		"json without end":            {"class A:\n  def __json__(self): return A()\nreturn A()", "nested"},
		"json of json":                {"class A:\n  def __json__(self): return [A()]\nreturn A()", "nested"},
		"round of itself":             {"class A:\n  def __round__(self, n=0): return round(self)\nround(A())", deep},
		"format of itself":            {"class A:\n  def __format__(self, s): return f'{self}'\nf'{A()}'", deep},
		"divmod of itself":            {"class A:\n  def __divmod__(self, o): return divmod(self, o)\ndivmod(A(), 1)", deep},
		"floor of itself":             {"import math\nclass A:\n  def __floor__(self): return math.floor(self)\nmath.floor(A())", deep},
		"float of itself":             {"import math\nclass A:\n  def __float__(self): return math.sqrt(self)\nmath.sqrt(A())", deep},
		"hash called in itself":       {"class A:\n  def __hash__(self): return hash(self)\nhash(A())", deep},
		"sum of itself":               {"class A:\n  def __radd__(self, o): return sum([self])\nsum([A()])", deep},
		"cached property of itself":   {"from functools import cached_property\nclass A:\n  @cached_property\n  def x(self): return self.x\nA().x", deep},
		"keys of itself":              {"class A:\n  def keys(self): return dict(self)\ndict(A())", deep},
		"named tuple of itself":       {"from typing import NamedTuple\nclass A(NamedTuple):\n  x: int\n  @property\n  def y(self): return self.y\nA(1).y", deep},
		"enum in a loop":              {"from enum import Enum\nclass E(Enum):\n  A = 1\nfor x in E: E.B = 2\nlen(E)", nothing},
		"match of itself":             {"class A:\n  __match_args__ = ('x',)\n  @property\n  def x(self): return f(self)\ndef f(a):\n  match a:\n    case A(x): return x\nf(A())", deep},
		"match with strange args":     {"class A:\n  __match_args__ = (1, [])\nmatch A():\n  case A(x): pass", "want text"},
		"match of no class":           {"match 1:\n  case params(x): pass", "not a class"},
		"match of unhashable":         {"match {}:\n  case {params.xs: y}: pass", nothing},
		"deep pattern":                {"match 1:\n  case " + strings.Repeat("[", 600) + strings.Repeat("]", 600) + ": pass", nothing},
		"deeper pattern":              {"match 1:\n  case " + strings.Repeat("[", 6000) + strings.Repeat("]", 6000) + ": pass", "excessive nesting"},
		"many alternatives":           {"match 1:\n  case " + strings.Repeat("2 | ", 3000) + "3: pass", nothing},
		"many cases":                  {"match 1:\n" + strings.Repeat("  case 2: pass\n", 1500), nothing},
		"many parts":                  {"match 1:\n  case [" + strings.Repeat("a, ", 3000) + "]: pass", nothing},
		"many match headers":          {strings.Repeat("match x:\n", 3000), nothing},
		"match and blank lines":       {"match x:" + strings.Repeat("\n", 30000), nothing},
		"sequence without end":        {"match range(10 ** 9):\n  case [1, 2]: pass", nothing},
		"decimal power":               {"from decimal import Decimal\nDecimal(7) ** 999999999", "too many digits"},
		"decimal exponent":            {"from decimal import Decimal\nint(Decimal('1e999999999'))", "too large"},
		"decimal context":             {"from decimal import Decimal, getcontext\ngetcontext().prec = 10 ** 9\nDecimal(1) / 3", "more than"},
		"decimal rounding":            {"from decimal import Decimal\nDecimal('1.5').quantize(Decimal(1), rounding='x')", "rounding mode"},
		"fraction exponent":           {"from fractions import Fraction\nFraction('1e999999999')", "too large"},
		"fraction power":              {"from fractions import Fraction\nFraction(2, 3) ** (10 ** 9)", "more than"},
		"difference":                  {"import difflib\ndifflib.SequenceMatcher(None, 'ab' * 3000, 'ba' * 3000, False).ratio()", steps},
		"module changed":              {"import decimal\ndecimal.Decimal = 5", "assign"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := serve(abi.Request{Op: abi.OpRun, Name: "t", Code: c.code, Params: []byte(`{"xs": [1, 2]}`)}, &fakeHost{}, 300_000)
			switch {
			case (result == nil) == (err == nil):
				t.Errorf("result %.50q and error %v", result, err)
			case err != nil && err.Type == abi.ErrInternal:
				t.Error(err.Message)
			case c.want != "" && (err == nil || !strings.Contains(err.Message, c.want)):
				t.Errorf("want an error with %q, got %v and %.50q", c.want, err, result)
			}
			Lint(c.code, testServers)
		})
	}
}

// indentedCode nests a header n times.
func indentedCode(header string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + header + "\n")
	}
	return b.String() + strings.Repeat(" ", n) + "pass\n"
}
