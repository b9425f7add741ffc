package math

import (
	gomath "math"
	"math/big"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// fsum adds floats without losing anything before the end.
func fsum(c *stdlib.Call) (starlark.Value, error) {
	v, err := oneArg(c)
	if err != nil {
		return nil, err
	}
	var s ExactSum
	err = stdlib.Each(v, func(x starlark.Value) error {
		f, err := stdlib.Float(x)
		s.Add(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.infinities[0] && s.infinities[1] {
		return nil, stdlib.Errorf(stdlib.ValueError, "-inf + inf in fsum")
	}
	total := s.Total()
	if gomath.IsInf(total, 0) && !s.special {
		return nil, stdlib.Errorf(stdlib.OverflowError, "intermediate overflow in fsum")
	}
	return starlark.Float(total), nil
}

// ExactSum adds floats exactly.
type ExactSum struct {
	total      big.Float
	special    bool // an infinity or nan was added
	infinities [2]bool
	rest       float64
}

// exactBits holds any sum of floats: their exponents go from -1074 to 1023, and there
// are fewer than 2**64 of them.
const exactBits = 1074 + 1024 + 64

// Add adds x.
func (s *ExactSum) Add(x float64) {
	if gomath.IsInf(x, 0) || gomath.IsNaN(x) {
		s.special = true
		s.rest += x
		s.infinities[0] = s.infinities[0] || gomath.IsInf(x, 1)
		s.infinities[1] = s.infinities[1] || gomath.IsInf(x, -1)
		return
	}
	if s.total.Prec() == 0 {
		s.total.SetPrec(exactBits)
	}
	s.total.Add(&s.total, new(big.Float).SetFloat64(x))
}

// Total returns the float nearest to the sum.
func (s *ExactSum) Total() float64 {
	if s.special {
		return s.rest
	}
	f, _ := s.total.Float64()
	return f + 0 // no negative zero
}

func prod(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	var total starlark.Value = starlark.MakeInt(1)
	if err := c.Unpack("iterable", &v, "/", nil, "*", nil, "start?", &total); err != nil {
		return nil, err
	}
	err := stdlib.Each(v, func(x starlark.Value) (err error) {
		if n, ok := x.(starlark.Bool); ok {
			x, _ = stdlib.Integer(n)
		}
		total, err = stdlib.Binary(syntax.STAR, total, x)
		return err
	})
	return total, err
}

func floats(c *stdlib.Call, v starlark.Value) ([]float64, error) {
	values, err := c.Elements(v)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(values))
	for i, x := range values {
		if out[i], err = stdlib.Float(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// norm returns the length of a vector without overflow on the way.
func norm(xs []float64) float64 {
	largest, nan := 0.0, false
	for _, x := range xs {
		nan = nan || gomath.IsNaN(x)
		largest = gomath.Max(largest, gomath.Abs(x))
		if gomath.IsInf(x, 0) {
			return gomath.Inf(1)
		}
	}
	switch {
	case nan:
		return gomath.NaN()
	case largest == 0:
		return 0
	}
	var sum big.Float
	sum.SetPrec(200)
	for _, x := range xs {
		f := new(big.Float).SetPrec(200).SetFloat64(x)
		sum.Add(&sum, f.Mul(f, f))
	}
	f, _ := sum.Sqrt(&sum).Float64()
	return f
}

func hypot(c *stdlib.Call) (starlark.Value, error) {
	if len(c.Kwargs) > 0 {
		return nil, c.Errorf(stdlib.TypeError, "takes no keyword arguments")
	}
	xs, err := floats(c, c.Args)
	return starlark.Float(norm(xs)), err
}

func dist(c *stdlib.Call) (starlark.Value, error) {
	var p, q starlark.Value
	if err := c.Unpack("p", &p, "q", &q, "/", nil); err != nil {
		return nil, err
	}
	xs, err := floats(c, p)
	if err != nil {
		return nil, err
	}
	ys, err := floats(c, q)
	if err != nil {
		return nil, err
	}
	if len(xs) != len(ys) {
		return nil, stdlib.Errorf(stdlib.ValueError, "both points must have the same number of dimensions")
	}
	for i := range xs {
		xs[i] -= ys[i]
	}
	return starlark.Float(norm(xs)), nil
}

// sumprod is the sum of the products of two sequences, as in Python 3.12.
func sumprod(c *stdlib.Call) (starlark.Value, error) {
	var p, q starlark.Value
	if err := c.Unpack("p", &p, "q", &q, "/", nil); err != nil {
		return nil, err
	}
	xs, err := c.Elements(p)
	if err != nil {
		return nil, err
	}
	ys, err := c.Elements(q)
	if err != nil {
		return nil, err
	}
	if len(xs) != len(ys) {
		return nil, stdlib.Errorf(stdlib.ValueError, "Inputs are not the same length")
	}
	var total starlark.Value = starlark.MakeInt(0)
	for i := range xs {
		product, err := stdlib.Binary(syntax.STAR, xs[i], ys[i])
		if err != nil {
			return nil, err
		}
		if total, err = stdlib.Binary(syntax.PLUS, total, product); err != nil {
			return nil, err
		}
	}
	return total, nil
}
