// Package statistics is Python's module statistics, for ints and floats.
//
//	statistics.go  the module; means
//	spread.go      medians, modes, variances
//	pairs.go       covariance, correlation, regression
package statistics

import (
	"math"
	"math/big"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
	"go.starlark.net/starlark"
)

// Module returns the module statistics.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"mean": mean, "fmean": fmean, "geometric_mean": geometricMean, "harmonic_mean": harmonicMean,
		"median": median, "median_low": median, "median_high": median, "mode": mode, "multimode": mode, "quantiles": quantiles,
		"variance": variance, "pvariance": variance, "stdev": variance, "pstdev": variance,
		"covariance": covariance, "correlation": correlation, "linear_regression": regression,
	})
	members["StatisticsError"] = stdlib.ErrorClass(errorClass, stdlib.ValueError)
	return &stdlib.Module{Name: "statistics", Members: members}
}

const errorClass = "StatisticsError"

var line = collections.NewTupleType("LinearRegression", []string{"slope", "intercept"})

func fail(format string) error {
	return &stdlib.Error{Class: errorClass, Bases: []string{stdlib.ValueError}, Message: format}
}

// data are numbers, exact as long as none is infinite or not a number.
type data struct {
	exact    []*big.Rat
	integers bool // all are
	special  bool // some are not finite
	rough    float64
}

// numbers returns the only argument's numbers.
func numbers(c *stdlib.Call, v starlark.Value) (*data, error) {
	d := &data{integers: true}
	values, err := c.Elements(v)
	if err != nil {
		return nil, err
	}
	if err := c.Env().Charge(200 * len(values)); err != nil {
		return nil, err
	}
	for _, x := range values {
		if n, ok := stdlib.Integer(x); ok {
			d.exact = append(d.exact, new(big.Rat).SetInt(n.BigInt()))
			continue
		}
		f, ok := x.(starlark.Float)
		if !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "can't convert type '%s' to numerator/denominator", stdlib.TypeName(x))
		}
		d.integers = false
		r := new(big.Rat).SetFloat64(float64(f))
		if r == nil {
			d.special = true
			d.rough += float64(f)
			r = new(big.Rat)
		}
		d.exact = append(d.exact, r)
	}
	return d, nil
}

// sum adds exactly. Denominators are powers of two, so they stay small.
func (d *data) sum() *big.Rat {
	total := new(big.Rat)
	for _, r := range d.exact {
		total.Add(total, r)
	}
	return total
}

// value returns a result as Python does: an int where ints give one, else a float.
func (d *data) value(r *big.Rat) starlark.Value {
	if d.special {
		return starlark.Float(d.rough)
	}
	if d.integers && r.IsInt() {
		return starlark.MakeBigInt(r.Num())
	}
	f, _ := r.Float64()
	return starlark.Float(f)
}

func (d *data) count() *big.Rat { return new(big.Rat).SetInt64(int64(len(d.exact))) }

func mean(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("data", &v); err != nil {
		return nil, err
	}
	d, err := numbers(c, v)
	if err != nil {
		return nil, err
	}
	if len(d.exact) == 0 {
		return nil, fail("mean requires at least one data point")
	}
	return d.value(new(big.Rat).Quo(d.sum(), d.count())), nil
}

// floats returns numbers as floats.
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

// exactSum adds floats exactly.
func exactSum(xs []float64) float64 {
	total, special, rough := new(big.Rat), false, 0.0
	for _, x := range xs {
		r := new(big.Rat).SetFloat64(x)
		if r == nil {
			special = true
			rough += x
			continue
		}
		total.Add(total, r)
	}
	if special {
		return rough
	}
	f, _ := total.Float64()
	return f
}

func fmean(c *stdlib.Call) (starlark.Value, error) {
	var v, weights starlark.Value
	if err := c.Unpack("data", &v, "weights??", &weights); err != nil {
		return nil, err
	}
	xs, err := floats(c, v)
	if err != nil {
		return nil, err
	}
	if weights == nil {
		if len(xs) == 0 {
			return nil, fail("fmean requires at least one data point")
		}
		return starlark.Float(exactSum(xs) / float64(len(xs))), nil
	}
	ws, err := floats(c, weights)
	if err != nil {
		return nil, err
	}
	if len(ws) != len(xs) {
		return nil, fail("data and weights must be the same length")
	}
	for i := range xs {
		xs[i] *= ws[i]
	}
	total := exactSum(ws)
	if total == 0 {
		return nil, fail("sum of weights must be non-zero")
	}
	return starlark.Float(exactSum(xs) / total), nil
}

func geometricMean(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("data", &v); err != nil {
		return nil, err
	}
	xs, err := floats(c, v)
	if err != nil {
		return nil, err
	}
	for i, x := range xs {
		if x <= 0 {
			return nil, fail("geometric mean requires a non-empty dataset containing positive numbers")
		}
		xs[i] = math.Log(x)
	}
	if len(xs) == 0 {
		return nil, fail("geometric mean requires a non-empty dataset containing positive numbers")
	}
	return starlark.Float(math.Exp(exactSum(xs) / float64(len(xs)))), nil
}

func harmonicMean(c *stdlib.Call) (starlark.Value, error) {
	var v, weights starlark.Value
	if err := c.Unpack("data", &v, "weights??", &weights); err != nil {
		return nil, err
	}
	d, err := numbers(c, v)
	if err != nil {
		return nil, err
	}
	if len(d.exact) == 0 {
		return nil, fail("harmonic_mean requires at least one data point")
	}
	ws := &data{integers: true}
	if weights != nil {
		if ws, err = numbers(c, weights); err != nil {
			return nil, err
		}
		if len(ws.exact) != len(d.exact) {
			return nil, fail("Number of weights does not match data size")
		}
	}
	total, count := new(big.Rat), new(big.Rat)
	for i, r := range d.exact {
		w := big.NewRat(1, 1)
		if weights != nil {
			w = ws.exact[i]
		}
		switch r.Sign() {
		case -1:
			return nil, fail("harmonic mean does not support negative values")
		case 0:
			return starlark.MakeInt(0), nil
		}
		count.Add(count, w)
		f, _ := new(big.Rat).Quo(w, r).Float64() // the sum of exact fractions would grow without limit
		if q := new(big.Rat).SetFloat64(f); q != nil {
			total.Add(total, q)
		}
	}
	if total.Sign() <= 0 {
		return nil, fail("Weighted sum must be positive")
	}
	f, _ := count.Quo(count, total).Float64()
	return starlark.Float(f), nil
}
