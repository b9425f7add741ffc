package datetime

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// delta is a timedelta. Microseconds do not always fit in 64 bits.
type delta struct {
	days    int // -maxDays to maxDays
	seconds int // 0 to 86399
	micros  int // 0 to 999999
}

const (
	maxDays = 999999999
	second  = 1000000
	day     = 86400 * second
)

var (
	_ starlark.HasAttrs   = delta{}
	_ starlark.Comparable = delta{}
	_ starlark.HasBinary  = delta{}
	_ starlark.HasUnary   = delta{}
)

// ofMicros returns a timedelta of microseconds.
func ofMicros(n *big.Int) (delta, error) {
	days, rest := new(big.Int).DivMod(n, big.NewInt(day), new(big.Int))
	if !days.IsInt64() || days.Int64() > maxDays || days.Int64() < -maxDays {
		return delta{}, stdlib.Errorf(stdlib.OverflowError, "days=%s; must have magnitude <= %d", days, maxDays)
	}
	r := rest.Int64()
	return delta{int(days.Int64()), int(r / second), int(r % second)}, nil
}

// ofSmall returns a timedelta of 64-bit microseconds.
func ofSmall(n int64) delta {
	r := floorMod(n, day)
	return delta{int(floorDiv(n, day)), int(r / second), int(r % second)}
}

func (d delta) total() *big.Int {
	n := big.NewInt(int64(d.days))
	n.Mul(n, big.NewInt(day))
	return n.Add(n, big.NewInt(int64(d.seconds)*second+int64(d.micros)))
}

func (d delta) String() string { return d.Repr(nil) }

// Repr is datetime.timedelta(days=1, seconds=2).
func (d delta) Repr(func(starlark.Value) string) string {
	var parts []string
	for _, p := range []struct {
		name string
		n    int
	}{{"days", d.days}, {"seconds", d.seconds}, {"microseconds", d.micros}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", p.name, p.n))
		}
	}
	if len(parts) == 0 {
		return "datetime.timedelta(0)"
	}
	return "datetime.timedelta(" + strings.Join(parts, ", ") + ")"
}

// Str is 1 day, 2:03:04.
func (d delta) Str() string {
	var b strings.Builder
	switch d.days {
	case 0:
	case 1, -1:
		fmt.Fprintf(&b, "%d day, ", d.days)
	default:
		fmt.Fprintf(&b, "%d days, ", d.days)
	}
	fmt.Fprintf(&b, "%d:%02d:%02d", d.seconds/3600, d.seconds/60%60, d.seconds%60)
	if d.micros > 0 {
		fmt.Fprintf(&b, ".%06d", d.micros)
	}
	return b.String()
}

func (delta) Type() string           { return "timedelta" }
func (delta) Freeze()                {}
func (d delta) Truth() starlark.Bool { return d != delta{} }
func (d delta) Hash() (uint32, error) {
	return uint32(d.days*86400+d.seconds)*31 + uint32(d.micros), nil
}
func (delta) AttrNames() []string {
	return []string{"days", "microseconds", "seconds", "total_seconds"}
}
func (d delta) seconds64() float64 { return ratio(d.total(), big.NewInt(second)) }

// ratio returns the float nearest to a/b.
func ratio(a, b *big.Int) float64 {
	f, _ := new(big.Rat).SetFrac(a, b).Float64()
	return f
}

func (d delta) Attr(name string) (starlark.Value, error) {
	switch name {
	case "days":
		return starlark.MakeInt(d.days), nil
	case "seconds":
		return starlark.MakeInt(d.seconds), nil
	case "microseconds":
		return starlark.MakeInt(d.micros), nil
	case "total_seconds":
		return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			return starlark.Float(d.seconds64()), c.Unpack()
		}), nil
	}
	return nil, nil
}

// CompareSameType compares lengths.
func (d delta) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	return holds(op, d.total().Cmp(y.(delta).total())), nil
}

// holds reports whether x op y, where order is the order of x and y.
func holds(op syntax.Token, order int) bool {
	switch op {
	case syntax.EQL:
		return order == 0
	case syntax.NEQ:
		return order != 0
	case syntax.LT:
		return order < 0
	case syntax.LE:
		return order <= 0
	case syntax.GT:
		return order > 0
	}
	return order >= 0
}

// Unary is -d and +d.
func (d delta) Unary(op syntax.Token) (starlark.Value, error) {
	if op == syntax.MINUS {
		return value(ofMicros(new(big.Int).Neg(d.total())))
	}
	if op == syntax.PLUS {
		return d, nil
	}
	return nil, nil
}

func value(d delta, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Binary is arithmetic with timedeltas and numbers.
func (d delta) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if other, ok := y.(delta); ok && side == starlark.Left {
		return d.with(op, other)
	}
	if op == syntax.STAR {
		return d.times(y, false)
	}
	if side != starlark.Left {
		return nil, nil
	}
	switch op {
	case syntax.SLASH:
		return d.times(y, true)
	case syntax.SLASHSLASH:
		n, ok := stdlib.Integer(y)
		if !ok {
			return nil, nil
		}
		if n.Sign() == 0 {
			return nil, stdlib.Errorf(stdlib.ZeroDivisionError, "integer division or modulo by zero")
		}
		return value(ofMicros(floorQuotient(d.total(), n.BigInt())))
	}
	return nil, nil
}

// floorQuotient rounds down.
func floorQuotient(a, b *big.Int) *big.Int {
	q, m := new(big.Int).QuoRem(a, b, new(big.Int))
	if m.Sign() != 0 && (m.Sign() < 0) != (b.Sign() < 0) {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

func (d delta) with(op syntax.Token, y delta) (starlark.Value, error) {
	a, b := d.total(), y.total()
	switch op {
	case syntax.PLUS:
		return value(ofMicros(a.Add(a, b)))
	case syntax.MINUS:
		return value(ofMicros(a.Sub(a, b)))
	case syntax.SLASH, syntax.SLASHSLASH, syntax.PERCENT:
	default:
		return nil, nil
	}
	if b.Sign() == 0 {
		return nil, stdlib.Errorf(stdlib.ZeroDivisionError, "division by zero")
	}
	if op == syntax.SLASH {
		return starlark.Float(ratio(a, b)), nil
	}
	q := floorQuotient(a, b)
	if op == syntax.SLASHSLASH {
		return starlark.MakeBigInt(q), nil
	}
	return value(ofMicros(a.Sub(a, q.Mul(q, b))))
}

// times multiplies or divides by a number, to the nearest microsecond.
func (d delta) times(y starlark.Value, divide bool) (starlark.Value, error) {
	var by *big.Rat
	if n, ok := stdlib.Integer(y); ok {
		by = new(big.Rat).SetInt(n.BigInt())
	} else if f, ok := y.(starlark.Float); ok {
		if math.IsNaN(float64(f)) {
			return nil, stdlib.Errorf(stdlib.ValueError, "cannot convert NaN to integer ratio")
		}
		if by = new(big.Rat).SetFloat64(float64(f)); by == nil {
			return nil, stdlib.Errorf(stdlib.OverflowError, "cannot convert Infinity to integer ratio")
		}
	} else {
		return nil, nil
	}
	if divide {
		if by.Sign() == 0 {
			return nil, stdlib.Errorf(stdlib.ZeroDivisionError, "division by zero")
		}
		by.Inv(by)
	}
	by.Mul(by, new(big.Rat).SetInt(d.total()))
	return value(ofMicros(nearest(by)))
}

// nearest rounds half to even.
func nearest(r *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(r.Num(), 1)
	q := floorQuotient(twice.Add(twice, r.Denom()), new(big.Int).Lsh(r.Denom(), 1))
	// If r is in the middle, q is the upper number.
	middle := new(big.Rat).Sub(new(big.Rat).SetInt(q), r)
	if middle.Cmp(big.NewRat(1, 2)) == 0 && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

func deltaClass() *stdlib.Class {
	c := class("timedelta", newDelta, func(v starlark.Value) bool { _, ok := v.(delta); return ok }, nil)
	c.Attrs = starlark.StringDict{
		"min": delta{-maxDays, 0, 0}, "max": delta{maxDays, 86399, 999999}, "resolution": delta{0, 0, 1},
	}
	return c
}

func newDelta(c *stdlib.Call) (starlark.Value, error) {
	var days, seconds, micros, millis, minutes, hours, weeks starlark.Value
	err := c.Unpack("days?", &days, "seconds?", &seconds, "microseconds?", &micros, "milliseconds?", &millis, "minutes?", &minutes, "hours?", &hours, "weeks?", &weeks)
	if err != nil {
		return nil, err
	}
	total := new(big.Rat)
	for _, part := range []struct {
		v    starlark.Value
		unit int64
	}{{days, day}, {seconds, second}, {micros, 1}, {millis, 1000}, {minutes, 60 * second}, {hours, 3600 * second}, {weeks, 7 * day}} {
		switch v := part.v.(type) {
		case nil:
		case starlark.Float:
			r := new(big.Rat).SetFloat64(float64(v))
			if math.IsNaN(float64(v)) {
				return nil, stdlib.Errorf(stdlib.ValueError, "cannot convert float NaN to integer")
			}
			if r == nil {
				return nil, stdlib.Errorf(stdlib.OverflowError, "cannot convert float infinity to integer")
			}
			total.Add(total, r.Mul(r, new(big.Rat).SetInt64(part.unit)))
		default:
			n, ok := stdlib.Integer(v)
			if !ok {
				return nil, stdlib.Errorf(stdlib.TypeError, "unsupported type for timedelta component: %s", stdlib.TypeName(v))
			}
			r := new(big.Rat).SetInt(n.BigInt())
			total.Add(total, r.Mul(r, new(big.Rat).SetInt64(part.unit)))
		}
	}
	return value(ofMicros(nearest(total)))
}
