package interp

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// sumBuiltin implements sum(iterable, start=0), as in Python since 3.12: integers are
// added exactly, floats with compensation for rounding errors, bools count as 0 and 1,
// and lists are joined if start is a list.
func sumBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var xs starlark.Iterable
	var start starlark.Value = starlark.MakeInt(0)
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "iterable", &xs, "start?", &start); err != nil {
		return nil, err
	}
	if _, ok := start.(starlark.String); ok {
		return nil, fmt.Errorf(`%s: text is joined with "".join(xs)`, b.Name())
	}
	s := newSum(start)
	i := 0
	err := each(xs, func(x starlark.Value) error {
		if err := s.add(x); err != nil {
			return fmt.Errorf("%s: element %d: %w", b.Name(), i, err)
		}
		i++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.total(), nil
}

// sum is a sum so far: exact, or hi+lo once a float was added.
type sum struct {
	exact   starlark.Value
	isFloat bool
	hi, lo  float64
}

func newSum(start starlark.Value) *sum {
	switch start := start.(type) {
	case starlark.Bool:
		return &sum{exact: boolInt(start)}
	case starlark.Float:
		return &sum{isFloat: true, hi: float64(start)}
	}
	return &sum{exact: start}
}

func boolInt(b starlark.Bool) starlark.Int {
	if b {
		return starlark.MakeInt(1)
	}
	return starlark.MakeInt(0)
}

func (s *sum) add(x starlark.Value) error {
	if b, ok := x.(starlark.Bool); ok {
		x = boolInt(b)
	}
	total, isInt := s.exact.(starlark.Int)
	switch x := x.(type) {
	case starlark.Int:
		if s.isFloat {
			return s.addFloat(x.Float())
		}
		if isInt {
			s.exact = total.Add(x)
			return nil
		}
	case starlark.Float:
		if isInt && !s.isFloat {
			s.isFloat = true
			if err := s.addFloat(total.Float()); err != nil {
				return err
			}
		}
		if s.isFloat {
			s.hi, s.lo = compensated(s.hi, s.lo, float64(x))
			return nil
		}
	case *instance, *iterable:
		total, err := starlark.Binary(syntax.PLUS, s.total(), x)
		s.exact, s.isFloat = total, false
		return err
	case starlark.NoneType:
		return errors.New("it is None (leave None out: sum([x for x in xs if x != None]))")
	case starlark.String:
		return errors.New(`it is text (join text with "".join(xs), or convert it with int(x) or float(x))`)
	}
	if isInt || s.isFloat {
		return fmt.Errorf("got %s, want a number%s", x.Type(), sumHint(x))
	}
	joined, err := starlark.Binary(syntax.PLUS, s.exact, x)
	if err != nil {
		return err
	}
	s.exact = joined
	return nil
}

func sumHint(x starlark.Value) string {
	switch x.(type) {
	case Object:
		return " (take it out of each: sum([x.count for x in xs]))"
	case *starlark.List:
		return " (join lists with sum(lists, []))"
	}
	return ""
}

// addFloat adds an integer as a float; too large an integer is an error.
func (s *sum) addFloat(x starlark.Float) error {
	if math.IsInf(float64(x), 0) {
		return errors.New("int too large to convert to float")
	}
	s.hi, s.lo = compensated(s.hi, s.lo, float64(x))
	return nil
}

// compensated returns hi+lo+x, where lo is the rounding error so far (Neumaier).
func compensated(hi, lo, x float64) (float64, float64) {
	t := hi + x
	if math.Abs(hi) >= math.Abs(x) {
		return t, lo + ((hi - t) + x)
	}
	return t, lo + ((x - t) + hi)
}

func (s *sum) total() starlark.Value {
	switch {
	case !s.isFloat:
		return s.exact
	case s.lo != 0 && !math.IsInf(s.lo, 0) && !math.IsNaN(s.lo):
		return starlark.Float(s.hi + s.lo)
	}
	return starlark.Float(s.hi)
}

// roundBuiltin implements round(x, ndigits=None), as in Python: a number exactly in the
// middle is rounded to the even neighbour, and without ndigits the result is an
// int.
func roundBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, ndigits starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "number", &x, "ndigits??", &ndigits); err != nil {
		return nil, err
	}
	if i := instanceOf(x); i != nil {
		fn := i.method("__round__")
		if fn == nil {
			return nil, i.lacks("is no number", "__round__")
		}
		if ndigits == nil {
			return i.call(fn)
		}
		return i.call(fn, ndigits)
	}
	digits := 0
	if ndigits != nil {
		n, ok := ndigits.(starlark.Int)
		if !ok {
			return nil, fmt.Errorf("%s: ndigits: got %s, want int", b.Name(), ndigits.Type())
		}
		digits = clamped(n)
	}
	switch x := x.(type) {
	case starlark.Int:
		return roundInt(x, digits), nil
	case starlark.Float:
		if ndigits != nil {
			rounded := roundFloat(float64(x), digits)
			if math.IsInf(rounded, 0) && !math.IsInf(float64(x), 0) {
				return nil, fmt.Errorf("%s: the result is too large for a float", b.Name())
			}
			return starlark.Float(rounded), nil
		}
		n, err := starlark.NumberToInt(starlark.Float(math.RoundToEven(float64(x))))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name(), err)
		}
		return n, nil
	case starlark.String:
		return nil, fmt.Errorf("%s: got string, want a number (convert it with float(x))", b.Name())
	}
	return nil, fmt.Errorf("%s: got %s, want a number", b.Name(), x.Type())
}

// clamped returns n limited to 32 bits, which an int has everywhere.
func clamped(n starlark.Int) int {
	const most = math.MaxInt32
	if v, ok := n.Int64(); ok && -most <= v && v <= most {
		return int(v)
	}
	return n.Sign() * most
}

// roundInt rounds to a multiple of a power of ten if digits is negative.
func roundInt(x starlark.Int, digits int) starlark.Value {
	if digits >= 0 {
		return x
	}
	n := x.BigInt()
	if -digits > n.BitLen()/3+1 { // less than half of the power
		return starlark.MakeInt(0)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	return starlark.MakeBigInt(nearestMultiple(n.Lsh(n, 1), unit))
}

// roundFloat returns the float nearest to the rounded decimal of x.
func roundFloat(x float64, digits int) float64 {
	const (
		most  = 323  // rounding to more digits changes no float
		least = -308 // rounding to fewer digits makes every float 0
	)
	switch {
	case digits > most || math.IsNaN(x) || math.IsInf(x, 0) || x == 0:
		return x
	case digits < least:
		return math.Copysign(0, x)
	case digits >= 0:
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
		return rounded // a float with digits after the point is far below the largest float
	}
	whole, _ := big.NewFloat(math.Trunc(math.Abs(x))).Int(nil)
	twice := new(big.Int).Lsh(whole, 1)
	if math.Trunc(x) != x {
		twice.SetBit(twice, 0, 1) // digits after the point only break ties
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	rounded, _ := new(big.Float).SetInt(nearestMultiple(twice, unit)).Float64()
	return math.Copysign(rounded, x)
}

// nearestMultiple returns the multiple of unit nearest to twice/2; of two, the even multiple.
func nearestMultiple(twice, unit *big.Int) *big.Int {
	quotient, rest := new(big.Int).DivMod(twice, new(big.Int).Lsh(unit, 1), new(big.Int)) // rest is not negative
	middle := rest.Cmp(unit)
	if middle > 0 || middle == 0 && quotient.Bit(0) == 1 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Mul(quotient, unit)
}
