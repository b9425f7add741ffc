package modules_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/math"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
	"go.starlark.net/starlark"
)

func TestMath(t *testing.T) {
	numbers := []string{"0", "1", "-1", "2", "0.0", "-0.0", "0.5", "-0.5", "2.5", "1e308", "-1e308", "5e-324", "math.inf", "-math.inf", "math.nan", "True", "10", "-7", "3.7", "1 << 70", "big", "'x'", "None"}
	var scripts []string
	for name := range math.Module().Members {
		switch name {
		case "round", "mod": // of Starlark
			continue
		case "atan2", "comb", "copysign", "fmod", "isclose", "ldexp", "nextafter", "pow", "prod", "remainder", "sumprod": // of more arguments, or of lists
			continue
		}
		for _, x := range numbers {
			if (name == "factorial" || name == "isqrt") && x == "big" {
				continue
			}
			scripts = append(scripts, fmt.Sprintf("math.%s(%s)", name, x))
		}
	}
	for _, name := range []string{"atan2", "copysign", "remainder", "fmod", "pow", "log", "isclose", "hypot", "gcd", "lcm", "comb", "perm", "dist", "ldexp", "nextafter"} {
		for _, x := range numbers {
			for _, y := range numbers {
				if (name == "comb" || name == "perm") && y == "1 << 70" {
					continue
				}
				scripts = append(scripts, fmt.Sprintf("math.%s(%s, %s)", name, x, y))
			}
		}
	}
	scripts = append(scripts,
		"math.pi", "math.e", "math.tau", "math.inf", "math.nan", "math.factorial(30)", "math.comb(50, 25)", "math.perm(10)", "math.perm(20, 5)", "math.isqrt(10 * 1000000000000000000001)",
		"math.gcd()", "math.lcm()", "math.gcd(12, 18, 24)", "math.lcm(4, 6, 10)", "math.prod([1, 2, 3.5])", "math.prod([])", "math.prod([2, 3], start=10)", "math.prod(['a', 2])", "math.prod([True, 3])",
		"math.fsum([0.1] * 10)", "math.fsum([1e100, 1.0, -1e100])", "math.fsum([math.inf, -math.inf])", "math.fsum([math.inf, 1])", "math.fsum([])",
		"math.dist([1, 2], [4, 6])", "math.dist([1], [1, 2])", "math.hypot(3, 4, 12)", "math.hypot()", "math.hypot(1e200, 1e200)", "math.isclose(1, 1.0000000001)", "math.isclose(0, 1e-12, abs_tol=1e-9)", "math.isclose(1, 2, rel_tol=-1)", "math.isclose(1.0, 1.1, rel_tol=0.2)",
		"math.log(8, 2)", "math.log(100, 10)", "math.log(big)", "math.log2(big)", "math.log10(big)", "math.log(2, 1)", "math.sqrt()", "math.sqrt(1, 2)", "math.sqrt(x=1)", "math.floor('a')", "math.ceil(-0.5)", "math.ldexp(1, -2000)", "math.ldexp(1.5, 10)", "math.comb(5)", "math.comb(5, 7)", "math.perm(5, None)", "math.comb(-1, 2)", "math.perm(3, -1)", "math.floor(1e300)", "math.trunc(-2.7)")
	g := rand.New(rand.NewPCG(3, 4))
	for range rounds(2000) {
		x, y := g.NormFloat64()*10, g.NormFloat64()*10
		name := []string{"sin", "cos", "tan", "exp", "log", "sqrt", "atan", "gamma", "lgamma", "erf", "cbrt", "sinh", "expm1", "log1p"}[g.IntN(14)]
		scripts = append(scripts, fmt.Sprintf("math.%s(%v)", name, x), fmt.Sprintf("math.fsum([%v, %v, %v])", x, y, x*1e17), fmt.Sprintf("math.comb(%d, %d)", g.IntN(200), g.IntN(200)), fmt.Sprintf("math.gcd(%d, %d)", g.Int64(), g.Int64()))
	}
	env := stdlibtest.Names(math.Module())
	env["big"] = starlark.MakeBigInt(new(big.Int).Lsh(big.NewInt(1), 1100))
	stdlibtest.Same(t, env, "import math; big = 1 << 1100", 1e-13, scripts)
}

func TestMathHostile(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(math.Module()), []stdlibtest.Case{
		{Script: "math.factorial(1000000000)", Want: "!OverflowError"},
		{Script: "math.comb(1 << 60, 1 << 59)", Want: "!OverflowError"},
		{Script: "math.perm(1 << 40, 1 << 30)", Want: "!OverflowError"},
		{Script: "math.comb(1 << 70, 1 << 69)", Want: "!OverflowError"},
		{Script: "math.ldexp(1.0, 1 << 80)", Want: "!OverflowError"},
		{Script: "math.sumprod([1, 2], [3, 4])", Want: "11"},
		{Script: "math.sumprod([1], [3, 4])", Want: "!ValueError"},
		{Script: "math.round(2.5)", Want: "3.0"},
		{Script: "math.mod(-7, 3)", Want: "2.0"},
	})
}
