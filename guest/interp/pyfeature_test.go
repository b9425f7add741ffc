package interp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

var featurePrograms = flag.Int("programs", 150, "how many programs of each run TestPythonFeatures compares with Python")

// TestPythonFeatures compares programs that use what Python has and Starlark lacks with
// CPython. The long form has 20,000 programs: -programs 20000.
func TestPythonFeatures(t *testing.T) {
	python := testenv.Program(t, "python3")
	const batch = 1000
	for from := 0; from < *featurePrograms; from += batch {
		var programs []pyProgram
		for seed := from; seed < min(from+batch, *featurePrograms); seed++ {
			programs = append(programs, pyProgram{name: fmt.Sprintf("feature-%d", seed), code: generateFeatures(uint64(seed))})
		}
		askPython(t, python, programs)
		for _, p := range programs {
			if got := dialectOutcome(p.code); got != p.want {
				t.Errorf("%s:\n%s\ngot:\n%s\nPython:\n%s", p.name, numbered(p.code), got, p.want)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// A featureGen writes programs of statements that are chosen at random.
type featureGen struct {
	rng  *rand.Rand
	out  strings.Builder
	made int
}

func generateFeatures(seed uint64) string {
	g := &featureGen{rng: rand.New(rand.NewPCG(seed, 2))}
	g.out.WriteString(featurePrelude)
	for range 6 {
		g.made++
		g.feature()
	}
	return g.out.String()
}

// featurePrelude has what the statements of all programs use. attempt prints what a
// function returns, or the class of its error.
const featurePrelude = `
def attempt(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__)
def show(x):
    print("show", x)
    return x
`

func (g *featureGen) n(from, to int) int { return from + g.rng.IntN(to-from+1) }

func (g *featureGen) pick(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *featureGen) ints(most int) string {
	var out []string
	for range g.n(0, most) {
		out = append(out, fmt.Sprint(g.n(-4, 9)))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func (g *featureGen) word() string {
	return fmt.Sprintf("%q", g.pick("", "a", "Ab", "abcabc", "a b  c", " x ", "12", "-5", "A1", "ß", "héllo", "x,y,,z", "Title Case", "tab\tx", "l1\nl2\r\nl3", "aaa"))
}

func (g *featureGen) index() string { return g.pick("", "", "0", "1", "2", "-1", "-2", "5", "-7") }

func (g *featureGen) slice() string {
	return g.index() + ":" + g.index() + g.pick("", "", ":"+g.pick("1", "2", "-1", "-2", "3"))
}

// attempt writes the attempt of an expression.
func (g *featureGen) attempt(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "$", fmt.Sprint(g.made))
	fmt.Fprintf(&g.out, "attempt(lambda: %s)\n", text)
}

// lines writes lines in which $ is the number of the statement.
func (g *featureGen) lines(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "$", fmt.Sprint(g.made))
	g.out.WriteString(strings.TrimPrefix(text, "\n") + "\n")
}

func (g *featureGen) feature() {
	all := []func(){
		g.chained, g.powers, g.stars, g.displays, g.generators, g.generatorFunction, g.loopElse, g.walrus, g.sliceTargets, g.text, g.text,
		g.lists, g.dicts, g.numbers, g.scopes, g.classes, g.dataclasses, g.errors, g.errorClasses, g.sorting, g.iterators, g.calls, g.decorators, g.sets,
		g.matching, g.matching, g.decimals, g.fractions, g.enums,
	}
	all[g.rng.IntN(len(all))]()
}

func (g *featureGen) chained() {
	op := func() string { return g.pick("<", "<=", "==", "!=", ">", ">=") }
	g.attempt("show(%d) %s show(%d) %s show(%d)", g.n(0, 3), op(), g.n(0, 3), op(), g.n(0, 3))
	g.attempt("%d %s %d %s %d %s %d", g.n(0, 3), op(), g.n(0, 3), op(), g.n(0, 3), op(), g.n(0, 3))
	g.attempt("show(%d) in show(%s) %s []", g.n(0, 5), g.ints(3), g.pick("==", "!="))
}

func (g *featureGen) powers() {
	g.attempt("%d ** %d", g.n(-5, 9), g.n(-2, 12))
	g.attempt("-%d ** %d ** %d", g.n(0, 3), g.n(0, 3), g.n(0, 2))
	g.attempt("pow(%d, %d, %d)", g.n(-9, 9), g.n(0, 9), g.n(-7, 7))
	g.lines("\nx$ = %d\nx$ **= %d\nprint(x$)", g.n(0, 5), g.n(0, 5))
}

func (g *featureGen) stars() {
	g.lines("\ndef f$():\n    %s = %s\n    return %s", g.pick("a, *b", "*b, a", "a, *b, c"), g.ints(4), "(a, b)")
	g.lines("attempt(f$)")
	g.lines("\ndef g$():\n    return [(a, b) for a, *b in [[1], [2, 3], %s]]\nattempt(g$)", g.ints(3))
	g.lines("\nfor n$, (a$, *b$) in [(1, [2]), (3, [4, 5, 6])]:\n    print(n$, a$, b$)")
	g.lines("x$ = y$ = %d\nprint(x$, y$)", g.n(0, 9))
}

func (g *featureGen) displays() {
	g.attempt("[*%s, %d, *%s]", g.ints(3), g.n(0, 9), g.pick("range(2)", g.ints(2), `"ab"`))
	g.attempt("(*%s, %d)", g.ints(2), g.n(0, 9))
	g.attempt(`{"a": 1, **{"b": %d, "a": %d}, "c": 3}`, g.n(0, 9), g.n(0, 9))
	g.attempt("sorted({%d, %d, *%s})", g.n(0, 3), g.n(0, 3), g.ints(3))
	g.attempt("sorted({x %% %d for x in %s})", g.n(1, 3), g.ints(5))
}

func (g *featureGen) generators() {
	g.attempt("%s(show(x) > %d for x in %s)", g.pick("any", "all"), g.n(-2, 6), g.ints(5))
	g.attempt("%s(x * 2 for x in %s if x > %d)", g.pick("sum", "list", "max", "min", "sorted", "tuple"), g.ints(5), g.n(-2, 4))
	g.attempt("next((x for x in %s if x > %d), None)", g.ints(5), g.n(-2, 6))
	g.attempt("next(x for x in %s if x > %d)", g.ints(5), g.n(-2, 6))
	g.attempt(`",".join(str(x + y) for x in %s for y in %s)`, g.ints(3), g.ints(2))
	g.lines("g$ = (show(x) for x in %s)\nprint(next(g$, \"none\"))\nprint([x for x in g$])\nprint(list(g$))", g.ints(4))
}

func (g *featureGen) generatorFunction() {
	g.lines(`
def gen$(n):
    try:
        while n > 0:
            n -= 1
            if n == %d:
                %s
            yield n
    finally:
        print("closed")
    return "end"
def outer$(n):
    r = yield from gen$(n)
    yield r
for v in gen$(%d):
    print(v)
attempt(lambda: list(outer$(%d)))
attempt(lambda: %s(gen$(%d)))`, g.n(0, 6), g.pick("continue", "break", "return", `raise ValueError("v")`, "pass"), g.n(0, 1), g.n(0, 5),
		g.pick("sum", "list", "max", "tuple", "sorted"), g.n(0, 4))
}

func (g *featureGen) loopElse() {
	g.lines(`
for i$ in range(%d):
    if i$ == %d:
        %s
    try:
        if i$ == %d: break
    finally:
        print("f", i$)
else:
    print("else $")
w$ = 0
while w$ < %d:
    w$ += 1
    if w$ == %d: break
else:
    print("while else $")`, g.n(0, 4), g.n(0, 4), g.pick("break", "continue", "pass"), g.n(0, 5), g.n(0, 4), g.n(0, 5))
}

func (g *featureGen) walrus() {
	g.lines("if (w$ := len(%s)) > %d: print(\"long\", w$)\nelse: print(\"short\", w$)", g.ints(4), g.n(0, 3))
	g.lines("print([y$ for x in %s if (y$ := x * 2) > %d])", g.ints(4), g.n(-4, 8))
	g.lines("\nq$ = %s\nwhile q$ and (h$ := q$.pop()) != %d:\n    print(h$)", g.ints(4), g.n(0, 5))
}

func (g *featureGen) sliceTargets() {
	g.lines(`
def s$():
    xs = %s
    %s
    return xs
attempt(s$)`, g.ints(6), g.pick("xs["+g.slice()+"] = "+g.ints(4), "del xs["+g.slice()+"]", "del xs["+g.pick("0", "1", "-1", "9")+"]"))
	g.attempt("%s[%s]", g.pick(g.ints(5), g.word()), g.slice())
}

func (g *featureGen) text() {
	w := g.word()
	g.attempt("%s.%s", w, g.pick(
		fmt.Sprintf("center(%d, %q)", g.n(0, 9), "*"), fmt.Sprintf("ljust(%d)", g.n(0, 9)), fmt.Sprintf("rjust(%d, %q)", g.n(0, 9), "é"), fmt.Sprintf("zfill(%d)", g.n(0, 6)),
		"casefold()", "swapcase()", "title()", "capitalize()", "upper()", "lower()", "strip()", `strip("ax")`, `lstrip("a")`, `rstrip()`,
		`partition("b")`, `rpartition(" ")`, `removeprefix("a")`, `removesuffix("c")`, fmt.Sprintf("expandtabs(%d)", g.n(0, 8)),
		"isalpha()", "isdigit()", "isalnum()", "isnumeric()", "isdecimal()", "isspace()", "isupper()", "islower()", "istitle()", "isascii()", "isidentifier()", "isprintable()",
		"split()", `split(",")`, fmt.Sprintf("split(maxsplit=%d)", g.n(0, 2)), fmt.Sprintf(`split("a", %d)`, g.n(0, 2)), fmt.Sprintf("rsplit(None, %d)", g.n(0, 2)),
		fmt.Sprintf(`rsplit(sep=",", maxsplit=%d)`, g.n(0, 2)), `split("")`, "splitlines()", "splitlines(keepends=True)",
		`translate(str.maketrans("ab", "xy", "c"))`, `translate({97: "zz", 98: None})`, `encode().decode()`, `encode("ascii", "replace").decode()`, `encode("ascii").decode()`,
		`replace("a", "b", 1)`, fmt.Sprintf(`find("a", %d)`, g.n(-3, 3)), `index("q")`, `count("a")`, `startswith(("x", "a"))`, `endswith("c")`, `join(["p", "q"])`, `join([1])`,
	))
	g.attempt("list(map(str.upper, %s)) + sorted(%s) + [c for c in reversed(%s)]", w, w, w)
	g.attempt("%s * %d + %s", w, g.n(-1, 3), g.word())
	g.attempt("int(%s%s)", g.word(), g.pick("", ", 16", ", 36", ", 2"))
}

func (g *featureGen) lists() {
	g.lines(`
def l$():
    xs = %s
    r = xs.%s
    return (xs, r)
attempt(l$)`, g.ints(6), g.pick("sort()", "sort(reverse=True)", "sort(key=lambda v: v % 3)", "reverse()", "copy()", "count(1)", "index(2)", "index(2, 1)", "clear()",
		"insert(1, 9)", "insert(-1, 9)", "insert(99, 9)", "remove(3)", "pop()", "pop(0)", "pop(-2)", "extend(range(2))", `extend("ab")`, "extend(v for v in [1])", "append([])"))
	g.attempt("%s %s %s", g.ints(4), g.pick("<", "==", ">=", "+"), g.ints(4))
	g.attempt("(1, 2, 1).count(%d) + (3, 4).index(%d)", g.n(1, 2), g.n(3, 5))
}

func (g *featureGen) dicts() {
	g.lines(`
def d$():
    d = {"a": 1, "b": [2]}
    r = %s
    return (d, r)
attempt(d$)`, g.pick(`d.copy()`, `dict.fromkeys("xyx", 0)`, `dict.fromkeys([1, 2])`, `d.setdefault("c", 3)`, `d.setdefault("a")`, `d.update({"z": 1}, q=2)`, `d.update([("a", 9)])`,
		`d.pop("a")`, `d.pop("q")`, `d.pop("q", None)`, `d.get("q")`, `d["q"]`, `list(d.items())`, `sorted(d.keys())`, `d | {"c": 5}`, `{**d, "a": 2}`, `d.popitem()[0] in "ab"`,
		`dict((k, v) for k, v in zip("pq", range(2)))`, `dict(a=1, **{"b": 2})`, `{k: len(k) for k in ["x", "yy"]}`, `[k for k in d]`, `"a" in d and 1 not in d`))
	g.lines("\nd$ = {1: \"a\", (2, 3): \"b\", None: \"c\", 1.5: \"d\"}\ndel d$[%s]\nprint(d$)", g.pick("1", "(2, 3)", "None", "1.5"))
}

func (g *featureGen) numbers() {
	x, y := g.n(-9, 9), g.n(-4, 4)
	g.attempt("(%d // %d, %d %% %d)", x, y, x, y)
	g.attempt("divmod(%d, %d)", x, y)
	g.attempt("(%s, %d %% %d.5, %d // 0.5)", g.pick("bin(5)", "oct(-9)", "hex(255)", "(-6).bit_length()", "round(2.5)", "round(-3.5)", "round(2.675, 2)", "round(1234, -2)"), x, y, x)
	g.attempt("%s(%s)", g.pick("int", "float", "bool", "abs", "str", "chr"), g.pick("-3", "2.7", "True", `"12"`, `" 7 "`, `"1_0"`, `"x"`, "[]", "97"))
	g.attempt("True + %d + (%d == 1) * 2 - False", g.n(0, 3), g.n(0, 2))
	g.attempt("[True == 1, 1 == 1.0, 0 == False, %d < 1.5, True < 2, (3.0).is_integer(), 10 ** 20 // 3]", g.n(0, 3))
	g.attempt("sum(%s, %d) / max(len(%s), %d)", g.ints(4), g.n(0, 3), g.ints(3), g.n(0, 2))
}

func (g *featureGen) scopes() {
	g.lines(`
total$ = %d
def add$(n):
    global total$
    %s
    return total$
def counter$():
    n = %d
    def up():
        nonlocal n
        try:
            n += 1 // %d
        except ZeroDivisionError:
            n += 10
        return n
    return up
c$ = counter$()
print(add$(2), add$(3), total$, c$(), c$())`, g.n(0, 9), g.pick("total$ += n", "total$ = n", "for total$ in range(n): pass", "total$ = (z := n) + 1"), g.n(0, 5), g.n(0, 1))
}

func (g *featureGen) classes() {
	g.lines(`
class A$:
    kind = "a"
    made = 0
    def __init__(self, n, *rest, k=1):
        self.n, self.rest, self.k = n, rest, k
        A$.made += 1
    def __repr__(self): return f"A({self.n}, {self.k})"
    def __eq__(self, o): return isinstance(o, A$) and self.n == o.n
    def __lt__(self, o): return self.n < o.n
    def __add__(self, o): return %s
    def __radd__(self, o): return o * 100
    def __len__(self): return self.n
    def __getitem__(self, i):
        if i >= 3: raise IndexError(i)
        return self.n * i
    @property
    def double(self): return self.n * 2
    @double.setter
    def double(self, v): self.n = v // 2
    @classmethod
    def of(cls, *a): return cls(*a)
    @staticmethod
    def plus(a, b): return a + b
class B$(A$):
    kind = "b"
    def __init__(self, n):
        super().__init__(n, k=n + 1)
    def __call__(self, x): return x + self.n
    def __contains__(self, x): return x == self.n
    def who(self): return self.kind + super().kind
a$, b$ = A$(%d), B$.of(%d)`, g.pick("A$(self.n + getattr(o, \"n\", o))", "NotImplemented", "self.n"), g.n(0, 4), g.n(0, 4))
	for range 5 {
		g.attempt("%s", g.pick("a$ == b$", "a$ != b$", "a$ < b$", "a$ > b$", "a$ + b$", "a$ + 1", "1 + a$", "len(b$)", "list(a$)", "bool(a$)", "b$(5)", "2 in b$", "3 in a$",
			"b$.double", "b$.who()", "a$.who()", "a$.plus(1, 2)", "[str(x) for x in sorted([a$, b$])]", "isinstance(b$, A$)", "isinstance(a$, B$)", "a$(1)", "a$.nope", "A$.made", "issubclass(B$, A$)",
			"type(b$).__name__", "b$[1]", "b$[7]", "max(a$)", "[x for x in b$]", "A$()", "B$(1, 2)", "a$ <= b$", "-a$", "a$.rest", "hasattr(a$, 'double')", "getattr(a$, 'zz', 7)"))
	}
	g.lines("a$.double = 9\nprint(a$.n, str(a$), f\"{b$}\", A$.kind, b$.kind)")
}

func (g *featureGen) dataclasses() {
	g.lines(`
from dataclasses import dataclass, field, asdict
@dataclass(%s)
class D$:
    x: int
    y: int = 4
    z: list = field(default_factory=list)
    def total(self): return self.x + len(self.z)`, g.pick("", "order=True", "frozen=True", "eq=False"))
	for range 4 {
		g.attempt("%s", g.pick("D$(1)", "D$(1, 6, [2])", "D$()", "D$(1, 2, 3, 4)", "D$(y=8, x=2)", "D$(1, w=2)", "D$(1) == D$(1)", "D$(1) < D$(2)", "D$(1) != D$(1, 5)",
			"asdict(D$(3, z=[1, {}]))", "D$(2).total()", "D$(1).z is D$(1).z", "repr(D$(1))", "setattr(D$(1), 'x', 5)", "[D$(1).y, D$.y]"))
	}
}

func (g *featureGen) errors() {
	g.lines(`
class Mine$(%s):
    def __init__(self, code, text="t"):
        super().__init__(text)
        self.code = code
def r$():
    try:
        try:
            raise %s
        except %s as e:
            print("inner", type(e).__name__, e.args)
            %s
        else:
            print("else")
        finally:
            print("finally")
    except (LookupError, Mine$) as e:
        return ("lookup", str(e))
    except ArithmeticError:
        return "arithmetic"
attempt(r$)`, g.pick("Exception", "ValueError", "RuntimeError"),
		g.pick(`ValueError("v", 1)`, `IndexError("i")`, "ZeroDivisionError", `Mine$(5)`, `TypeError()`, `RuntimeError("r")`, `NotImplementedError("n")`),
		g.pick("ValueError", "(IndexError, TypeError)", "Exception", "ArithmeticError", "Mine$", "(Mine$, RuntimeError)"),
		g.pick("raise", "pass", `raise IndexError("second") from e`, `raise Mine$(1, "m")`, "1 // 0", "return 'r'"))
	g.lines("\ntry:\n    assert %s, \"m$\"\n    print(\"held\")\nexcept AssertionError as e:\n    print(\"failed\", e)", g.pick("True", "0", "[]", "1 < 2 < 3"))
}

func (g *featureGen) errorClasses() {
	for range 5 {
		g.attempt("%s", g.pick("1 // 0", "1 / 0", "1 % 0", "1.5 % 0", "0.0 ** -1", "[][0]", "(1,)[5]", `"abc"[9]`, `{}["k"]`, `{}[1]`, `int("q")`, `float("q")`, `int([])`, "None + 1", `"a" + 1`, "[] < 1",
			`None < 1`, "len(5)", "5()", "[1].nope", "(5).nope", `"x".nope`, "None.x", "next(iter([]))", "list(5)", "{[]: 1}", "{1, {}}", "[1].remove(2)", `"a".index("b")`, "[].pop()", "chr(-1)", `ord("ab")`,
			"(lambda a: a)()", "(lambda: 1)(1)", "(lambda a: a)(b=1)", "max([])", "sum(['a'])", "sorted([1, 'a'])", "[1, 2, 3][::0]", "list(zip([1], [], strict=True))", "{}.popitem()", "set().pop()",
			"isinstance(1, 5)", "'%d' % 'x'", "'{}'.format()", "[1, 2].index(3)", "range(1, 2, 0)", "b'\\xff'.decode()", "round('x')", "abs('x')", "-'x'", "~1.5", "[1] * 'a'", "1 << -1", "enumerate(5)"))
	}
	g.lines("\ndef u$():\n    a, b = %s\n    return a\nattempt(u$)", g.ints(4))
	g.lines("\ndef v$():\n    if False: x = 1\n    return x\nattempt(v$)")
}

func (g *featureGen) sorting() {
	g.attempt("sorted(%s, key=lambda v: %s, reverse=%s)", g.ints(6), g.pick("-v", "v % 2", "(v % 3, v)", "str(v)"), g.pick("True", "False"))
	g.attempt("(%s(%s, key=lambda v: v %% 4, default=None), %s(3, 1, 2))", g.pick("max", "min"), g.ints(4), g.pick("max", "min"))
	g.attempt("sorted([(2, 'b'), (1, 'z'), (2, 'a')], key=lambda p: p[%d])", g.n(0, 1))
}

func (g *featureGen) iterators() {
	g.attempt("list(zip(%s, %q, strict=%s))", g.ints(3), "abc", g.pick("True", "False"))
	g.attempt("list(enumerate(%s, %d))", g.pick(g.word(), g.ints(3)), g.n(0, 3))
	g.attempt("list(map(lambda a, b: a * b, %s, %s)) + list(filter(%s, %s))", g.ints(3), g.ints(3), g.pick("None", "lambda v: v > 1"), g.ints(4))
	g.attempt("list(reversed(%s))", g.ints(4))
	g.lines("it$ = iter(%s)\nprint(next(it$, 0), [v for v in it$], next(it$, \"end\"))", g.ints(4))
	g.attempt("[any(%s), all(%s)]", g.ints(2), g.ints(3))
}

func (g *featureGen) calls() {
	g.lines("\ndef f$(a, b=2, *c, d=4, **e): return (a, b, c, d, sorted(e.items()))")
	for range 3 {
		g.attempt("f$(%s)", g.pick("1", "*[1, 2, 3]", "1, *[2], *[3, 4]", "*[1], 5, d=6", "1, d=2, *[3]", "**{'a': 1, 'z': 2}", "1, **{'x': 1}, **{'y': 2}", "", "1, a=2", "*(), 1", "1, 2, 3, d=1, q=2", "*'ab', **{}"))
	}
	g.lines("\ndef h$(a, /, b: int, *, c: str = \"x\") -> tuple:\n    v: int = 5\n    return (a, b, c, v)\nattempt(lambda: h$(1, b=2))\nattempt(lambda: h$(1, 2, c=3))\nattempt(lambda: h$(1))")
}

func (g *featureGen) decorators() {
	g.lines(`
def wrap$(n):
    def deco(f):
        def inner(*a, **k): return [f(*a, **k)] * n
        return inner
    return deco
@wrap$(%d)
@wrap$(1)
def d$(x, y=%d): return x - y
attempt(lambda: d$(5))
attempt(lambda: d$(5, y=1))`, g.n(0, 3), g.n(0, 3))
}

func (g *featureGen) sets() {
	a, b := g.ints(4), g.ints(4)
	g.attempt("sorted(set(%s) %s set(%s))", a, g.pick("|", "&", "-", "^"), b)
	g.attempt("sorted(%s(%s).%s(%s))", g.pick("set", "frozenset"), a, g.pick("union", "intersection", "difference", "symmetric_difference"), b)
	g.attempt("[set(%s) <= set(%s), set(%s) == frozenset(%s), set(%s).isdisjoint(%s), %d in set(%s)]", a, b, a, a, a, b, g.n(0, 5), a)
	g.lines(`
def s$():
    s = set(%s)
    s.%s
    return sorted(s)
attempt(s$)`, a, g.pick("add(3)", "discard(3)", "remove(99)", "update([1, 2], [3])", "difference_update([1])", "intersection_update([1, 2])", "symmetric_difference_update([1, 9])", "clear()"))
}
