package interp

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
