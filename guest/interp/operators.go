package interp

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// An operand is applied to values with | in trees; package parse describes each operand. Calling a
// built-in function would push a frame.
type operand struct {
	operandOnly
	apply func(y starlark.Value) (starlark.Value, error)
}

func (o operand) Binary(_ syntax.Token, y starlark.Value, _ starlark.Side) (starlark.Value, error) {
	return o.apply(y)
}

// applied has the functions of the operands.
var applied = map[string]func(starlark.Value) (starlark.Value, error){
	parse.Power: func(y starlark.Value) (starlark.Value, error) {
		pair := y.(starlark.Tuple)
		return power(pair[0], pair[1])
	},
	parse.PowerOf: func(y starlark.Value) (starlark.Value, error) { return powerOf{exponent: y}, nil },
	parse.Is: func(y starlark.Value) (starlark.Value, error) {
		pair := y.(starlark.Tuple)
		return starlark.Bool(identical(pair[0], pair[1])), nil
	},
	parse.IsNot: func(y starlark.Value) (starlark.Value, error) {
		pair := y.(starlark.Tuple)
		return starlark.Bool(!identical(pair[0], pair[1])), nil
	},
	parse.Set:         newSetOf,
	parse.Concat:      func(y starlark.Value) (starlark.Value, error) { return concat(y.(starlark.Tuple)) },
	parse.ConcatTuple: concatTuple,
	parse.Merge:       merge,
	parse.SetSlice:    setSlice,
	parse.DelSlice: func(y starlark.Value) (starlark.Value, error) {
		return setSlice(append(starlark.Tuple{nil}, y.(starlark.Tuple)...))
	},
	parse.DelItem: deleteItem,
	parse.DelAttr: deleteAttr,
	parse.Assertion: func(y starlark.Value) (starlark.Value, error) {
		e := &errorValue{kind: abi.ErrRuntime, class: errorClasses["AssertionError"], details: starlark.None}
		if y != starlark.None {
			e.setArgs(starlark.Tuple{y})
		}
		return e, nil
	},
	parse.MatchSequence: matchSequence,
	parse.MatchMapping:  matchMapping,
	parse.MatchClass:    matchClass,
	typeNameName:        func(y starlark.Value) (starlark.Value, error) { return starlark.String(pythonName(y)), nil },
}

// identical is x is y. Equal numbers and equal texts are identical here.
func identical(x, y starlark.Value) bool {
	mustLook(x, y)
	switch x := x.(type) {
	case starlark.Bool, starlark.NoneType:
		return x == y
	case starlark.Int, starlark.Float, starlark.String, starlark.Bytes:
		if x.Type() != y.Type() {
			return false
		}
		same, err := starlark.Equal(x, y)
		return err == nil && same
	case starlark.Tuple:
		t, ok := y.(starlark.Tuple)
		return ok && len(x) == len(t) && (len(x) == 0 || &x[0] == &t[0])
	case Object:
		o, ok := y.(Object)
		return ok && x.Dict == o.Dict
	case *iterable:
		i, ok := y.(*iterable)
		return ok && x == i
	}
	if _, isTuple := y.(starlark.Tuple); isTuple {
		return false
	}
	return x == y
}

// maxPowerBits limits the result of **.
const maxPowerBits = 1 << 22

// power is x ** y.
func power(x, y starlark.Value) (starlark.Value, error) {
	for i, v := range []starlark.Value{x, y} {
		if in := instanceOf(v); in != nil {
			z, err := in.tryMethod([2]string{"__pow__", "__rpow__"}[i], []starlark.Value{y, x}[i])
			if z != nil || err != nil {
				return z, err
			}
		}
	}
	x, y = asNumber(x), asNumber(y)
	a, isInt := x.(starlark.Int)
	b, alsoInt := y.(starlark.Int)
	if isInt && alsoInt && b.Sign() >= 0 {
		return intPower(a, b)
	}
	f, ok := starlark.AsFloat(x)
	g, ok2 := starlark.AsFloat(y)
	if !ok || !ok2 {
		return nil, stdlib.Errorf(stdlib.TypeError, "unknown binary op: %s ** %s", x.Type(), y.Type())
	}
	switch {
	case f == 0 && g < 0:
		return nil, stdlib.Errorf(stdlib.ZeroDivisionError, "0.0 cannot be raised to a negative power")
	case f < 0 && g != math.Trunc(g) && !math.IsInf(g, 0):
		return nil, stdlib.Errorf(stdlib.ValueError, "a negative number cannot be raised to a fractional power: there are no complex numbers")
	}
	z := math.Pow(f, g)
	if math.IsInf(z, 0) && !math.IsInf(f, 0) && !math.IsInf(g, 0) {
		return nil, stdlib.Errorf(stdlib.OverflowError, "the result of ** is too large for a float")
	}
	return starlark.Float(z), nil
}

func intPower(a, b starlark.Int) (starlark.Value, error) {
	x := a.BigInt()
	n, ok := b.Int64()
	if x.CmpAbs(big.NewInt(1)) > 0 && (!ok || n > maxPowerBits || int64(x.BitLen())*n > maxPowerBits) {
		return nil, stdlib.Errorf(stdlib.OverflowError, "the result of ** would have more than %d bits", maxPowerBits)
	}
	if !ok { // of 0, 1 or -1
		n = 2 + int64(b.BigInt().Bit(0))
	}
	return starlark.MakeBigInt(new(big.Int).Exp(x, big.NewInt(n), nil)), nil
}

// asNumber returns 0 or 1 for a bool.
func asNumber(v starlark.Value) starlark.Value {
	if b, ok := v.(starlark.Bool); ok {
		return boolInt(b)
	}
	return v
}

// powerOf makes x *= powerOf the power of x.
type powerOf struct {
	operandOnly
	exponent starlark.Value
}

func (p powerOf) Binary(_ syntax.Token, x starlark.Value, _ starlark.Side) (starlark.Value, error) {
	return power(x, p.exponent)
}

func (p powerOf) apply(x starlark.Value) (starlark.Value, error) { return power(x, p.exponent) }

func newSetOf(xs starlark.Value) (starlark.Value, error) {
	set := starlark.NewSet(0)
	err := each(xs, set.Insert)
	return set, err
}

// concat joins lists, and iterables after a star.
func concat(parts starlark.Tuple) (*starlark.List, error) {
	var all []starlark.Value
	for _, p := range parts {
		if _, ok := p.(starlark.Iterable); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "%s value is not iterable", p.Type())
		}
		err := each(p, func(x starlark.Value) error {
			all = append(all, x)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return starlark.NewList(all), nil
}

func concatTuple(y starlark.Value) (starlark.Value, error) {
	list, err := concat(y.(starlark.Tuple))
	if err != nil {
		return nil, err
	}
	out := make(starlark.Tuple, list.Len())
	for i := range out {
		out[i] = list.Index(i)
	}
	return out, nil
}

// merge is {**a, **b}.
func merge(y starlark.Value) (starlark.Value, error) {
	out := newObject(0)
	for _, part := range y.(starlark.Tuple) {
		m, ok := part.(starlark.IterableMapping)
		if !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object is not a mapping", part.Type())
		}
		for _, item := range m.Items() {
			if err := out.Dict.SetKey(item[0], item[1]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func deleteItem(y starlark.Value) (starlark.Value, error) {
	pair := y.(starlark.Tuple)
	switch x := pair[0].(type) {
	case *starlark.List:
		return callMethod(x, "pop", pair[1])
	case stdlib.DictLike:
		if _, found, err := x.Underlying().Get(pair[1]); err == nil && !found {
			o, _ := x.(Object)
			return nil, &missingKey{o, pair[1], false}
		}
		_, _, err := x.Underlying().Delete(pair[1])
		return starlark.None, err
	case *instance, *iterable:
		i := instanceOf(x)
		fn := i.method("__delitem__")
		if fn == nil {
			return nil, i.lacks("doesn't support item deletion", "__delitem__")
		}
		return i.call(fn, pair[1])
	case interface{ DeleteKey(starlark.Value) error }:
		return starlark.None, x.DeleteKey(pair[1])
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object doesn't support item deletion", pair[0].Type())
}

// callMethod calls a method of the library.
func callMethod(x starlark.HasAttrs, name string, args ...starlark.Value) (starlark.Value, error) {
	m, err := x.Attr(name)
	if err != nil {
		return nil, err
	}
	if _, err := m.(*starlark.Builtin).CallInternal(nil, args, nil); err != nil {
		return nil, err
	}
	return starlark.None, nil
}

func deleteAttr(y starlark.Value) (starlark.Value, error) {
	pair := y.(starlark.Tuple)
	name := string(pair[1].(starlark.String))
	if i := instanceOf(pair[0]); i != nil {
		return starlark.None, i.remove(name)
	}
	if _, ok := pair[0].(Object); ok {
		return deleteItem(y)
	}
	return nil, stdlib.Errorf(stdlib.AttributeError, "%s has no attributes that can be deleted", pair[0].Type())
}

// unpack makes (unpack | xs) the tuple for targets with a star.
type unpack struct {
	operandOnly
	before, after int
	each          bool
}

func newUnpack(numbers string, each bool) *unpack {
	first, second, _ := strings.Cut(numbers, "·")
	u := &unpack{each: each}
	u.before, _ = strconv.Atoi(first) // the parser wrote them
	u.after, _ = strconv.Atoi(second)
	return u
}

func (u *unpack) Binary(_ syntax.Token, y starlark.Value, _ starlark.Side) (starlark.Value, error) {
	if !u.each {
		return u.one(y)
	}
	it, err := stdlib.Iterate(y)
	if err != nil {
		return nil, err
	}
	return stdlib.NewIterator("iterator", func() (starlark.Value, error) {
		var x starlark.Value
		if !it.Next(&x) {
			it.Done()
			return nil, stdlib.ErrOf(it)
		}
		return u.one(x)
	}), nil
}

func (u *unpack) one(y starlark.Value) (starlark.Value, error) {
	if _, ok := y.(starlark.Iterable); !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "got %s in sequence assignment", y.Type())
	}
	xs, err := concat(starlark.Tuple{y})
	if err != nil {
		return nil, err
	}
	n := xs.Len()
	if n < u.before+u.after {
		return nil, stdlib.Errorf(stdlib.ValueError, "too few values to unpack (got %d, want at least %d)", n, u.before+u.after)
	}
	out := make(starlark.Tuple, 0, u.before+u.after+1)
	for i := range u.before {
		out = append(out, xs.Index(i))
	}
	out = append(out, xs.Slice(u.before, n-u.after, 1))
	for i := n - u.after; i < n; i++ {
		out = append(out, xs.Index(i))
	}
	return out, nil
}
