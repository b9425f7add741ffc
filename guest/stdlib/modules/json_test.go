package modules_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/json"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestJSON(t *testing.T) {
	texts := []string{
		`{}`, `[]`, `{"a": 1, "b": [1.5, null, true, false]}`, ` [1 , 2 ] `, `"x\u00e9\ud83d\ude00\n\"\\\/"`, `1e5`, `-0`, `-0.0`, `1E+2`, `1.`, `01`, `-`, `+1`, `.5`, `1e`, `NaN`, `Infinity`, `-Infinity`, `nul`, `tru`,
		`{"a": 1, "a": 2}`, `{"a" 1}`, `{"a": 1,}`, `[1,]`, `[1 2]`, `{a: 1}`, `{'a': 1}`, `"abc`, `"a\qb"`, `"\u12g4"`, `"\u12"`, "\"a\nb\"", `[1] x`, ``, ` `, `[`, `{`, `{"a"`, `{"a":`, `123456789012345678901234567890`, `1e400`, "\ufeff1", `[1,
2,
x]`, `"é日本"`, `["é", x]`, `"\u0000"`, `[[[[]]]]`, `{"k": {"k": {}}}`, `1 `, `"\`, `[1, 2`, "\t{\r\n\"a\"\t:\t1}",
	}
	var scripts []string
	for _, text := range texts {
		scripts = append(scripts, "json.loads("+strconv.Quote(text)+")")
	}
	values := []string{
		"None", "True", "1", "-5", "1.0", "1e16", "1e-7", "1.5e300", "0.1", "'é\\n\\t\"\\\\/'", "'\\x00\\x1f\\x7f\\u2028'", "'\\U0001f600'", "[]", "{}", "[1, [2, [3]], {}]", "(1, 2)", "{'b': 1, 'a': {'d': [], 'c': [1]}}",
		"{1: 2, 2.5: 3, False: 4, None: 5}", "{(1, 2): 3}", "{'a': {(1, 2): 3}}", "len", "b'x'", "123456789012345678901234567890", "[{'a': 1}, {'b': [1, 2]}]", "''", "[None, [], '']",
	}
	options := []string{"", ", indent=2", ", indent=0", ", indent='\\t'", ", sort_keys=True", ", separators=(',', ':')", ", ensure_ascii=False", ", indent=2, sort_keys=True", ", indent=1, separators=(';', '=')", ", skipkeys=True", ", default=repr", ", indent=-1", ", indent=True", ", skipkeys=True, indent=1"}
	for _, v := range values {
		for _, o := range options {
			if v == "len" && strings.Contains(o, "repr") {
				continue
			}
			scripts = append(scripts, fmt.Sprintf("json.dumps(%s%s)", v, o))
		}
	}
	scripts = append(scripts,
		"json.dumps(float('nan'))", "json.dumps(float('inf'), allow_nan=False)", "json.dumps([float('-inf')])", "json.dumps({float('nan'): 1})", "json.dumps({'b': 1, 2: 3}, sort_keys=True)",
		"json.loads(1)", "json.loads(None)", "json.loads(b'[1]')", "json.loads('1', '2')", "json.dumps()", "json.dumps(1, 2)", "json.dumps(1, foo=2)", "json.dumps(1, separators=(1, 2))", "json.dumps(1, separators=(',',))",
		"json.loads('{\"a\": {\"b\": 1}}', object_hook=lambda d: list(d.items()))", "json.loads('{\"a\": {\"b\": 1}}', object_pairs_hook=lambda d: d)", "json.loads('[1.5, 2]', parse_float=lambda s: 'f' + s, parse_int=lambda s: 'i' + s)", "json.loads('[NaN]', parse_constant=lambda s: s)",
		"json.loads('"+strings.Repeat("1", 4300)+"') > 1", "json.loads('"+strings.Repeat("1", 4301)+"')",
		"x = []\nx.append(x)\nr = json.dumps(x)", "x = {}\nx['a'] = [x]\nr = json.dumps(x)", "json.dumps(len, default=lambda v: {'f': [1]}, indent=2)", "json.dumps(len, default=lambda v: v)", "json.dumps({'a': len}, default=lambda v: 1 // 0)",
	)
	g := rand.New(rand.NewPCG(5, 6))
	for range rounds(3000) {
		if text := mutated(g, randomJSON(g, 3)); !strings.Contains(text, "d83") && !strings.Contains(text, "de0") { // text has no half of a pair here
			scripts = append(scripts, "json.loads("+strconv.Quote(text)+")")
		}
		scripts = append(scripts, fmt.Sprintf("json.dumps(json.loads(%s)%s)", strconv.Quote(randomJSON(g, 3)), options[g.IntN(len(options))]))
	}
	stdlibtest.Same(t, stdlibtest.Names(json.Module()), "import json", 0, scripts)
}

func randomJSON(g *rand.Rand, depth int) string {
	n := g.IntN(9)
	if depth == 0 {
		n = g.IntN(7)
	}
	switch n {
	case 0:
		return "null"
	case 1:
		return strconv.Itoa(g.IntN(1000) - 500)
	case 2:
		return strconv.FormatFloat(g.NormFloat64()*1e3, 'g', g.IntN(18)+1, 64)
	case 3:
		return `"` + []string{"", "a", "é", `\n`, `\u0041`, `\ud83d\ude00`, "日本", " x "}[g.IntN(8)] + `"`
	case 4:
		return "true"
	case 5:
		return "[]"
	case 6:
		return "{}"
	case 7:
		var parts []string
		for range g.IntN(4) {
			parts = append(parts, randomJSON(g, depth-1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var parts []string
	for range g.IntN(4) {
		parts = append(parts, fmt.Sprintf(`"%c": %s`, 'a'+g.IntN(5), randomJSON(g, depth-1)))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// mutated returns a text with one change.
func mutated(g *rand.Rand, text string) string {
	runes := []rune(text)
	i := g.IntN(len(runes))
	other := []rune(`{}[]",:01.eE+-\nutx é`)
	switch g.IntN(3) {
	case 0:
		return string(append(runes[:i:i], runes[i+1:]...))
	case 1:
		runes[i] = other[g.IntN(len(other))]
		return string(runes)
	}
	return string(append(append(runes[:i:i], other[g.IntN(len(other))]), runes[i:]...))
}

func TestJSONErrorsSayWhere(t *testing.T) {
	env := stdlibtest.Names(json.Module())
	_, err := stdlibtest.Run(env, "json.loads('[1,\\n é x]')")
	if want := "Expecting value: line 2 column 2 (char 5)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestJSONHostile(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(json.Module()), []stdlibtest.Case{
		{Script: "json.loads('[' * 100000)", Want: "!RecursionError"},
		{Script: "json.loads('{\"a\":' * 100000)", Want: "!RecursionError"},
		{Script: "x = []\nfor i in range(2000):\n    x = [x]\nr = json.dumps(x)", Want: "!RecursionError"},
		{Script: "x = ['a' * 1000] * 1000\nfor i in range(3):\n    x = [x] * 1000\nr = json.dumps(x)", Want: "!memory"},
		{Script: "len(json.dumps([[[1]]], indent=1000000000))", Want: "9013"},
		{Script: "json.loads('\"\\\\ud800\"')", Want: "'\ufffd'"},
		{Script: "json.loads('1', cls=1)", Want: "!TypeError"},
		{Script: "json.loads([1])", Want: "[1]"}, // an answer that is decoded already
	})
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a": [1.5e3, "\u00e9", null]}`)
	env := stdlibtest.Names(json.Module())
	f.Fuzz(func(t *testing.T, text string) {
		stdlibtest.Outcome(env, "json.dumps(json.loads("+strconv.Quote(text)+"))")
	})
}
