package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/bisect"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestBisect(t *testing.T) {
	scripts := []string{
		"[bisect.bisect_left([1, 2, 2, 3], x) for x in range(5)]",
		"[bisect.bisect_right([1, 2, 2, 3], x) for x in range(5)]",
		"bisect.bisect([1, 2, 3], 2, 0, 1)",
		"bisect.bisect([1, 2, 3], 2, lo=2)",
		"bisect.bisect([1], 1, -1)",
		"bisect.bisect([1], 'a')",
		"a = [1, 3, 5]\nbisect.insort(a, 3)\nbisect.insort_left(a, 0)\nr = a",
		"bisect.bisect_left([(1, 'a'), (3, 'b')], 2, key=lambda x: x[0])",
		"a = [(1, 'a'), (3, 'b')]\nbisect.insort(a, (2, 'c'), key=lambda x: x[0])\nr = a",
		"bisect.bisect_left([1, 2], 2, 0, 5)",
		"bisect.bisect_left(5, 2)",
		"bisect.bisect_left((1, 2, 3), 3)",
		"bisect.bisect_left([3, 1], 2, hi=None)",
	}
	stdlibtest.Same(t, stdlibtest.Names(bisect.Module()), "import bisect", 0, scripts)
}

func TestBisectHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(bisect.Module()), []stdlibtest.Case{
		{Script: "bisect.insort((1, 2), 3)", Want: "!AttributeError"},
	})
}
