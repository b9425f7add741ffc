package interp

import (
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
	"go.starlark.net/starlark"
)

// The base classes from typing with a meaning at run time.

// namedTupleBase is NamedTuple.
type namedTupleBase struct{ placeholder }

// makeClass makes a class of tuples of the annotated fields.
func (namedTupleBase) makeClass(_ *starlark.Thread, c *class) (starlark.Value, error) {
	var fields []string
	var defaults []starlark.Value
	list, _ := c.members[parse.Annotations].(*starlark.List)
	if list != nil {
		for _, e := range listElems(list) {
			name := string(e.(starlark.String))
			v, hasDefault := c.members[name]
			switch {
			case hasDefault:
				defaults = append(defaults, v)
			case len(defaults) > 0:
				return nil, stdlib.Errorf(stdlib.TypeError, "class %s: the field %s has no default, but one before it has", c.name, name)
			}
			fields = append(fields, name)
		}
	}
	t := collections.NewTupleType(c.name, fields, defaults...)
	t.Member = func(x starlark.Value, name string) (starlark.Value, error) {
		return tupleMember(c, t, x, name)
	}
	return t, nil
}

// tupleMember returns a member of a class derived from NamedTuple, for the resulting class of
// tuples t, or for a tuple of t.
func tupleMember(c *class, t, x starlark.Value, name string) (starlark.Value, error) {
	switch v := c.find(name).(type) {
	case *classMethod:
		return &boundMethod{v.fn, t}, nil
	case *staticMethod:
		return v.fn, nil
	case *property:
		if x != t {
			return c.run.callback(v.fn, starlark.Tuple{x})
		}
		return v, nil
	case *starlark.Function:
		if x != t {
			return &boundMethod{v, x}, nil
		}
		return v, nil
	default:
		return v, nil
	}
}

// CallInternal is NamedTuple("Name", [("field", type)]).
func (namedTupleBase) CallInternal(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name string
	var fields starlark.Value
	if err := starlark.UnpackPositionalArgs("NamedTuple", args, kwargs, 2, &name, &fields); err != nil {
		return nil, err
	}
	var names []string
	err := each(fields, func(x starlark.Value) error {
		pair, ok := x.(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return stdlib.Errorf(stdlib.TypeError, "NamedTuple: got %s, want pairs of a name and a type", repr(x))
		}
		field, ok := starlark.AsString(pair[0])
		if !ok {
			return stdlib.Errorf(stdlib.TypeError, "NamedTuple: %s is not a name", repr(pair[0]))
		}
		names = append(names, field)
		return nil
	})
	return collections.NewTupleType(name, names), err
}

// typedDictBase is TypedDict. Values of derived classes are dicts.
type typedDictBase struct{ placeholder }

func (typedDictBase) makeClass(_ *starlark.Thread, c *class) (starlark.Value, error) {
	return &typedDict{c.name}, nil
}

// typedDict is a class derived from TypedDict, a possible base of other classes.
type typedDict struct{ name string }

var _ classMaker = (*typedDict)(nil)

func (d *typedDict) String() string        { return "<class '" + d.name + "'>" }
func (*typedDict) Type() string            { return "class" }
func (*typedDict) Freeze()                 {}
func (*typedDict) Truth() starlark.Bool    { return true }
func (d *typedDict) Hash() (uint32, error) { return starlark.String(d.name).Hash() }
func (d *typedDict) Name() string          { return d.name }

func (*typedDict) makeClass(_ *starlark.Thread, c *class) (starlark.Value, error) {
	return &typedDict{c.name}, nil
}

// CallInternal makes a dict.
func (*typedDict) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.Call(thread, starlark.Universe["dict"], args, kwargs)
}
