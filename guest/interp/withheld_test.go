package interp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// marker is that of the requests of these tests.
const marker = "withheld-0123456789abcdef-"

// planHost withholds the answers of the tools of demo: their numbers are those of the
// calls. Other servers echo.
type planHost struct {
	fakeHost
	withheld int
}

func (h *planHost) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	answers := make([]abi.Answer, len(calls))
	for i, c := range calls {
		h.calls = append(h.calls, c)
		if c.Server != "demo" {
			answers[i].Value = c.Arguments
			continue
		}
		h.withheld++
		answers[i].Value = fmt.Appendf(nil, "%q", fmt.Sprint(marker, h.withheld))
		if c.Caught {
			answers[i] = abi.Answer{Err: &abi.CallError{Type: abi.ErrWithheld, Server: c.Server, Tool: c.Tool, Message: "it could fail"}}
		}
	}
	return answers, nil
}

func planned(code string, params string) (string, *abi.Error, *planHost) {
	h := &planHost{}
	result, err := Run(abi.Request{
		Op: abi.OpRun, Name: "t", Code: code, Params: []byte(params), Servers: testServers, Now: 1, Seed: 1, Withheld: marker,
	}, h)
	return string(result), err, h
}

// TestWithheldPassed checks what a script can do with an answer that it does not know.
func TestWithheldPassed(t *testing.T) {
	const w = `"` + marker + `1"`
	for expr, want := range map[string]string{
		"w":                                    w,
		"[w, 1]":                               "[" + w + ",1]",
		"(w, w)":                               "[" + w + "," + w + "]",
		"{'a': {'b': [w]}}":                    `{"a":{"b":[` + w + `]}}`,
		"other.echo(a=w)":                      `{"a":` + w + `}`,
		"other.echo({'a': [w]}).a[0]":          w,
		"other.echo(a=w, b=demo.other(x=w))":   `{"a":` + w + `,"b":"` + marker + `2"}`,
		"tools.other(a=w)['a']":                w,
		"(lambda x: x)(w)":                     w,
		"[x for x in [w]][0]":                  w,
		"len([w, w])":                          "2",
		"[w] + [1]":                            "[" + w + ",1]",
		"{'a': w}.get('a')":                    w,
		"dict(a=w) | {'b': 1}":                 `{"a":` + w + `,"b":1}`,
		"list({'a': w}.values())":              "[" + w + "]",
		"list(zip([w], [1]))":                  "[[" + w + ",1]]",
		"[1, w].pop()":                         w,
		"print('made', w)":                     "null",
		"parallel([lambda: w])":                "[" + w + "]",
		"parallel_map(lambda x: x, [w, 1])":    "[" + w + ",1]",
		"w if len([w]) == 1 else 0":            w,
		"list(reversed([w, 1]))":               "[1," + w + "]",
		"params.given":                         `"` + marker + `7"`,
		"copy.deepcopy([w])[0]":                w,
		"undo(other.delete, {'id': w})":        "null",
		"list(x for x in [w])":                 "[" + w + "]",
		"[w][:1]":                              "[" + w + "]",
		"copy.copy({'a': w})":                  `{"a":` + w + `}`,
		"{**{'a': w}}":                         `{"a":` + w + `}`,
		"[*[w]]":                               "[" + w + "]",
		"other.echo({'a': 1}, meta={'id': w})": `{"a":1}`,
		"'" + marker[:5] + "'":                 `"` + marker[:5] + `"`,
	} {
		got, err, h := planned("w = demo.create(title='x')\nreturn "+expr, `{"given":"`+marker+`7"}`)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %+v, want %s", expr, got, err, want)
		}
		if strings.Contains(expr, "print") && h.log.String() != "0 made <the answer of write 1>\n" {
			t.Errorf("%s: the log is %q", expr, h.log.String())
		}
	}
}

// TestWithheldLookedInto checks that every use of an answer that depends on what it is
// ends the run there, with the position, although the script would catch every error.
func TestWithheldLookedInto(t *testing.T) {
	for _, expr := range strings.Split(strings.TrimSpace(`
w.number
w["number"]
w[0]
w[1:]
w.get("a")
w()
w == 1
1 == w
w != None
w == None
w is None
w is not None
w is w
w == w
[w] == [w]
{"a": w} == {"a": w}
[w] == [1]
w < 1
w + 1
1 + w
"a" + w
w * 2
-w
not w
w and 1
w or 1
1 if w else 2
w in [1]
1 in w
"a" in w
w in {"a": 1}
[1, 2].index(w)
[1].count(w)
[w].count(1)
str(w)
repr(w)
int(w)
float(w)
bool(w)
list(w)
dict(w)
set(w)
tuple(w)
len(w)
type(w)
isinstance(w, str)
isinstance(w, (str, int))
isinstance(w, dict)
callable(w)
hasattr(w, "number")
getattr(w, "number", 0)
getattr(w, "number")
dir(w)
id(w)
hash(w)
f"{w}"
f"{w!r}"
f"{w:>10}"
"%s" % w
"%s %s" % (w, 1)
"{}".format(w)
"{0[a]}".format(w)
", ".join([w])
str([w])
str({"a": w})
print([w])
print(f"made {w}")
json.dumps(w)
json.encode({"a": w})
json.loads(w)
{w: 1}
set([w])
{w}
frozenset([w])
{"a": 1}[w]
{"a": 1}.get(w)
[1][w]
range(w)
[x for x in w]
list(x for x in w)
[x for x in [1] if w]
max(w, 1)
max([w, 1])
min(1, w)
sum([w])
sorted([w, 1])
sorted([1, 2], key=lambda x: w)
any([w])
all([w])
any(x for x in [w])
list(filter(None, [w]))
list(filter(lambda x: w, [1]))
list(map(str, [w]))
next(w)
iter(w)
enumerate(w)
zip(w, [1])
reversed(w)
parallel(w)
parallel_map(lambda x: x, w)
is_error(w)
fail(w)
demo.create(w)
demo.create(**w)
demo.create({"a": 1}, timeout=w)
demo[w]
demo.create({w: 1})
progress(w)
progress(1, message=w)
math.floor(w)
math.isnan(w)
re.match("a", w)
re.match(w, "a")
datetime.datetime.fromisoformat(w)
datetime.timedelta(days=w)
collections.Counter([w])
collections.Counter(w)
collections.defaultdict(list, w)
base64.b64encode(w)
hashlib.sha256(w)
itertools.chain.from_iterable(w)
list(itertools.groupby([w, w]))
functools.reduce(lambda a, b: a + b, [w, 1])
operator.itemgetter("a")(w)
operator.add(w, 1)
operator.eq(w, 1)
statistics.mean([w, w])
textwrap.dedent(w)
urllib.parse.quote(w)
uuid.UUID(w)
random.choice(w)
random.seed(w)
functools.partial(w)
functools.lru_cache(w)
operator.attrgetter(w)
operator.methodcaller(w)
itertools.combinations([1], r=w)
collections.deque([1], w)
collections.defaultdict(w)
[1].remove(w)
"abc".replace("a", w)
{}.setdefault(w, 1)
set([1]) & w
None == w
(1, w) < (1, 2)
bisect.bisect([1, 2], w)
heapq.nsmallest(1, [w, 2])
html.escape(w)
csv.reader(w)
string.capwords(w)
text(w)
`), "\n") {
		if expr == "text(w)" { // a content block
			expr = "content.text(w)"
		}
		imports := ""
		for _, m := range []string{"math", "re", "datetime", "collections", "copy", "base64", "hashlib", "itertools", "functools", "operator", "statistics", "textwrap", "urllib.parse", "uuid", "random", "bisect", "heapq", "html", "csv", "string"} {
			if strings.Contains(expr, m+".") {
				imports += "import " + m + "; "
			}
		}
		code := imports + "w = demo.create(title='x')\ndef f():\n  try:\n    return " + expr + "\n  except:\n    pass\n  finally:\n    other.late()\nreturn [f(), other.later()]"
		got, err, h := planned(code, "{}")
		switch {
		case err == nil:
			t.Errorf("%s: got %s", expr, got)
		case err.Type != abi.ErrWithheld || err.Position == nil || err.Position.Line != 4 || !strings.HasPrefix(err.Message, "the answer of write 1 is not known yet"):
			t.Errorf("%s: %+v (%+v)", expr, err, err.Position)
		case len(h.calls) > 1:
			t.Errorf("%s: calls were made after it: %+v", expr, h.calls[1:])
		}
	}
}

// TestWithheldStatements is the same for statements.
func TestWithheldStatements(t *testing.T) {
	for _, code := range []string{
		"for x in w: pass",
		"if w: pass",
		"while w: pass",
		"a, b = w",
		"[a] = w",
		"w.x = 1",
		"w['x'] = 1",
		"w += 1",
		"x = [1]; x += w",
		"x = {}; x |= w",
		"x = {}; x[w] = 1",
		"x = {'a': 1}; del x[w]",
		"assert w",
		"raise w",
		"def g():\n  yield from w\nlist(g())",
		"match w:\n  case {'a': x}: pass",
		"match w:\n  case [x]: pass",
		"match w:\n  case 1: pass",
		"match w:\n  case None: pass",
		"match w:\n  case str(): pass",
		"match [w]:\n  case [1]: pass",
		"class A: pass\nmatch w:\n  case A(): pass",
		"def g(x):\n  return x.a\nparallel_map(g, [w])",
		"parallel([lambda: w.a], errors='collect')",
		"def g():\n  for x in [w]:\n    yield x.a\nlist(g())",
		"def g():\n  for x in [w]:\n    yield x.a\nnext(g())",
		"sorted([w, w])",
		"class A:\n  def __init__(self, x): self.x = x\n  def __str__(self): return str(self.x)\nstr(A(w))",
		"class A:\n  def __init__(self, x): self.x = x\n  def __bool__(self): return self.x\nbool(A(w))",
		"class A:\n  def __init__(self, x): self.x = x\n  def __eq__(self, o): return self.x\nA(w) == 1",
		"class A:\n  def __init__(self, x): self.x = x\n  def __iter__(self): return self.x\nlist(A(w))",
		"from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nP(w) == P(w)",
		"from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nstr(P(w))",
	} {
		got, err, _ := planned("w = demo.create()\n"+code, "{}")
		if err == nil || err.Type != abi.ErrWithheld || err.Position == nil {
			t.Errorf("%s: got %s, %+v", code, got, err)
		}
	}
}

// TestCaught checks that the host learns which calls could fail without ending the script.
func TestCaught(t *testing.T) {
	for code, want := range map[string]bool{
		"demo.a()":                                                                                  false,
		"try:\n  demo.a()\nexcept:\n  pass":                                                         true,
		"try:\n  demo.a()\nfinally:\n  pass":                                                        true,
		"try:\n  pass\nexcept:\n  pass\nelse:\n  demo.a()":                                          false,
		"try:\n  fail('x')\nexcept:\n  demo.a()":                                                    false,
		"try:\n  pass\nfinally:\n  demo.a()":                                                        false,
		"def f(): demo.a()\ntry:\n  f()\nexcept:\n  pass":                                           true,
		"try:\n  [1].index(2)\nexcept:\n  pass\ndemo.a()":                                           false,
		"parallel([lambda: demo.a()])":                                                              false,
		"parallel([lambda: demo.a()], errors='collect')":                                            true,
		"try:\n  parallel([lambda: demo.a()])\nexcept:\n  pass":                                     true,
		"def g():\n  yield demo.a()\nx = g()\ntry:\n  next(x)\nexcept:\n  pass":                     true,
		"def g():\n  yield 1\n  yield demo.a()\nx = g()\ntry:\n  next(x)\nexcept:\n  pass\nnext(x)": false,
		"def g():\n  yield demo.a()\ntry:\n  list(g())\nexcept:\n  pass":                            true,
	} {
		_, err, h := planned(code, "{}")
		if len(h.calls) != 1 || h.calls[0].Caught != want {
			t.Errorf("%s: %+v", code, h.calls)
		}
		if want != (err != nil && err.Type == abi.ErrWithheld) || want && (err.Position == nil || err.Call == nil) {
			t.Errorf("%s: %+v", code, err)
		}
	}
	h := &fakeHost{}
	if _, err := Run(abi.Request{Op: abi.OpRun, Code: "try:\n  other.a()\nexcept:\n  pass", Servers: testServers}, h); err != nil || h.calls[0].Caught {
		t.Errorf("a run that is not planned: %+v, %v", h.calls, err)
	}
}

// TestForgedMarker checks that strings like those of withheld answers are strings: without
// the marker, with another number, and in text that a script parses.
func TestForgedMarker(t *testing.T) {
	for _, s := range []string{marker, marker + "0", marker + "01", marker + "-1", marker + "+1", marker + "1 ", marker + "x", "x" + marker + "1", marker + "99999999999999999999"} {
		got, err, _ := planned("return [params.s, len(params.s)]", fmt.Sprintf(`{"s":%q}`, s))
		if want := fmt.Sprintf("[%q,%d]", s, len(s)); err != nil || got != want {
			t.Errorf("%q: got %s, %+v", s, got, err)
		}
	}
	got, err, _ := planned("import json\nreturn len(json.loads(params.s)[0])", fmt.Sprintf(`{"s":"[\"%s1\"]"}`, marker))
	if want := fmt.Sprint(len(marker) + 1); err != nil || got != want {
		t.Errorf("in text: got %s, %+v", got, err)
	}
	result, failure := Run(abi.Request{Op: abi.OpRun, Code: "return len(params.s)", Params: fmt.Appendf(nil, `{"s":"%s1"}`, marker)}, &fakeHost{})
	if want := fmt.Sprint(len(marker) + 1); failure != nil || string(result) != want {
		t.Errorf("not planned: got %s, %+v", result, failure)
	}
}
