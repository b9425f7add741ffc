package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/random"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestRandom(t *testing.T) {
	scripts := []string{
		"random.choice([])",
		"random.randint(2, 1)",
		"random.randrange(0)",
		"random.randrange(1, 5, 0)",
		"random.sample([1, 2], 3)",
		"random.sample([1], -1)",
		"random.choices([], k=1)",
		"random.choices([1], weights=[0])",
		"random.choices([1], weights=[1, 2])",
		"random.choices([1], [1], cum_weights=[1])",
		"random.getrandbits(-1)",
		"random.shuffle((1, 2))",
		"random.choice(5)",
		"random.randrange(5, 6)",
		"random.randint(3, 3)",
		"sorted(random.sample([3, 1, 2], 3))",
		"len(random.choices([1, 2], k=5))",
		"random.choices([1, 2], weights=[0, 1], k=3)",
		"x = [3, 1, 2]\nrandom.shuffle(x)\nr = sorted(x)",
		"random.random() < 1",
		"random.randrange(10, 0, -3) in [10, 7, 4, 1]",
		"random.uniform(1, 1)",
		"random.sample([1, 2], 2, counts=[0, 2])",
		"random.sample([1], 1, counts=[1, 2])",
		"random.expovariate(0)",
		"len(random.randbytes(5))",
		"random.getrandbits(0)",
		"random.seed([1])",
		"random.randint(1)",
		"random.randrange(1 << 100, (1 << 100) + 1) == 1 << 100",
	}
	stdlibtest.Same(t, stdlibtest.Names(random.Module()), "import random", 0, scripts)
}

func TestRandomHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(random.Module()), []stdlibtest.Case{
		{Script: "[random.randint(1, 6) for i in range(5)] == [random.randint(1, 6) for i in range(5)]", Want: "False"},
		{Script: "random.seed(1)\na = [random.random() for i in range(3)]\nrandom.seed(1)\nr = a == [random.random() for i in range(3)]", Want: "True"},
		{Script: "g = random.Random(5)\nh = random.Random(5)\nr = [g.randint(0, 99) for i in range(5)] == [h.randint(0, 99) for i in range(5)]", Want: "True"},
		{Script: "random.getrandbits(1 << 40)", Want: "!memory"},
		{Script: "random.randbytes(1 << 40)", Want: "!memory"},
		{Script: "random.choices([1], k=1 << 50)", Want: "!memory"},
		{Script: "random.sample([1], 1, counts=[1 << 50])", Want: "!memory"},
	})
}

// TestDistribution: the numbers of a run are the same each time, and spread out.
func TestRandomDistribution(t *testing.T) {
	env := stdlibtest.Names(random.Module())
	const script = "[random.randrange(10) for i in range(2000)] + [int(random.gauss(0, 1)) for i in range(5)]"
	first := stdlibtest.Outcome(env, script)
	if again := stdlibtest.Outcome(env, script); again != first {
		t.Error("two runs with the same seed differ")
	}
	stdlibtest.Check(t, env, []stdlibtest.Case{
		{Script: "n = [0] * 10\nfor i in range(20000):\n    n[random.randrange(10)] += 1\nr = min(n) > 1700 and max(n) < 2300", Want: "True"},
		{Script: "x = [random.triangular(0, 1, 0.2) for i in range(5000)]\nr = min(x) >= 0 and max(x) <= 1", Want: "True"},
	})
}
