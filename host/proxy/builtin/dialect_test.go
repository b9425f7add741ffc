package builtin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestDialectIsTrue runs the examples of the language that agents are told.
func TestDialectIsTrue(t *testing.T) {
	h := newFixture(t)
	for code, want := range map[string]string{
		"params.n + params[\"n\"]": "14",
		"return git_hub.search({\"k\": 1}).arguments.k == git_hub[\"search\"](k=1)[\"arguments\"][\"k\"]":                               "true",
		"return git_hub.search.raw().structuredContent.name":                                                                            `"search"`,
		"d = {\"items\": 1, \"x\": 2}\nreturn [d.x, d[\"items\"], len(d.items())]":                                                      "[2,1,2]",
		"return [json.decode(json.encode({\"a\": 1})).a, math.floor(2.5), json.indent(\"[]\")]":                                         `[1,2,"[]"]`,
		"n = 0\nwhile n < 3:\n    n += 1\nreturn [x for x in range(n) if x] + [\"%s-{}\" % 1, \"{}\".format(2), len(set([1, 1]))]":      `[1,2,"1-{}","2",1]`,
		"def f(n):\n    return 1 if n == 0 else n * f(n - 1)\nreturn f(5)":                                                              "120",
		"return [r.arguments.k for r in parallel([lambda: git_hub.search({\"k\": 1}), lambda: git_hub.search({\"k\": 2}, timeout=5)])]": "[1,2]",
		"return [is_error(r) for r in parallel_map(lambda n: 1 // n, [0, 1], errors=\"collect\")]":                                      "[true,false]",
		"undo(git_hub.search, {\"k\": 1})\ncommit()\nreturn type(content.image(\"YQ==\"))":                                              `"dict"`,
		"from math import sqrt\nclass A:\n  n = 2\nreturn [2 ** 3, 1 is 1, sqrt(4), A.n, {1, 1}, sum(x for x in [1, 2]), 1 < 2 < 3]":    "[8,true,2.0,2,[1],3,true]",
		"return (lambda x: x + 1)(1)": "2",
		"try:\n    fail(\"no\")\nexcept Error as e:\n    return f\"{e.message}!\"": `"no!"`,
	} {
		arguments := fmt.Sprintf(`{"code":%s,"params":{"n":7}}`, wire.Quote(code))
		if got := field(h.ok("eval_starlark", arguments), "result"); got != want {
			t.Errorf("%s\ngave %s, want %s", code, got, want)
		}
	}
	for _, code := range []string{"import os", "load('x', 'y')", "with a as b:\n  pass", "async def f(): pass", "complex(1, 2)",
		"eval('1')", "open('x')"} {
		h.fails("eval_starlark", fmt.Sprintf(`{"code":%s}`, wire.Quote(code)))
	}
	_, example, _ := strings.Cut(dialect, "Example:\n")
	if err := h.handler.cfg.Composer.Check(t.Context(), "example", strings.ReplaceAll(example, "github.", "git_hub.")); err != nil {
		t.Errorf("the example: %v", err)
	}
}
