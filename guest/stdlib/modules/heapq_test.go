package modules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/heapq"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestHeapq(t *testing.T) {
	scripts := []string{
		"h = [5, 3, 8, 1, 9, 2]\nheapq.heapify(h)\nr = h",
		"h = []\nfor x in [5, 3, 8, 1, 9, 2]:\n    heapq.heappush(h, x)\nr = (h, [heapq.heappop(h) for i in range(6)])",
		"heapq.heappop([])",
		"h = [1, 5, 3]\nr = (heapq.heapreplace(h, 4), h)",
		"h = [1, 5, 3]\nr = (heapq.heappushpop(h, 0), heapq.heappushpop(h, 9), h)",
		"heapq.heappushpop([], 3)",
		"heapq.heapreplace([], 3)",
		"heapq.nlargest(2, [3, 1, 4, 1, 5])",
		"heapq.nsmallest(3, ['bb', 'a', 'ccc'], key=len)",
		"heapq.nlargest(0, [1])",
		"heapq.nlargest(-1, [1])",
		"heapq.nsmallest(9, [2, 1])",
		"heapq.nlargest(2, [(1, 'a'), (1, 'b')], key=lambda x: x[0])",
		"list(heapq.merge([1, 4, 7], [2, 5], [3]))",
		"list(heapq.merge([7, 4], [5, 2], reverse=True))",
		"list(heapq.merge(['a', 'ccc'], ['bb'], key=len))",
		"list(heapq.merge())",
		"h = [1, 'a']\nr = heapq.heapify(h)",
		"heapq.heappush((1,), 2)",
		"heapq.heappush([1], 'a')",
		"heapq.heappush(1)",
	}
	g := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		var list string
		for range g.IntN(12) {
			list += fmt.Sprintf("%d, ", g.IntN(9))
		}
		scripts = append(scripts, fmt.Sprintf("h = [%s]\nheapq.heapify(h)\nheapq.heappush(h, %d)\nx = heapq.heappop(h)\nheapq.heappush(h, %d)\nr = (x, h, heapq.nsmallest(3, h))", list, g.IntN(9), g.IntN(9)))
	}
	stdlibtest.Same(t, stdlibtest.Names(heapq.Module()), "import heapq", 0, scripts)
}

func TestHeapqHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(heapq.Module()), []stdlibtest.Case{
		{Script: "list(heapq.merge([1, 'a'], [2]))", Want: "!TypeError"},
	})
}
