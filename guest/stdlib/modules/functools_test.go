package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/functools"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestFunctools(t *testing.T) {
	scripts := []string{
		"functools.reduce(lambda a, b: a + b, [1, 2, 3])",
		"functools.reduce(lambda a, b: a + b, [], 5)",
		"functools.reduce(lambda a, b: a + b, [])",
		"functools.reduce(1, [1, 2])",
		"functools.reduce(lambda a, b: a * b, range(1, 30))",
		"functools.partial(max, 3)(5)",
		"functools.partial(lambda a, b=1, c=2: (a, b, c), 1, c=5)(b=7)",
		"functools.partial(lambda a, b=1: (a, b), b=2)(1, b=3)",
		"functools.partial(1)",
		"functools.partial()",
		"functools.partial(functools.partial(lambda *a: a, 1), 2)(3)",
		"functools.partial(max, 3).args",
		"sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))",
		"sorted([3, 1], key=functools.cmp_to_key(lambda a, b: 'x'))",
		"f = functools.lru_cache(maxsize=2)(lambda x: x * 2)\nr = [f(1), f(2), f(1), f(3), f(2), f.cache_info()]",
		"f = functools.lru_cache(lambda x: x)\nf(1)\nf(x=1)\nr = f.cache_info()",
		"calls = []\ndef g(x):\n    calls.append(x)\n    return x\nf = functools.cache(g)\nr = [f(1), f(1), f('a'), f(2), calls]",
		"f = functools.cache(lambda x: x)\nr = f([1])",
		"f = functools.lru_cache(maxsize=0)(lambda x: x)\nf(1)\nf(1)\nr = f.cache_info()",
		"f = functools.lru_cache(None)(lambda x: x)\nf(1)\nf.cache_clear()\nr = f.cache_info()",
		"functools.lru_cache(maxsize='x')",
		"def fib(n):\n    return n if n < 2 else cached(n - 1) + cached(n - 2)\ncached = functools.cache(fib)\nr = cached(60)",
		"f = functools.wraps(len)(lambda x: x + 1)\nr = f(1)",
		"functools.cache(1)",
	}
	stdlibtest.Same(t, stdlibtest.Names(functools.Module()), "import functools", 0, scripts)
}

func TestFunctoolsHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(functools.Module()), []stdlibtest.Case{
		{Script: "functools.partial(max, 1).keywords", Want: "{}"},
		{Script: "f = functools.lru_cache(maxsize=3)(lambda x: x)\nr = [f(i) for i in range(1000)][-1]", Want: "999"},
	})
}
