package statistics

import (
	"math"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
