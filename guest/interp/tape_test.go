package interp

import (
	little "encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/tape"
	"github.com/mcp-metatool/mcp-metatool/guest/extend"
	"go.starlark.net/starlark"
)

// words returns a tape as the guest has it.
func words(encoded []byte) []uint32 {
	list := make([]uint32, (len(encoded)+3)/4)
	padded := append(encoded[:len(encoded):len(encoded)], 0, 0, 0)
	for i := range list {
		list[i] = little.LittleEndian.Uint32(padded[4*i:])
	}
	return list
}

// withTape replaces the value of an answer by its tape, if it has one.
func withTape(a abi.Answer) abi.Answer {
	if encoded, ok := tape.Encode(a.Value); ok && a.Err == nil {
		a.Value, a.Tape = nil, words(encoded)
	}
	return a
}

// tapeTexts are JSON texts, valid or not.
var tapeTexts = []string{
	`null`, `true`, `false`, ` 1 `, `-0`, `0`, `-0.0`, `1.5`, `1e3`, `1E-400`, `1e999`, `-1e400`, `01`, `-`, `1.`, `.5`, `+1`, `1e`, `1e+`, `2147483647`, `2147483648`, `-2147483648`, `-2147483649`,
	`9007199254740993`, `999999999999999999`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775809`, strings.Repeat("9", 5000),
	`""`, `"a"`, `"é"`, `"\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\uzzzz"`, `"\ud83d\u12"`, `"\u12"`, `"\x"`, `"\`, `"`, `"a` + "\n" + `"`, "\"\x7f\u2028\"",
	"\"\xff\"", "\"a\xc3\"", "\"\xc3\\u00a9\"", "\"\xe2\x82\"", "\"\xed\xa0\x80\"", "\"\\n\xc3(\"", "\"\xf4\x90\x80\x80\"", `"\"\\\/\b\f\n\r\t"`, "\"\\u0000\"",
	`[]`, `{}`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":`, `{"a":1]`, `[1}`, `1 1`, `nul`, `truex`, "\ufeff1", ``, ` `,
	`{"a":1,"b":2,"a":3}`, `{"a":1,"\u0061":[2],"":{},"":null}`, `[{"a":1,"b":2},{"b":1,"a":2},{"a":{"a":{"a":1}}}]`, `{"items":1,"get":2,"keys":[3]}`,
	`{"x":[[],[[]],{"y":[{}]}],"z":"\n"}`, "{\"\xff\":1,\"\xfe\":2}", "\t[\r\n1\t,\n2 ]\r",
	strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001),
	object(8), object(64), object(65), object(300), "[" + strings.Repeat(object(9)+",", 30) + object(10) + "]",
}

// object returns an object with n members.
func object(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"key%d":{"n":%d,"s":"v%d"}`, i, i, i))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// sameAsTape fails unless the tape of a text has the values that decoding it has. It
// returns whether there is a tape.
func sameAsTape(t *testing.T, text string) bool {
	t.Helper()
	want, err := decodeJSON([]byte(text))
	encoded, ok := tape.Encode([]byte(text))
	if !ok {
		return false
	}
	if err != nil {
		t.Fatalf("%.200q has a tape, and cannot be decoded: %v", text, err)
	}
	if len(encoded) > 4*len(text)+1024 {
		t.Errorf("%.200q: a tape of %d bytes", text, len(encoded))
	}
	for _, memory := range []uint64{0, 1} { // lazy dicts, if there are any, and none
		got, err := (&run{memory: memory}).answerValue(abi.Answer{Tape: words(encoded)})
		if err != nil {
			t.Fatalf("%.200q: %v", text, err)
		}
		if repr(got) != repr(want) { // in the same order, too
			t.Errorf("%.200q: the tape has %.200s, decoding gives %.200s", text, repr(got), repr(want))
		}
		lookup(t, text, got, want)
	}
	return true
}

// lookup compares what is found in dicts that are not complete yet.
func lookup(t *testing.T, text string, got, want starlark.Value) {
	t.Helper()
	o, ok := want.(Object)
	if !ok {
		return
	}
	again, _ := (&run{}).answerValue(withTape(abi.Answer{Value: []byte(text)}))
	fresh := again.(Object)
	for k, v := range o.Entries() {
		a, found, err := fresh.Dict.Get(k)
		if !found || err != nil || repr(a) != repr(v) {
			t.Errorf("%.200q: %s is %.200s (%t, %v), want %.200s", text, k, repr(a), found, err, repr(v))
		}
		if b, _, _ := fresh.Dict.Get(k); repr(b) != repr(a) {
			t.Errorf("%.200q: %s changes", text, k)
		}
		for _, other := range []string{string(k.(starlark.String)) + "x", "no"} {
			_, has, _ := o.Dict.Get(starlark.String(other))
			if _, found, _ := fresh.Dict.Get(starlark.String(other)); found != has {
				t.Errorf("%.200q: %q is found", text, other)
			}
		}
	}
	if fresh.Len() != o.Len() {
		t.Errorf("%.200q: %d members, want %d", text, fresh.Len(), o.Len())
	}
}

// TestTape compares tapes with the JSON that they were made from.
func TestTape(t *testing.T) {
	tapes := 0
	for _, text := range tapeTexts {
		if sameAsTape(t, text) {
			tapes++
		} else if _, err := decodeJSON([]byte(text)); err == nil && len(text) > 0 {
			t.Errorf("%.200q has no tape", text)
		}
	}
	if tapes < 50 {
		t.Errorf("%d tapes", tapes)
	}
	if extend.LazyDict == nil {
		t.Error("this interpreter has no lazy dicts")
	}
}

// FuzzTape does the same with arbitrary texts.
func FuzzTape(f *testing.F) {
	for _, text := range tapeTexts {
		if len(text) < 2000 {
			f.Add(text)
		}
	}
	f.Add(string(issuesPage(0)))
	f.Fuzz(func(t *testing.T, text string) { sameAsTape(t, text) })
}

// TestLazyDicts runs every operation on dicts with an answer whose values are not made yet,
// alone and after a lookup. The outcome must be that with the answer as JSON.
func TestLazyDicts(t *testing.T) {
	operations := []string{
		`d`, `len(d)`, `bool(d)`, `list(d)`, `d.keys()`, `d.values()`, `d.items()`, `[k for k in d]`, `"b" in d`, `"zz" in d`, `5 in d`, `(1, 2) in d`,
		`d["b"]`, `d.get("b")`, `d.get("zz", 7)`, `d.get(5)`, `d.b.c`, `d.zz`, `d["zz"]`, `d[5]`, `d[[]]`, `d.get([])`, `d.get({})`, `d.pop("b")`, `d.pop("zz")`, `d.pop("zz", 1)`, `d.pop([])`,
		`d.popitem()`, `d.setdefault("b", 1)`, `d.setdefault("zz", 1)`, `d.update({"a": 9, "n": 1})`, `d.update([("a", 9)])`, `d.clear()`, `d.copy()`, `dict(d)`, `dict(d, z=1)`, `d | {"b": 0}`, `{"b": 0} | d`,
		`d == demo.echo(other)`, `d == {"a": 1}`, `d != d`, `str(d)`, `repr(d)`, `json.dumps(d)`, `json.encode(d)`, `sorted(d)`, `max(d)`, `set(d)`, `[v for v in d.values()]`, `{k: v for k, v in d.items()}`,
		`demo.echo(d)`, `demo.echo(**d)`, `(lambda **kw: kw)(**d)`, `[*d]`, `{**d, "b": 1}`, `d.list[1].x`, `[x.x for x in d.list]`, `d.list.append(1)`, `d.list[0].update({"x": 5})`, `type(d)`, `hash(d)`, `dir(d)`, `d.b is d.b`,
		`d.list[0] == d.list[1]`, `d.deep.deep.deep`, `"%(a)s" % d`, `"{a}".format(**d)`, `copy.deepcopy(d)`, `collections.Counter(d.n)`, `list(reversed(list(d)))`, `list(zip(d, d.values()))`, `any(d)`, `next(iter(d))`,
	}
	changes := []string{
		``, `d.b`, `d["b"]; d.get("list")`, `d["new"] = 1`, `d.a = 2`, `d["b"]["c"] = 3`, `d.list[0].y = 4`, `del d["a"]`, `d |= {"a": 4}`, `list(d)`,
		"for k, v in d.items():\n    v2 = d[k]\n    e = [k2 for k2 in d]", "for k in d:\n    d[k]", "for k in d:\n    d['x' + k] = 1", "x = d.list\nx.append(d)\nx.pop()", `y = d.copy(); y["b"] = 0`, "try:\n    d.zz\nexcept Error:\n    pass",
	}
	const prelude = "import copy, collections\nother = %s\nd = demo.echo(other)\n%s\nreturn [%s, d]"
	dicts := []string{
		`{"a": 1, "b": {"c": [1, {"x": None}]}, "list": [{"x": 1}, {"x": 2}, []], "deep": {"deep": {"deep": {"deep": 1}}}, "n": {"p": 1, "q": 2}}`,
		`{"a": "text", "b": {}, "list": [], "items": 1, "get": {"x": [1]}, "é": 2, "": 3}`,
		`{"k%d" % i: {"x": i, "list": [i]} for i in range(70)}`,
	}
	all, errors := 0, 0
	for n, dict := range dicts {
		for c, change := range changes {
			for o, operation := range operations {
				if !*long && (n+c+o)%len(dicts) > 0 { // each operation after each change, on one of the dicts
					continue
				}
				code := fmt.Sprintf(prelude, dict, change, operation)
				outcome := func(tapes bool) string {
					req := abi.Request{Op: abi.OpRun, Name: "program", Code: code, Servers: testServers, Params: []byte("{}")}
					result, failure := serve(req, &fakeHost{json: !tapes}, 300_000)
					details, _ := json.Marshal(failure)
					return fmt.Sprintf("%s\n%s", result, details)
				}
				got, want := outcome(true), outcome(false)
				if got != want {
					t.Errorf("dict %d\n%s\nwith a tape:\n%s\nwith JSON:\n%s", n, code, got, want)
				}
				if all++; !strings.HasSuffix(want, "null") {
					errors++
				}
			}
		}
	}
	t.Logf("%d scripts, %d end in an error", all, errors)
	if errors < all/20 || errors > all/2 {
		t.Errorf("%d of %d scripts end in an error", errors, all)
	}
}
