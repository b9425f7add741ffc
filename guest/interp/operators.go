package interp

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
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

// Match statements. The operators take a value apart: they return False, or a tuple of
// True and the parts.

func matched(parts ...starlark.Value) starlark.Value {
	return append(starlark.Tuple{starlark.True}, parts...)
}

// matchSequence takes the elements of a sequence: n elements, or with a star, at least n-1. The
// star takes a list.
func matchSequence(y starlark.Value) (starlark.Value, error) {
	args := y.(starlark.Tuple)
	mustLook(args[0])
	n, star := int(args[1].(starlark.Int).BigInt().Int64()), int(args[2].(starlark.Int).BigInt().Int64())
	switch args[0].(type) {
	case starlark.String, starlark.Bytes, stdlib.DictLike:
		return starlark.False, nil
	}
	x, ok := args[0].(starlark.Indexable)
	if !ok {
		return starlark.False, nil
	}
	length := x.Len()
	if star < 0 && length != n || length < n-1 {
		return starlark.False, nil
	}
	elements := make([]starlark.Value, length)
	for i := range elements {
		elements[i] = x.Index(i)
	}
	if star < 0 {
		return matched(elements...), nil
	}
	after := length - (n - 1 - star)
	rest := starlark.NewList(slices.Clone(elements[star:after]))
	return matched(slices.Replace(elements, star, after, starlark.Value(rest))...), nil
}

// matchMapping takes the values of the keys of a dict, and a dict of the other items if named in
// the pattern.
func matchMapping(y starlark.Value) (starlark.Value, error) {
	args := y.(starlark.Tuple)
	mustLook(args[0])
	x, ok := args[0].(stdlib.DictLike)
	if !ok {
		return starlark.False, nil
	}
	keys := args[1].(starlark.Tuple)
	parts := make([]starlark.Value, 0, len(keys)+1)
	for _, k := range keys {
		v, found, err := x.Underlying().Get(k)
		if err != nil || !found {
			return starlark.False, err
		}
		parts = append(parts, v)
	}
	if args[2] == starlark.True {
		rest := newObject(x.Underlying().Len())
		for _, item := range x.Underlying().Items() {
			if err := rest.SetKey(item[0], item[1]); err != nil {
				return nil, err
			}
		}
		for _, k := range keys {
			if _, _, err := rest.Delete(k); err != nil {
				return nil, err
			}
		}
		parts = append(parts, rest)
	}
	return matched(parts...), nil
}

// selfMatching are the types with the value itself as the only positional part.
var selfMatching = map[string]bool{"bool": true, "bytes": true, "dict": true, "float": true, "frozenset": true, "int": true, "list": true, "set": true, "string": true, "tuple": true}

// matchClass takes attributes of a value of a class: the attributes in __match_args__ by position,
// then other attributes by name.
func matchClass(y starlark.Value) (starlark.Value, error) {
	args := y.(starlark.Tuple)
	mustLook(args[0])
	x, positional := args[0], int(args[2].(starlark.Int).BigInt().Int64())
	is, known := isInstance(x, args[1])
	if !known {
		return nil, stdlib.Errorf(stdlib.TypeError, "case: %s is not a class", repr(args[1]))
	}
	if !is {
		return starlark.False, nil
	}
	var parts []starlark.Value
	if positional == 1 && selfMatching[kindOf(args[1])] {
		parts = append(parts, x)
		positional = 0
	}
	names, err := matchNames(args[1], positional)
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, args[3].(starlark.Tuple)...) {
		v, err := attrOrNil(x, string(name.(starlark.String)))
		if v == nil || err != nil {
			return starlark.False, err
		}
		parts = append(parts, v)
	}
	return matched(parts...), nil
}

// matchNames returns the attributes for the first positional parts of a pattern.
func matchNames(of starlark.Value, n int) (names []starlark.Value, err error) {
	if n == 0 {
		return nil, nil
	}
	if c, ok := of.(*class); ok && c.data != nil && c.find("__match_args__") == nil {
		for _, f := range c.data.fields {
			if !f.hidden && !f.kwOnly {
				names = append(names, starlark.String(f.name))
			}
		}
	} else {
		v, err := attrOrNil(of, "__match_args__")
		if v == nil && err == nil {
			v, err = attrOrNil(of, "_fields") // of namedtuple
		}
		if err != nil {
			return nil, err
		}
		names, _ = v.(starlark.Tuple)
	}
	if len(names) < n {
		return nil, stdlib.Errorf(stdlib.TypeError, "case: %s takes %d positional patterns, got %d: write name=pattern", text(of), len(names), n)
	}
	for _, name := range names[:n] {
		if _, ok := name.(starlark.String); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "case: __match_args__ of %s has %s in it, want text", text(of), repr(name))
		}
	}
	return names[:n:n], nil
}

// attrOrNil returns an attribute of a value, nil for an unknown name.
func attrOrNil(x starlark.Value, name string) (starlark.Value, error) {
	has, ok := x.(starlark.HasAttrs)
	if !ok {
		return nil, nil
	}
	v, err := has.Attr(name)
	if err != nil {
		if _, missing := err.(starlark.NoSuchAttrError); missing || errorClassOf(err).derives(errorClasses[stdlib.AttributeError]) {
			return nil, nil
		}
		return nil, err
	}
	return v, nil
}

// setSlice is xs[lo:hi:step] = value; a value of nil deletes the elements.
func setSlice(y starlark.Value) (starlark.Value, error) {
	t := y.(starlark.Tuple)
	xs, ok := t[1].(*starlark.List)
	if !ok {
		if i := instanceOf(t[1]); i != nil {
			return nil, i.lacks("does not support slices", "slice support")
		}
		return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object does not support slice assignment", t[1].Type())
	}
	start, end, step, err := sliceBounds(xs.Len(), t[2], t[3], t[4])
	if err != nil {
		return nil, err
	}
	var values []starlark.Value
	if t[0] != nil {
		if _, ok := t[0].(starlark.Iterable); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "can only assign an iterable to a slice, got %s", t[0].Type())
		}
		list, err := concat(starlark.Tuple{t[0]})
		if err != nil {
			return nil, err
		}
		values = listElems(list)
	}
	if step != 1 {
		return starlark.None, setExtended(xs, start, end, step, values, t[0] == nil)
	}
	end = max(start, end)
	out := make([]starlark.Value, 0, xs.Len()-(end-start)+len(values))
	old := listElems(xs)
	out = append(append(append(out, old[:start]...), values...), old[end:]...)
	return starlark.None, replaceElems(xs, out)
}

// setExtended assigns to, or deletes, elements with a step between them.
func setExtended(xs *starlark.List, start, end, step int, values []starlark.Value, del bool) error {
	chosen := make(map[int]int)
	n := 0
	for i := start; step > 0 && i < end || step < 0 && i > end; i += step {
		chosen[i] = n
		n++
	}
	if !del && n != len(values) {
		return stdlib.Errorf(stdlib.ValueError, "attempt to assign sequence of size %d to extended slice of size %d", len(values), n)
	}
	var out []starlark.Value
	for i, x := range listElems(xs) {
		at, is := chosen[i]
		switch {
		case !is:
			out = append(out, x)
		case !del:
			out = append(out, values[at])
		}
	}
	return replaceElems(xs, out)
}

func listElems(xs *starlark.List) []starlark.Value {
	out := make([]starlark.Value, xs.Len())
	for i := range out {
		out[i] = xs.Index(i)
	}
	return out
}

// replaceElems gives a list other elements.
func replaceElems(xs *starlark.List, elems []starlark.Value) error {
	n := min(len(elems), xs.Len())
	if len(elems) < xs.Len() || len(elems) == 0 {
		if err := xs.Clear(); err != nil {
			return err
		}
		n = 0
	}
	for i, x := range elems {
		var err error
		if i < n {
			err = xs.SetIndex(i, x)
		} else {
			err = xs.Append(x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sliceBounds returns the indexes of a slice of something of length n, as Python
// does.
func sliceBounds(n int, lo, hi, stride starlark.Value) (start, end, step int, err error) {
	step = 1
	if stride != starlark.None {
		if step, err = sliceIndex(stride); err != nil {
			return 0, 0, 0, err
		}
		if step == 0 {
			return 0, 0, 0, stdlib.Errorf(stdlib.ValueError, "slice step cannot be zero")
		}
	}
	low, high := 0, n
	start, end = 0, n
	if step < 0 {
		low, high = -1, n-1
		start, end = n-1, -1
	}
	for _, b := range []struct {
		v  starlark.Value
		to *int
	}{{lo, &start}, {hi, &end}} {
		if b.v == starlark.None {
			continue
		}
		i, err := sliceIndex(b.v)
		if err != nil {
			return 0, 0, 0, err
		}
		if i < 0 {
			i += n
		}
		*b.to = min(max(i, low), high)
	}
	return start, end, step, nil
}

func sliceIndex(v starlark.Value) (int, error) {
	i, ok := asNumber(v).(starlark.Int)
	if !ok {
		return 0, stdlib.Errorf(stdlib.TypeError, "slice indices must be integers or None, got %s", v.Type())
	}
	return clamped(i), nil
}

// sliceValue is slice(start, stop, step). The changed library takes it as an index, and classes of
// the script get a sliceValue for x[a:b].
type sliceValue struct{ start, stop, step starlark.Value }

var (
	_ starlark.HasAttrs   = (*sliceValue)(nil)
	_ starlark.Comparable = (*sliceValue)(nil)
	_ stdlib.Representer  = (*sliceValue)(nil)
)

func (s *sliceValue) String() string     { return repr(s) }
func (*sliceValue) Type() string         { return "slice" }
func (*sliceValue) Freeze()              {}
func (*sliceValue) Truth() starlark.Bool { return true }
func (*sliceValue) Hash() (uint32, error) {
	return 0, stdlib.Errorf(stdlib.TypeError, "unhashable type: slice")
}
func (*sliceValue) AttrNames() []string { return []string{"indices", "start", "step", "stop"} }

// Repr is the call for the slice.
func (s *sliceValue) Repr(repr func(starlark.Value) string) string {
	return "slice(" + stdlib.JoinRepr([]starlark.Value{s.start, s.stop, s.step}, repr) + ")"
}

// Bounds returns the bounds for the changed library.
func (s *sliceValue) Bounds() (lo, hi, step starlark.Value) { return s.start, s.stop, s.step }

// CompareSameType compares the three parts.
func (s *sliceValue) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	t := y.(*sliceValue)
	return starlark.CompareDepth(op, starlark.Tuple{s.start, s.stop, s.step}, starlark.Tuple{t.start, t.stop, t.step}, depth)
}

func (s *sliceValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "start":
		return s.start, nil
	case "stop":
		return s.stop, nil
	case "step":
		return s.step, nil
	case "indices":
		return starlark.NewBuiltin(name, s.indices), nil
	}
	return nil, nil
}

// indices returns the three arguments of range for a sequence of a length.
func (s *sliceValue) indices(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var n int
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &n); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "length should not be negative")
	}
	start, stop, step, err := sliceBounds(n, s.start, s.stop, s.step)
	if err != nil {
		return nil, err
	}
	return starlark.Tuple{starlark.MakeInt(start), starlark.MakeInt(stop), starlark.MakeInt(step)}, nil
}

// sliceBuiltin implements slice(stop) and slice(start, stop, step=None).
func sliceBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var start, stop, step starlark.Value = starlark.None, starlark.None, starlark.None
	if len(args) == 1 && len(kwargs) == 0 {
		return &sliceValue{start, args[0], step}, nil
	}
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &start, &stop, &step); err != nil {
		return nil, err
	}
	return &sliceValue{start, stop, step}, nil
}

// GetSlice is i[lo:hi:step].
func (i *instance) GetSlice(lo, hi, step starlark.Value) (starlark.Value, error) {
	v, _, err := i.Get(&sliceValue{lo, hi, step})
	return v, err
}

// idBuiltin implements id(x): a number, the same for the same object. Numbers are given in the
// order of a script's calls, and do not depend on addresses.
func idBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	mustLook(v)
	r := runOf(thread)
	key := identityOf(v)
	n, ok := r.ids[key]
	if !ok {
		if r.ids == nil {
			r.ids = make(map[any]int)
		}
		n = firstID + len(r.ids)*idStep
		r.ids[key] = n
	}
	return starlark.MakeInt(n), nil
}

// The first number of id, and the step between two: like addresses.
const (
	firstID = 0x7f0000000000
	idStep  = 16
)

// identityOf returns a key that is equal for identical values (see identical).
func identityOf(v starlark.Value) any {
	switch v := v.(type) {
	case starlark.Int: // large ones are pointers
		return "int " + v.String()
	case starlark.Float:
		return "float " + repr(v)
	case starlark.Tuple:
		if len(v) == 0 {
			return "()"
		}
		return &v[0]
	case Object:
		return v.Dict
	case frozenSet:
		return v.Set
	}
	return v
}
