package interp

import (
	"encoding/hex"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

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
