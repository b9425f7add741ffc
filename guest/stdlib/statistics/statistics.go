// Package statistics is Python's module statistics, for ints and floats.
package statistics

import (
	"math"
	"math/big"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
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

// pairs are two samples of the same length, less their means.
type pairs struct {
	x, y         []float64
	meanX, meanY float64
}

func unpackPairs(c *stdlib.Call, more ...any) (*pairs, error) {
	var v, w starlark.Value
	if err := c.Unpack(append([]any{"x", &v, "y", &w, "/", nil}, more...)...); err != nil {
		return nil, err
	}
	x, err := floats(c, v)
	if err != nil {
		return nil, err
	}
	y, err := floats(c, w)
	if err != nil {
		return nil, err
	}
	switch {
	case len(x) != len(y):
		return nil, fail(c.Name + " requires that both inputs have same number of data points")
	case len(x) < 2:
		return nil, fail(c.Name + " requires at least two data points")
	}
	p := &pairs{x: x, y: y, meanX: exactSum(x) / float64(len(x)), meanY: exactSum(y) / float64(len(y))}
	return p, nil
}

// products returns the sum of (a - of a's mean) * (b - of b's mean).
func products(a []float64, meanA float64, b []float64, meanB float64) float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = (a[i] - meanA) * (b[i] - meanB)
	}
	return exactSum(out)
}

func covariance(c *stdlib.Call) (starlark.Value, error) {
	p, err := unpackPairs(c)
	if err != nil {
		return nil, err
	}
	return starlark.Float(products(p.x, p.meanX, p.y, p.meanY) / float64(len(p.x)-1)), nil
}

func correlation(c *stdlib.Call) (starlark.Value, error) {
	p, err := unpackPairs(c)
	if err != nil {
		return nil, err
	}
	xx, yy := products(p.x, p.meanX, p.x, p.meanX), products(p.y, p.meanY, p.y, p.meanY)
	if xx == 0 || yy == 0 {
		return nil, fail("at least one of the inputs is constant")
	}
	return starlark.Float(products(p.x, p.meanX, p.y, p.meanY) / math.Sqrt(xx*yy)), nil
}

func regression(c *stdlib.Call) (starlark.Value, error) {
	proportional := false
	p, err := unpackPairs(c, "*", nil, "proportional?", &proportional)
	if err != nil {
		return nil, err
	}
	if proportional {
		p.meanX, p.meanY = 0, 0
	}
	xx := products(p.x, p.meanX, p.x, p.meanX)
	if xx == 0 {
		return nil, fail("x is constant")
	}
	slope := products(p.x, p.meanX, p.y, p.meanY) / xx
	return line.Make(starlark.Float(slope), starlark.Float(p.meanY-slope*p.meanX)), nil
}

// sorted returns the sorted elements of the argument, at least one.
func sorted(c *stdlib.Call, v starlark.Value) ([]starlark.Value, error) {
	values, err := c.Elements(v)
	if err == nil {
		err = c.Sort(values, nil, false)
	}
	return values, err
}

func median(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("data", &v); err != nil {
		return nil, err
	}
	values, err := sorted(c, v)
	if err != nil {
		return nil, err
	}
	n := len(values)
	switch {
	case n == 0:
		return nil, fail("no median for empty data")
	case n%2 == 1 || c.Name == "median_high":
		return values[n/2], nil
	case c.Name == "median_low":
		return values[n/2-1], nil
	}
	sum, err := stdlib.Binary(syntax.PLUS, values[n/2-1], values[n/2])
	if err != nil {
		return nil, err
	}
	return stdlib.Binary(syntax.SLASH, sum, starlark.MakeInt(2))
}

func mode(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("data", &v); err != nil {
		return nil, err
	}
	counts := new(starlark.Dict)
	most := 0
	err := stdlib.Each(v, func(x starlark.Value) error {
		n := 1
		if old, found, err := counts.Get(x); err != nil {
			return stdlib.Errorf(stdlib.TypeError, "%v", err)
		} else if found {
			before, _ := stdlib.Int(old)
			n += before
		}
		most = max(most, n)
		return counts.SetKey(x, starlark.MakeInt(n))
	})
	if err != nil {
		return nil, err
	}
	var all []starlark.Value
	for x, n := range counts.Entries() {
		if n == starlark.MakeInt(most) {
			all = append(all, x)
		}
	}
	if c.Name == "multimode" {
		return starlark.NewList(all), nil
	}
	if len(all) == 0 {
		return nil, fail("no mode for empty data")
	}
	return all[0], nil
}

// variance is also the square root of it, and that of a whole population.
func variance(c *stdlib.Call) (starlark.Value, error) {
	var v, center starlark.Value
	ofPopulation := strings.HasPrefix(c.Name, "p")
	name := "xbar??"
	if ofPopulation {
		name = "mu??"
	}
	if err := c.Unpack("data", &v, name, &center); err != nil {
		return nil, err
	}
	d, err := numbers(c, v)
	if err != nil {
		return nil, err
	}
	n := int64(len(d.exact))
	less := int64(1)
	if ofPopulation {
		less = 0
	}
	if n <= less {
		return nil, fail(c.Name + " requires at least one more data point")
	}
	if d.special {
		return starlark.Float(math.NaN()), nil
	}
	squares, err := d.squares(c, center)
	if err != nil {
		return nil, err
	}
	result := squares.Quo(squares, big.NewRat(n-less, 1))
	if strings.HasSuffix(c.Name, "stdev") {
		return starlark.Float(root(result)), nil
	}
	return d.value(result), nil
}

// squares returns the sum of the squares of the distances from the mean, or from
// another number.
func (d *data) squares(c *stdlib.Call, center starlark.Value) (*big.Rat, error) {
	middle := new(big.Rat).Quo(d.sum(), d.count())
	if center != nil {
		given, err := numbers(c, starlark.Tuple{center})
		if err != nil {
			return nil, err
		}
		middle = given.exact[0]
		d.integers = d.integers && given.integers
	}
	// The sum of (x-m)^2 is that of x^2, less 2m times that of x, plus n*m^2.
	squares := new(big.Rat)
	for _, x := range d.exact {
		squares.Add(squares, new(big.Rat).Mul(x, x))
	}
	twice := new(big.Rat).Mul(middle, big.NewRat(2, 1))
	squares.Sub(squares, twice.Mul(twice, d.sum()))
	return squares.Add(squares, middle.Mul(middle, new(big.Rat).Mul(middle, d.count()))), nil
}

// root returns the float nearest to a square root.
func root(r *big.Rat) float64 {
	f := new(big.Float).SetPrec(200).SetRat(r)
	if f.Sign() <= 0 {
		return 0
	}
	out, _ := f.Sqrt(f).Float64()
	return out
}

func quantiles(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	n, method := 4, "exclusive"
	if err := c.Unpack("data", &v, "*", nil, "n?", &n, "method?", &method); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fail("n must be at least 1")
	}
	values, err := sorted(c, v)
	if err != nil {
		return nil, err
	}
	size := len(values)
	if size < 2 {
		return nil, fail("must have at least two data points")
	}
	m := size - 1
	if method == "exclusive" {
		m = size + 1
	} else if method != "inclusive" {
		return nil, stdlib.Errorf(stdlib.ValueError, "Unknown method: %s", c.Env().Repr(starlark.String(method)))
	}
	out := c.Env().NewValues()
	for i := 1; i < n; i++ {
		j, delta := i*m/n, i*m%n
		if method == "exclusive" {
			j = min(max(j, 1), size-1)
			delta = i*m - j*n
			j--
		}
		cut, err := between(values[j], values[j+1], delta, n)
		if err != nil {
			return nil, err
		}
		if err := out.Add(cut); err != nil {
			return nil, err
		}
	}
	return out.Value(), nil
}

// between returns (x*(n-delta) + y*delta) / n.
func between(x, y starlark.Value, delta, n int) (starlark.Value, error) {
	a, err := stdlib.Binary(syntax.STAR, x, starlark.MakeInt(n-delta))
	if err != nil {
		return nil, err
	}
	b, err := stdlib.Binary(syntax.STAR, y, starlark.MakeInt(delta))
	if err != nil {
		return nil, err
	}
	sum, err := stdlib.Binary(syntax.PLUS, a, b)
	if err != nil {
		return nil, err
	}
	return stdlib.Binary(syntax.SLASH, sum, starlark.MakeInt(n))
}
