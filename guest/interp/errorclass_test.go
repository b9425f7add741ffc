package interp

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// failingExpressions are expressions of Python that fail, each with the class of its
// error. Most errors come from the library, whose messages tell which class they have.
var failingExpressions = []struct{ code, class string }{
	{`chr(-1)`, "ValueError"},
	{`sum([1, None])`, "TypeError"},
	{`"{} {}".format(1)`, "IndexError"},
	{`"{x}".format(y=1)`, "KeyError"},
	{`"%d %d" % (1,)`, "TypeError"},
	{`"%d" % "a"`, "TypeError"},
	{`format(1, "q")`, "ValueError"},
	{`{}.popitem()`, "KeyError"},
	{`set().pop()`, "KeyError"},
	{`[1].remove(2)`, "ValueError"},
	{`[1, 2][::0]`, "ValueError"},
	{`range(1, 5, 0)`, "ValueError"},
	{`1 << -1`, "ValueError"},
	{`int("1", 99)`, "ValueError"},
	{`1 / 0`, "ZeroDivisionError"},
	{`1 // 0`, "ZeroDivisionError"},
	{`1 % 0`, "ZeroDivisionError"},
	{`1.0 // 0`, "ZeroDivisionError"},
	{`[1][5]`, "IndexError"},
	{`(1,)[5]`, "IndexError"},
	{`"a"[5]`, "IndexError"},
	{`[].pop()`, "IndexError"},
	{`[1].pop(7)`, "IndexError"},
	{`{"a": 1}["b"]`, "KeyError"},
	{`{"a": 1}.pop("b")`, "KeyError"},
	{`set([1]).remove(2)`, "KeyError"},
	{`(5).x`, "AttributeError"},
	{`"a".nope`, "AttributeError"},
	{`None.x`, "AttributeError"},
	{`[].nope`, "AttributeError"},
	{`int("x")`, "ValueError"},
	{`float("x")`, "ValueError"},
	{`[1].index(2)`, "ValueError"},
	{`"a".index("b")`, "ValueError"},
	{`max([])`, "ValueError"},
	{`"a".split("")`, "ValueError"},
	{`a, b = [1]`, "ValueError"},
	{`a, b = [1, 2, 3]`, "ValueError"},
	{`int(float("inf"))`, "OverflowError"},
	{`int(float("nan"))`, "ValueError"},
	{`float(10 ** 400)`, "OverflowError"},
	{`1 + "a"`, "TypeError"},
	{`-"a"`, "TypeError"},
	{`1 < "a"`, "TypeError"},
	{`[1] < ["a"]`, "TypeError"},
	{`sorted([1, "a"])`, "TypeError"},
	{`list(5)`, "TypeError"},
	{`{[]: 1}`, "TypeError"},
	{`hash([])`, "TypeError"},
	{`"a".replace(1, 2)`, "TypeError"},
	{`(lambda x: x)()`, "TypeError"},
	{`(lambda x: x)(1, 2)`, "TypeError"},
	{`(lambda x: x)(y=1)`, "TypeError"},
	{`len(5)`, "TypeError"},
	{`5()`, "TypeError"},
	{`None()`, "TypeError"},
	{`"a".upper(1)`, "TypeError"},
	{`"a".center()`, "TypeError"},
	{`int(None)`, "TypeError"},
	{`None[0]`, "TypeError"},
	{`5[0]`, "TypeError"},
	{`frozenset([1])[0]`, "TypeError"},
	{`(1, 2)["a"]`, "TypeError"},
	{`"abc"["a"]`, "TypeError"},
	{`[1]["a"]`, "TypeError"},
	{`"x" in 5`, "TypeError"},
	{`next(iter([]))`, "StopIteration"},
	{`iter(5)`, "TypeError"},
	{`tuple(5)`, "TypeError"},
	{`ord("ab")`, "TypeError"},
	{`"a" + 1`, "TypeError"},
	{`[] + 1`, "TypeError"},
	{`"a" * "b"`, "TypeError"},
	{`dict([1])`, "TypeError"},
	{`dict(5)`, "TypeError"},
	{`int([])`, "TypeError"},
	{`float([])`, "TypeError"},
	{`isinstance(1, 5)`, "TypeError"},
	{`",".join([1])`, "TypeError"},
	{`zip([1], 2)`, "TypeError"},
	{`enumerate(5)`, "TypeError"},
	{`range("a")`, "TypeError"},
	{`abs("a")`, "TypeError"},
	{`round("a")`, "TypeError"},
	{`getattr(1, 2)`, "TypeError"},
	{`[3].sort(5)`, "TypeError"},
	{`"a".encode("nope")`, "LookupError"},
	{`b"\xff".decode()`, "UnicodeDecodeError"},
	{`"é".encode("ascii")`, "UnicodeEncodeError"},
	{`b"a"[7]`, "IndexError"},
	{`"ab".zfill("x")`, "TypeError"},
	{`range(5)[9]`, "IndexError"},
	{`divmod(1, 0)`, "ZeroDivisionError"},
	{`pow(2, -1, 4)`, "ValueError"},
	{`2.0 ** 100000`, "OverflowError"},
	{`print(1, foo=2)`, "TypeError"},
	{`list(1, 2)`, "TypeError"},
	{`"abc".startswith(5)`, "TypeError"},
	{`{}.get()`, "TypeError"},
	{`[].append()`, "TypeError"},
	{`[].insert(1)`, "TypeError"},
	{`reversed(5)`, "TypeError"},
	{`sum(["a"])`, "TypeError"},
	{`any(5)`, "TypeError"},
	{`list(map(5, [1]))`, "TypeError"},
	{`list(zip([1], [1, 2], strict=True))`, "ValueError"},
	{`bool(1, 2)`, "TypeError"},
	{`"a" % 5`, "TypeError"},
	{`"%q" % 5`, "ValueError"},
	{`"%(a)s" % {}`, "KeyError"},
	{`min(1)`, "TypeError"},
	{`[*5]`, "TypeError"},
	{`{**5}`, "TypeError"},
	{`(lambda **k: k)(**5)`, "TypeError"},
	{`"{0.x}".format(1)`, "AttributeError"},
	{`"{".format()`, "ValueError"},
	{`"}".format()`, "ValueError"},
	{`"a" + None`, "TypeError"},
	{`b"a" + "b"`, "TypeError"},
	{`[1, 2].index(3)`, "ValueError"},
	{`math.log(0)`, "ValueError"},
	{`math.factorial(-1)`, "ValueError"},
	{`json.loads("{")`, "JSONDecodeError"},
	{`int("")`, "ValueError"},
	{`float("")`, "ValueError"},
	{`[1, 2, 3].remove(4)`, "ValueError"},
	{`"a".rindex("b")`, "ValueError"},
	{`tuple([1]).index(2)`, "ValueError"},
	{`"abc".split(5)`, "TypeError"},
	{`{1: 2}[[]]`, "TypeError"},
	{`[][:"a"]`, "TypeError"},
	{`["a"] * "b"`, "TypeError"},
	{`max(1, "a")`, "TypeError"},
	{`[3, 1].sort(key=5)`, "TypeError"},
	{`set([[]])`, "TypeError"},
	{`frozenset([[]])`, "TypeError"},
	{`round(1, "a")`, "TypeError"},
	{"def f():\n    x\n    x = 1\nf()", "UnboundLocalError"},
	{"d = {1: 2}\nfor k in d: d[k + 1] = 3", "RuntimeError"},
	{`json.loads("[1,")`, "JSONDecodeError"},
	{`"abc"[0] = "x"`, "TypeError"},
	{`[].x = 1`, "AttributeError"},
}

// TestErrorClasses checks the classes of errors, and that every row of libraryErrors is
// the one that finds the class of some error.
func TestErrorClasses(t *testing.T) {
	found := make(map[int]bool)
	for _, e := range failingExpressions {
		class, message := failure(t, e.code)
		if class != e.class {
			t.Errorf("%s: %s (%s), want %s", e.code, class, message, e.class)
		}
		message, _, _ = strings.Cut(message, " (")
		found[libraryError(message)] = true
	}
	_, message := failure(t, `json.decode("{")`) // only Starlark has it
	found[libraryError(message)] = true
	for i, e := range libraryErrors {
		if !found[i] {
			t.Errorf("no expression has an error that %q belongs to", e)
		}
	}
}

// TestErrorClassesOfPython compares the table with CPython.
func TestErrorClassesOfPython(t *testing.T) {
	python := testenv.Program(t, "python3")
	var code strings.Builder
	code.WriteString("import json, math\n")
	for _, e := range failingExpressions {
		code.WriteString(failing(e.code) + "    print(type(e).__name__)\nelse:\n    print('none')\n")
	}
	out, err := exec.Command(python, "-W", "ignore", "-c", code.String()).Output()
	if err != nil {
		t.Fatal(err)
	}
	classes := strings.Fields(string(out))
	if len(classes) != len(failingExpressions) {
		t.Fatalf("%d classes for %d expressions", len(classes), len(failingExpressions))
	}
	for i, e := range failingExpressions {
		if classes[i] != e.class {
			t.Errorf("%s: %s in Python, want %s", e.code, classes[i], e.class)
		}
	}
}

func failing(code string) string {
	return "try:\n    " + strings.ReplaceAll(code, "\n", "\n    ") + "\nexcept BaseException as e:\n"
}

// failure returns the class and the message of the error of an expression.
func failure(t *testing.T, code string) (class, message string) {
	t.Helper()
	code = failing(code) + "    return [type(e).__name__, e.message]\nreturn [\"none\", \"\"]\n"
	result, err := serve(abi.Request{Op: abi.OpRun, Name: "test", Code: code}, &fakeHost{}, 0)
	if err != nil {
		t.Fatalf("%s: %s", code, err.Message)
	}
	var out [2]string
	if err := json.Unmarshal(result, &out); err != nil {
		t.Fatal(err)
	}
	return out[0], out[1]
}
