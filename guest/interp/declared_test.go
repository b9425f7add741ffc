package interp

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestDeclaredNames compares what binds a variable, for each way in which it may have been
// declared, with CPython. testdata/python/programs.txtar has some of it for where there is
// none.
func TestDeclaredNames(t *testing.T) {
	python := testenv.Program(t, "python3")
	programs := declaredPrograms()
	askPython(t, python, programs)
	for _, p := range programs {
		if got := dialectOutcome(p.code); got != p.want {
			t.Errorf("%s:\n%s\ngot:\n%s\nPython:\n%s", p.name, numbered(p.code), got, p.want)
		}
	}
}

// binders are statements that bind a, by name.
var binders = map[string]string{
	"assignment":    "a = 1",
	"augmented":     "a += 1",
	"tuple":         "(a, b) = (1, 2)",
	"starred":       "*a, b = [1, 2, 3]",
	"chained":       "b = a = 4",
	"for":           "for a in [1, 2]:\n    pass",
	"for tuple":     "for k, a in [(1, 2)]:\n    print(k)",
	"for else":      "for a in [1, 2]:\n    pass\nelse:\n    print(a)",
	"except":        "try:\n    raise Exception(\"#x\")\nexcept Exception as a:\n    print(kind(a))",
	"except in it":  "b = 0\ntry:\n    raise Exception(\"#x\")\nexcept Exception as a:\n    b = kind(a)\n    look()\nprint(b)",
	"except loop":   "for i in range(2):\n    try:\n        raise Exception(\"#x\")\n    except Exception as a:\n        print(kind(a), i)\n        continue",
	"except except": "try:\n    try:\n        raise Exception(\"#x\")\n    except ValueError as a:\n        print(1)\nexcept Exception as a:\n    print(kind(a))",
	"except else":   "try:\n    a = 2\nexcept Exception as a:\n    print(kind(a))\nelse:\n    a = 3\nfinally:\n    print(a)",
	"except own":    "try:\n    raise Exception(\"#x\")\nexcept Exception as own:\n    a = str(own)",
	"in try":        "try:\n    a = 3\nfinally:\n    print(a)",
	"import":        "import math as a",
	"from":          "from math import floor as a",
	"def":           "def a():\n    return 7\nprint(a())",
	"def in try":    "try:\n    def a():\n        return 7\nfinally:\n    print(kind(a))",
	"decorated":     "@plain\ndef a():\n    return 7",
	"class":         "class a:\n    x = 3\nprint(a.x)",
	"walrus":        "print((a := 4))",
	"walrus list":   "[(a := i) for i in range(3)]",
	"walrus any":    "print(any((a := i) > 1 for i in range(5)))",
	"walrus while":  "n = 3\nwhile (a := n) > 1:\n    n -= 1",
	"match":         "match [1, 9]:\n    case [1, a]:\n        print(a)",
	"match as":      "match [1, 9]:\n    case [1, 9] as a:\n        print(a)",
	"match star":    "match [1, 9]:\n    case [1, *a]:\n        print(a)",
	"list":          "print([a for a in range(3)])",
	"dict":          "print({a: 1 for a in range(3)})",
	"generator":     "print(sum(a for a in range(3)))",
	"lambda":        "print((lambda a: a)(3))",
	"parameter":     "def g(a):\n    a += 1\n    return a\nprint(g(3))",
	"local":         "def g():\n    a = 8\n    return a\nprint(g())",
}

// declared are programs with a place for a binder, by name.
var declared = map[string]string{
	"script":             "a = 0\n$\n",
	"global at the top":  "global a\na = 0\n$\n",
	"global":             "a = 0\ndef f():\n    global a\n    $\nf()\nlook()\nf()\n",
	"global unbound":     "def f():\n    global a\n    $\nf()\nlook()\n",
	"global inner":       "a = 0\ndef f():\n    a = 5\n    def g():\n        global a\n        $\n    g()\n    return kind(a)\nprint(f())\n",
	"global between":     "a = 0\ndef f():\n    global a\n    def g():\n        a = 5\n        $\n    g()\n    return kind(a)\nprint(f())\n",
	"global in if":       "a = 0\ndef f():\n    if True:\n        global a\n        $\nf()\n",
	"global in loop":     "a = 0\ndef f():\n    global a\n    for _ in range(2):\n        try:\n            $\n        finally:\n            print(1)\nf()\n",
	"global in clause":   "a = 0\ndef f():\n    global a\n    try:\n        raise Exception(\"#y\")\n    except Exception as e:\n        $\n    finally:\n        print(2)\nf()\n",
	"global returned":    "a = 0\ndef f():\n    global a\n    try:\n        $\n        return 6\n    finally:\n        print(2)\nprint(f())\n",
	"global generator":   "a = 0\ndef f():\n    global a\n    yield 1\n    $\n    yield 2\nprint(list(f()))\n",
	"global class":       "a = 0\nclass C:\n    global a\n    b = 3\n    $\nprint(hasattr(C, \"a\"))\n",
	"global method":      "a = 0\nclass C:\n    def m(self):\n        global a\n        $\nC().m()\n",
	"nonlocal":           "a = 0\ndef f():\n    a = 5\n    def g():\n        nonlocal a\n        $\n    g()\n    show(lambda: a)\n    g()\n    show(lambda: a)\nf()\n",
	"nonlocal parameter": "a = 0\ndef f(a):\n    def g():\n        nonlocal a\n        $\n    g()\n    show(lambda: a)\nf(5)\n",
	"nonlocal deep":      "a = 0\ndef f():\n    a = 5\n    def g():\n        def h():\n            nonlocal a\n            $\n        h()\n        return 1\n    print(g())\n    show(lambda: a)\nf()\n",
	"nonlocal twice":     "a = 0\ndef f():\n    a = 5\n    def g():\n        nonlocal a\n        def h():\n            nonlocal a\n            $\n        h()\n        show(lambda: a)\n        a = 6\n        $\n    g()\n    show(lambda: a)\nf()\n",
	"nonlocal in try":    "a = 0\ndef f():\n    a = 5\n    def g():\n        nonlocal a\n        try:\n            $\n        except ValueError as e:\n            print(e)\n        finally:\n            show(lambda: a)\n    g()\n    show(lambda: a)\nf()\n",
	"nonlocal generator": "a = 0\ndef f():\n    a = 5\n    def g():\n        nonlocal a\n        yield 1\n        $\n    print(list(g()))\n    show(lambda: a)\nf()\n",
	"nonlocal class":     "a = 0\ndef f():\n    a = 5\n    class C:\n        nonlocal a\n        $\n    print(hasattr(C, \"a\"))\n    show(lambda: a)\nf()\n",
	"nonlocal method":    "a = 0\ndef f():\n    a = 5\n    class C:\n        def m(self):\n            nonlocal a\n            $\n    C().m()\n    show(lambda: a)\nf()\n",
	"both":               "a = 0\ndef f():\n    b = 1\n    c = 2\n    def g():\n        global a\n        nonlocal c\n        c += 1\n        $\n    g()\n    return (b, c)\nprint(f())\n",
}

const declaredPrelude = `
def kind(x):
    if isinstance(x, (int, str, list)):
        return x
    return "error " + str(x) if isinstance(x, Exception) else "something"
def show(f):
    try:
        print(kind(f()))
    except Exception:
        print("unbound")
def look():
    show(lambda: a)
def plain(f):
    return f
`

// declaredPrograms returns a program for each binder of a variable that each declaration
// declares.
func declaredPrograms() (all []pyProgram) {
	for how, frame := range declared {
		for what, binder := range binders {
			if strings.HasSuffix(how, "class") && (what == "walrus list" || what == "walrus any") {
				continue // Python refuses these
			}
			all = append(all, pyProgram{name: "declared-" + how + "-" + what, code: declaredPrelude + fill(frame, binder) + "look()\n"})
		}
	}
	return all
}

// fill replaces $ in lines by lines with the same indentation.
func fill(frame, lines string) string {
	var out strings.Builder
	for line := range strings.Lines(frame) {
		if indent, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "$"); ok {
			line = indent + strings.ReplaceAll(lines, "\n", "\n"+indent) + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}
