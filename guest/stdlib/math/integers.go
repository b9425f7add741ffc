package math

import (
	"math/big"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// maxFactorial keeps factorial, comb and perm from running for very long in one step;
// the result has over a million digits.
const maxFactorial = 200_000

// natural returns an argument that is an integer and not negative.
func natural(c *stdlib.Call, what string, v starlark.Value) (starlark.Int, error) {
	n, ok := stdlib.Integer(v)
	if !ok {
		return n, stdlib.Errorf(stdlib.TypeError, "'%s' object cannot be interpreted as an integer", stdlib.TypeName(v))
	}
	if n.Sign() < 0 {
		return n, c.Errorf(stdlib.ValueError, "not defined for negative values: %s must be a non-negative integer", what)
	}
	return n, nil
}

func factorial(c *stdlib.Call) (starlark.Value, error) {
	v, err := oneArg(c)
	if err != nil {
		return nil, err
	}
	n, err := natural(c, "n", v)
	if err != nil {
		return nil, err
	}
	k, ok := n.Int64()
	if !ok || k > maxFactorial {
		return nil, stdlib.Errorf(stdlib.OverflowError, "factorial() argument should not exceed %d", maxFactorial)
	}
	if k < 2 {
		return starlark.MakeInt(1), nil
	}
	return starlark.MakeBigInt(new(big.Int).MulRange(1, k)), nil
}

// choice returns n and k of comb and perm.
func choice(c *stdlib.Call) (n, k starlark.Int, err error) {
	var x, y starlark.Value
	if err = c.Unpack("n", &x, "k?", &y, "/", nil); err != nil {
		return n, k, err
	}
	if _, ok := stdlib.Integer(y); y != nil && (c.Name == "comb" || y != starlark.None) && !ok {
		return n, k, stdlib.Errorf(stdlib.TypeError, "'%s' object cannot be interpreted as an integer", stdlib.TypeName(y))
	}
	if n, err = natural(c, "n", x); err != nil {
		return n, k, err
	}
	if y == nil || y == starlark.None {
		if c.Name == "comb" {
			return n, k, stdlib.Errorf(stdlib.TypeError, "comb expected 2 arguments, got 1")
		}
		return n, n, nil
	}
	k, err = natural(c, "k", y)
	return n, k, err
}

// falling returns n*(n-1)*...*(n-k+1).
func falling(c *stdlib.Call, n *big.Int, k int64) (*big.Int, error) {
	if k > 64*maxFactorial || int64(n.BitLen())*k > 64*maxFactorial {
		return nil, stdlib.Errorf(stdlib.OverflowError, "%s(): the result is too large", c.Name)
	}
	return fallingRange(n, k), nil
}

// fallingRange multiplies halves of the same size, which is faster than one after
// the other.
func fallingRange(n *big.Int, k int64) *big.Int {
	if k <= 8 {
		out := big.NewInt(1)
		for i := range k {
			out.Mul(out, new(big.Int).Sub(n, big.NewInt(i)))
		}
		return out
	}
	half := k / 2
	low := fallingRange(new(big.Int).Sub(n, big.NewInt(half)), k-half)
	return low.Mul(low, fallingRange(n, half))
}

func perm(c *stdlib.Call) (starlark.Value, error) {
	n, k, err := choice(c)
	if err != nil {
		return nil, err
	}
	if n.BigInt().Cmp(k.BigInt()) < 0 {
		return starlark.MakeInt(0), nil
	}
	count, ok := k.Int64()
	if !ok {
		return nil, stdlib.Errorf(stdlib.OverflowError, "k must not exceed %d", maxFactorial)
	}
	out, err := falling(c, n.BigInt(), count)
	if err != nil {
		return nil, err
	}
	return starlark.MakeBigInt(out), nil
}

func comb(c *stdlib.Call) (starlark.Value, error) {
	n, k, err := choice(c)
	if err != nil {
		return nil, err
	}
	rest := n.Sub(k)
	if rest.Sign() < 0 {
		return starlark.MakeInt(0), nil
	}
	if rest.BigInt().Cmp(k.BigInt()) < 0 {
		k = rest
	}
	count, ok := k.Int64()
	if !ok {
		return nil, stdlib.Errorf(stdlib.OverflowError, "min(n - k, k) must not exceed %d", maxFactorial)
	}
	out, err := falling(c, n.BigInt(), count)
	if err != nil {
		return nil, err
	}
	if count > 1 {
		out.Quo(out, new(big.Int).MulRange(1, count))
	}
	return starlark.MakeBigInt(out), nil
}

// integers returns the arguments, all integers.
func integers(c *stdlib.Call) ([]*big.Int, error) {
	if len(c.Kwargs) > 0 {
		return nil, c.Errorf(stdlib.TypeError, "takes no keyword arguments")
	}
	out := make([]*big.Int, len(c.Args))
	for i, v := range c.Args {
		n, ok := stdlib.Integer(v)
		if !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object cannot be interpreted as an integer", stdlib.TypeName(v))
		}
		out[i] = new(big.Int).Abs(n.BigInt())
	}
	return out, nil
}

func gcd(c *stdlib.Call) (starlark.Value, error) {
	args, err := integers(c)
	if err != nil {
		return nil, err
	}
	out := new(big.Int)
	for _, n := range args {
		out.GCD(nil, nil, out, n)
	}
	return starlark.MakeBigInt(out), nil
}

func lcm(c *stdlib.Call) (starlark.Value, error) {
	args, err := integers(c)
	if err != nil {
		return nil, err
	}
	out := big.NewInt(1)
	for _, n := range args {
		if n.Sign() == 0 {
			return starlark.MakeInt(0), nil
		}
		g := new(big.Int).GCD(nil, nil, out, n)
		out.Mul(out, g.Quo(n, g))
	}
	return starlark.MakeBigInt(out), nil
}

func isqrt(c *stdlib.Call) (starlark.Value, error) {
	v, err := oneArg(c)
	if err != nil {
		return nil, err
	}
	n, err := natural(c, "n", v)
	if err != nil {
		return nil, err
	}
	return starlark.MakeBigInt(new(big.Int).Sqrt(n.BigInt())), nil
}
