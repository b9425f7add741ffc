package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
	pycopy "github.com/mcp-metatool/mcp-metatool/guest/stdlib/copy"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestCopy(t *testing.T) {
	scripts := []string{
		"x = [1, [2]]\ny = copy.copy(x)\ny.append(3)\ny[1].append(4)\nr = (x, y)",
		"x = [1, [2], dict(a=[3])]\ny = copy.deepcopy(x)\ny[1].append(4)\ny[2]['a'].append(5)\nr = (x, y)",
		"x = []\nx.append(x)\ny = copy.deepcopy(x)\nr = (len(y), len(y[0][0]))",
		"a = [1]\nx = [a, a]\ny = copy.deepcopy(x)\ny[0].append(2)\nr = y",
		"copy.copy({'a': 1})",
		"copy.deepcopy({'a': {'b': 1}})",
		"copy.deepcopy((1, [2]))",
		"copy.deepcopy('abc')",
		"copy.copy(5)",
		"copy.copy()",
		"x = {}\nx['x'] = x\ny = copy.deepcopy(x)\nr = len(y['x']['x'])",
		"d = collections.deque([[1]])\ne = copy.deepcopy(d)\ne[0].append(2)\nr = (d, e)",
		"c = collections.Counter([1, 1])\nd = copy.copy(c)\nd[1] = 5\nr = (c, d)",
		"d = collections.defaultdict(list, {'a': [1]})\ne = copy.deepcopy(d)\ne['a'].append(2)\ne['b'].append(3)\nr = (dict(d), dict(e))",
		"P = collections.namedtuple('P', 'x')\np = P([1])\nq = copy.deepcopy(p)\nq.x.append(2)\nr = (p, q)",
	}
	stdlibtest.Same(t, stdlibtest.Names(pycopy.Module(), collections.Module()), "import copy\nimport collections", 0, scripts)
}

func TestCopyHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(pycopy.Module(), collections.Module()), []stdlibtest.Case{
		{Script: "x = []\nfor i in range(5000):\n    x = [x]\nr = copy.deepcopy(x)", Want: "!RecursionError"},
		{Script: "copy.copy(set([1, 2]))", Want: "{1, 2}"},
		{Script: "copy.deepcopy(set([1, 2]))", Want: "{1, 2}"},
	})
}
