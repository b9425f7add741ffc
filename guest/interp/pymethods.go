package interp

import (
	"encoding/hex"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/extend"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
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

// Methods of bytes, and encodings.

// bytesMethods has the methods of bytes. Most are methods of text, with a character for each byte.
var bytesMethods = func() map[string]builtinFunc {
	out := map[string]builtinFunc{"decode": bytesDecode, "hex": bytesHex}
	for _, name := range strings.Fields(`capitalize center count endswith expandtabs find index isalnum isalpha isascii
		isdigit islower isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind
		rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill`) {
		out[name] = bytesAsText
	}
	return out
}()

// highByte is added to bytes outside ASCII, which gives characters without any properties: bytes
// have letters and spaces in ASCII only.
const highByte = 0xF0000

// bytesAsText calls the method of text of the same name.
func bytesAsText(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	method, err := starlark.String(bytesText(b.Receiver().(starlark.Bytes))).Attr(b.Name())
	if err != nil {
		return nil, err
	}
	converted := make(starlark.Tuple, len(args))
	for i, a := range args {
		if converted[i], err = toText(b.Name(), a); err != nil {
			return nil, err
		}
	}
	pairs := make([]starlark.Tuple, len(kwargs))
	for i, kv := range kwargs {
		v, err := toText(b.Name(), kv[1])
		if err != nil {
			return nil, err
		}
		pairs[i] = starlark.Tuple{kv[0], v}
	}
	v, err := method.(*starlark.Builtin).CallInternal(thread, converted, pairs)
	if err != nil {
		return nil, err
	}
	return toBytes(v), nil
}

func bytesText(s starlark.Bytes) string {
	var out strings.Builder
	for i := range len(s) {
		r := rune(s[i])
		if r >= utf8.RuneSelf {
			r += highByte
		}
		out.WriteRune(r)
	}
	return out.String()
}

// toText converts the bytes of an argument, also in a tuple or list.
func toText(method string, v starlark.Value) (starlark.Value, error) {
	switch v := v.(type) {
	case starlark.Bytes:
		return starlark.String(bytesText(v)), nil
	case starlark.String:
		return nil, stdlib.Errorf(stdlib.TypeError, "%s: a bytes-like object is required, not 'str'", method)
	case starlark.Int, starlark.Bool, starlark.NoneType:
		return v, nil
	case starlark.Iterable:
		var out starlark.Tuple
		err := each(v, func(x starlark.Value) error {
			text, err := toText(method, x)
			out = append(out, text)
			return err
		})
		return out, err
	}
	return v, nil
}

// toBytes converts the text of a result, also in a tuple or list.
func toBytes(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case starlark.String:
		out := make([]byte, 0, len(v))
		for _, r := range string(v) {
			out = append(out, byte(r)) // also without highByte, a multiple of 256
		}
		return starlark.Bytes(out)
	case starlark.Tuple:
		for i := range v {
			v[i] = toBytes(v[i])
		}
	case *starlark.List:
		for i := range v.Len() {
			_ = v.SetIndex(i, toBytes(v.Index(i)))
		}
	}
	return v
}

// encodingOf returns the last character of an encoding; -1 for UTF-8.
func encodingOf(name string) (last rune, err error) {
	switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
	case "utf-8", "utf8":
		return -1, nil
	case "ascii", "us-ascii":
		return 0x7F, nil
	case "latin-1", "latin1", "iso-8859-1", "iso8859-1":
		return 0xFF, nil
	}
	return 0, stdlib.Errorf(stdlib.LookupError, "unknown encoding: %s (there are utf-8, ascii and latin-1)", name)
}

func strEncode(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	encoding, handling := "utf-8", "strict"
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "encoding?", &encoding, "errors?", &handling); err != nil {
		return nil, err
	}
	last, err := encodingOf(encoding)
	if err != nil {
		return nil, err
	}
	s := receiverText(b)
	if last < 0 {
		return starlark.Bytes(s), nil
	}
	out := make([]byte, 0, len(s))
	for i, r := range s {
		switch {
		case r <= last:
			out = append(out, byte(r))
		case handling == "ignore":
		case handling == "replace":
			out = append(out, '?')
		default:
			return nil, stdlib.Errorf("UnicodeEncodeError", "'%s' codec can't encode character %+q at byte %d", encoding, r, i)
		}
	}
	return starlark.Bytes(out), nil
}

func bytesDecode(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	encoding, handling := "utf-8", "strict"
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "encoding?", &encoding, "errors?", &handling); err != nil {
		return nil, err
	}
	last, err := encodingOf(encoding)
	if err != nil {
		return nil, err
	}
	s := string(b.Receiver().(starlark.Bytes))
	if last == 0xFF {
		var out strings.Builder
		for i := range len(s) {
			out.WriteRune(rune(s[i]))
		}
		return starlark.String(out.String()), nil
	}
	valid := utf8.ValidString(s) && (last < 0 || strings.IndexFunc(s, func(r rune) bool { return r > last }) < 0)
	switch {
	case valid:
		return starlark.String(s), nil
	case handling == "ignore":
		return starlark.String(strings.ToValidUTF8(s, "")), nil
	case handling == "replace":
		return starlark.String(strings.ToValidUTF8(s, "\uFFFD")), nil
	}
	return nil, stdlib.Errorf("UnicodeDecodeError", "the bytes are not valid %s (errors=\"replace\" puts \uFFFD in their place)", encoding)
}

func bytesHex(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return starlark.String(hex.EncodeToString([]byte(b.Receiver().(starlark.Bytes)))), nil
}

// frozenSet is an immutable set, usable as a key.
type frozenSet struct{ *starlark.Set }

var (
	_ starlark.Comparable = frozenSet{}
	_ starlark.Sequence   = frozenSet{}
)

func frozensetBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var xs starlark.Value = starlark.Tuple{}
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0, &xs); err != nil {
		return nil, err
	}
	set, err := newSetOf(xs)
	if err != nil {
		return nil, err
	}
	set.Freeze()
	return frozenSet{set.(*starlark.Set)}, nil
}

func (f frozenSet) String() string {
	if f.Len() == 0 {
		return "frozenset()"
	}
	return "frozenset(" + repr(f.Set) + ")"
}
func (f frozenSet) Type() string { return "frozenset" }

// Hash does not depend on the order of the elements.
func (f frozenSet) Hash() (uint32, error) {
	var sum uint32 = 1927868237
	for _, x := range setElems(f.Set) {
		h, err := x.Hash()
		if err != nil {
			return 0, err
		}
		sum += h * 2654435761
	}
	return sum, nil
}

func (f frozenSet) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	other, ok := y.(frozenSet)
	if !ok {
		return op == syntax.NEQ, nil
	}
	return f.Set.CompareSameType(op, other.Set, depth)
}

// Attr returns the methods of sets without side effects.
func (f frozenSet) Attr(name string) (starlark.Value, error) {
	switch name {
	case "copy":
		return starlark.NewBuiltin(name, func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return f, nil
		}), nil
	case "difference", "intersection", "isdisjoint", "issubset", "issuperset", "symmetric_difference", "union":
		return f.Set.Attr(name)
	}
	return nil, nil
}

func (f frozenSet) AttrNames() []string {
	return strings.Fields("copy difference intersection isdisjoint issubset issuperset symmetric_difference union")
}

// frozenBinary is an operator between sets, at least one frozen. As in Python the result has the
// type of the left set.
func frozenBinary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	f, xFrozen := x.(frozenSet)
	if xFrozen {
		x = f.Set
	}
	if g, ok := y.(frozenSet); ok {
		y = g.Set
	}
	_, ok := x.(*starlark.Set)
	_, ok2 := y.(*starlark.Set)
	if !ok || !ok2 {
		return nil, nil
	}
	z, err := starlark.Binary(op, x, y)
	if set, ok := z.(*starlark.Set); ok && xFrozen && err == nil {
		set.Freeze()
		return frozenSet{set}, nil
	}
	return z, err
}

func bytesFromHex(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &text); err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, stdlib.Errorf(stdlib.ValueError, "fromhex: the text is not hexadecimal")
	}
	return starlark.Bytes(raw), nil
}
