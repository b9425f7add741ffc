package interp

import (
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/extend"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// methods are methods missing from the library or different from the library's, by the names of
// their types.
var methods = map[string]map[string]builtinFunc{
	"list": {
		"copy": listCopy, "count": sequenceCount, "extend": listExtend, "index": sequenceIndex, "reverse": listReverse, "sort": listSort,
	},
	"tuple": {"count": sequenceCount, "index": sequenceIndex},
	"int": {
		"as_integer_ratio": intRatio, "bit_count": intBits, "bit_length": intBits, "conjugate": same, "is_integer": isInteger, "to_bytes": intToBytes,
	},
	"float": {"as_integer_ratio": floatRatio, "conjugate": same, "is_integer": isInteger},
	"bool":  {"bit_length": intBits},
	"set": {
		"copy": setCopy, "difference_update": setUpdate, "intersection_update": setUpdate, "isdisjoint": setIsDisjoint,
		"symmetric_difference": setSymmetric, "symmetric_difference_update": setUpdate, "update": setUpdate,
	},
	"bytes":  bytesMethods,
	"string": stringMethods,
}

func init() {
	extend.Binary = func(op int, x, y any) (any, error) {
		z, err := binary(syntax.Token(op), x.(starlark.Value), y.(starlark.Value))
		if z == nil {
			return nil, err
		}
		return z, err
	}
	extend.Compare = func(op int, x, y any, depth int) (bool, bool, error) {
		return compareTypes(syntax.Token(op), x.(starlark.Value), y.(starlark.Value), depth)
	}
	if extend.AddMethod == nil {
		return // the library of go.mod
	}
	for kind, of := range methods {
		for name, fn := range of {
			extend.AddMethod(kind, name, starlark.NewBuiltin(name, fn))
		}
	}
}

// binary is x op y for pairs of operands not accepted by the library.
func binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	_, xBool := x.(starlark.Bool)
	_, yBool := y.(starlark.Bool)
	if xBool || yBool {
		if xBool && yBool && (op == syntax.AMP || op == syntax.PIPE || op == syntax.CIRCUMFLEX) {
			return logical(op, x.Truth(), y.Truth()), nil
		}
		a, b := asNumber(x), asNumber(y)
		if !isNumber(a) && !isNumber(b) || op != syntax.STAR && (!isNumber(a) || !isNumber(b)) {
			return nil, nil
		}
		return starlark.Binary(op, a, b)
	}
	_, xFrozen := x.(frozenSet)
	_, yFrozen := y.(frozenSet)
	if xFrozen || yFrozen {
		return frozenBinary(op, x, y)
	}
	return keysBinary(op, x, y)
}

// keysBinary is x & y, x | y, x - y or x ^ y of a list with a list or set: d.keys() and d.items()
// are lists here.
func keysBinary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	switch op {
	case syntax.AMP, syntax.PIPE, syntax.MINUS, syntax.CIRCUMFLEX:
	default:
		return nil, nil
	}
	a, err := setOfKeys(x)
	if a == nil || err != nil {
		return nil, err
	}
	b, err := setOfKeys(y)
	if b == nil || err != nil {
		return nil, err
	}
	return starlark.Binary(op, a, b)
}

// setOfKeys returns a set or list as a set, nil for other values.
func setOfKeys(x starlark.Value) (*starlark.Set, error) {
	switch x := x.(type) {
	case *starlark.Set:
		return x, nil
	case *starlark.List:
		set := starlark.NewSet(x.Len())
		for _, e := range listElems(x) {
			if err := set.Insert(e); err != nil {
				return nil, err
			}
		}
		return set, nil
	}
	return nil, nil
}

func logical(op syntax.Token, x, y starlark.Bool) starlark.Value {
	switch op {
	case syntax.AMP:
		return x && y
	case syntax.PIPE:
		return x || y
	}
	return starlark.Bool(x != y)
}

// compareTypes compares values of different types.
func compareTypes(op syntax.Token, x, y starlark.Value, depth int) (result, ok bool, err error) {
	if i := instanceOf(x); i != nil {
		return i.compareOther(op, y)
	}
	if i := instanceOf(y); i != nil {
		return i.compareOther(mirrored[op], x)
	}
	if a, b := asNumber(x), asNumber(y); isNumber(a) && isNumber(b) {
		result, err = starlark.CompareDepth(op, a, b, depth)
		return result, true, err
	}
	if f, isFrozen := x.(frozenSet); isFrozen {
		x = f.Set
	}
	if f, isFrozen := y.(frozenSet); isFrozen {
		y = f.Set
	}
	if p, ok := x.(*starlark.Set); ok {
		if q, ok := y.(*starlark.Set); ok {
			result, err = p.CompareSameType(op, q, depth)
			return result, true, err
		}
	}
	if a, b := plainTuple(x), plainTuple(y); a != nil && b != nil {
		result, err = starlark.CompareDepth(op, a, b, depth)
		return result, true, err
	}
	return false, false, nil
}

// plainTuple returns a tuple without the names of fields, nil for other values.
func plainTuple(x starlark.Value) starlark.Value {
	switch x := x.(type) {
	case starlark.Tuple:
		return x
	case stdlib.TupleLike:
		return x.AsTuple()
	}
	return nil
}

var mirrored = map[syntax.Token]syntax.Token{
	syntax.EQL: syntax.EQL, syntax.NEQ: syntax.NEQ, syntax.LT: syntax.GT, syntax.GT: syntax.LT, syntax.LE: syntax.GE, syntax.GE: syntax.LE,
}

func (i *instance) compareOther(op syntax.Token, y starlark.Value) (result, ok bool, err error) {
	v, err := i.compare(op, y)
	if v == nil || err != nil {
		return false, false, err
	}
	return bool(v.Truth()), true, nil
}

func isNumber(v starlark.Value) bool {
	switch v.(type) {
	case starlark.Int, starlark.Float:
		return true
	}
	return false
}

func same(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return b.Receiver(), nil
}

// listSort is xs.sort(key=None, reverse=False).
func listSort(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) > 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "sort() takes no positional arguments: write key=...")
	}
	xs := b.Receiver().(*starlark.List)
	sorted, err := sortedBuiltin(thread, b, starlark.Tuple{xs}, kwargs)
	if err != nil {
		return nil, err
	}
	return starlark.None, replaceElems(xs, listElems(sorted.(*starlark.List)))
}

func listReverse(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	xs := b.Receiver().(*starlark.List)
	elems := listElems(xs)
	slices.Reverse(elems)
	return starlark.None, replaceElems(xs, elems)
}

func listCopy(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return starlark.NewList(listElems(b.Receiver().(*starlark.List))), nil
}

// listExtend is xs.extend(ys).
func listExtend(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var ys starlark.Iterable
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &ys); err != nil {
		return nil, err
	}
	xs := b.Receiver().(*starlark.List)
	if starlark.Value(ys) == xs {
		ys = starlark.NewList(listElems(xs))
	}
	if err := xs.Append(starlark.None); err != nil { // the list can be changed
		return nil, err
	}
	if _, err := callMethod(xs, "pop"); err != nil {
		return nil, err
	}
	return starlark.None, each(ys, xs.Append)
}

func sequenceCount(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	x, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	n := 0
	for y := range starlark.Elements(b.Receiver().(starlark.Iterable)) {
		equal, err := starlark.Equal(x, y)
		if err != nil {
			return nil, err
		}
		if equal {
			n++
		}
	}
	return starlark.MakeInt(n), nil
}

// sequenceIndex is xs.index(x, start=0, end=len(xs)).
func sequenceIndex(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, lo, hi starlark.Value = nil, starlark.None, starlark.None
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &x, &lo, &hi); err != nil {
		return nil, err
	}
	xs := b.Receiver().(starlark.Indexable)
	start, end, _, err := sliceBounds(xs.Len(), lo, hi, starlark.None)
	if err != nil {
		return nil, err
	}
	for i := start; i < end && i < xs.Len(); i++ {
		equal, err := starlark.Equal(x, xs.Index(i))
		if err != nil {
			return nil, err
		}
		if equal {
			return starlark.MakeInt(i), nil
		}
	}
	return nil, stdlib.Errorf(stdlib.ValueError, "index: value not in %s", b.Receiver().Type())
}

func receiverInt(b *starlark.Builtin) *big.Int {
	n, _ := asNumber(b.Receiver()).(starlark.Int)
	return n.BigInt()
}

// intBits is n.bit_length() and n.bit_count().
func intBits(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	n := receiverInt(b)
	if b.Name() == "bit_length" {
		return starlark.MakeInt(n.BitLen()), nil
	}
	return starlark.MakeInt(strings.Count(new(big.Int).Abs(n).Text(2), "1")), nil
}

func isInteger(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	f, isFloat := b.Receiver().(starlark.Float)
	return starlark.Bool(!isFloat || math.Trunc(float64(f)) == float64(f) && !math.IsInf(float64(f), 0)), nil
}

func intRatio(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return starlark.Tuple{b.Receiver(), starlark.MakeInt(1)}, nil
}

func floatRatio(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	r := new(big.Rat).SetFloat64(float64(b.Receiver().(starlark.Float)))
	if r == nil {
		return nil, stdlib.Errorf(stdlib.ValueError, "cannot convert %s to an integer ratio", repr(b.Receiver()))
	}
	return starlark.Tuple{starlark.MakeBigInt(r.Num()), starlark.MakeBigInt(r.Denom())}, nil
}

// intToBytes is n.to_bytes(length=1, byteorder="big").
func intToBytes(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	length, order := 1, "big"
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "length?", &length, "byteorder?", &order); err != nil {
		return nil, err
	}
	n := receiverInt(b)
	switch {
	case n.Sign() < 0:
		return nil, stdlib.Errorf(stdlib.OverflowError, "can't convert negative int to unsigned")
	case length < 0 || (n.BitLen()+7)/8 > length:
		return nil, stdlib.Errorf(stdlib.OverflowError, "int too big to convert")
	case length > 1<<20:
		return nil, stdlib.Errorf(stdlib.OverflowError, "to_bytes: more than %d bytes", 1<<20)
	}
	out := n.FillBytes(make([]byte, length))
	if order == "little" {
		slices.Reverse(out)
	}
	return starlark.Bytes(out), nil
}

func setCopy(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return newSetOf(b.Receiver())
}

// setSymmetric is s.symmetric_difference(xs). The library counts an element twice if xs has it
// twice.
func setSymmetric(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	xs, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	other, err := newSetOf(xs)
	if err != nil {
		return nil, err
	}
	return starlark.Binary(syntax.CIRCUMFLEX, b.Receiver(), other)
}

func setIsDisjoint(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	xs, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	set, disjoint := b.Receiver().(*starlark.Set), true
	err = each(xs, func(x starlark.Value) error {
		if has, err := set.Has(x); has && err == nil {
			disjoint = false
			return errStop
		}
		return nil
	})
	return starlark.Bool(disjoint), err
}

// setUpdate is s.update(xs, ...) and the other methods that change a set by another set.
func setUpdate(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(kwargs) > 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "%s takes no keyword arguments", b.Name())
	}
	set := b.Receiver().(*starlark.Set)
	for _, arg := range args {
		other, err := newSetOf(arg)
		if err != nil {
			return nil, err
		}
		if err := changeSet(set, b.Name(), other.(*starlark.Set)); err != nil {
			return nil, err
		}
	}
	return starlark.None, nil
}

func changeSet(set *starlark.Set, name string, other *starlark.Set) error {
	if name == "update" {
		return each(other, set.Insert)
	}
	for _, x := range setElems(set) {
		if has, _ := other.Has(x); has == (name != "intersection_update") {
			if _, err := set.Delete(x); err != nil {
				return err
			}
			if name == "symmetric_difference_update" {
				_, _ = other.Delete(x)
			}
		}
	}
	if name == "symmetric_difference_update" {
		return each(other, set.Insert)
	}
	return nil
}

func setElems(s *starlark.Set) (out []starlark.Value) {
	for x := range s.Elements() {
		out = append(out, x)
	}
	return out
}
