package statistics

import (
	"math"
	"math/big"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

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
