// Package collections is Python's module collections: deque, namedtuple, Counter, defaultdict and
// OrderedDict. Begin with [Module].
package collections

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// Module returns the module collections.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "collections", Members: starlark.StringDict{
		"deque":       class("collections.deque", newDeque, is[*deque]),
		"Counter":     class("collections.Counter", newCounter, is[*counter]),
		"defaultdict": class("collections.defaultdict", newDefaultDict, is[*defaultDict]),
		"OrderedDict": orderedDictClass,
		"namedtuple":  stdlib.NewFunc("namedtuple", namedTuple),
	}}
}

func is[T starlark.Value](v starlark.Value) bool {
	_, ok := v.(T)
	return ok
}

// class returns the class of the values made by a function.
func class(name string, f stdlib.Func, is func(starlark.Value) bool) *stdlib.Class {
	return &stdlib.Class{
		Named: name,
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return f(&stdlib.Call{Thread: thread, Name: name, Args: args, Kwargs: kwargs})
		},
		Is: is,
	}
}

// mapping implements the common part of the dicts. Pointer types embed it and add their Repr, Get,
// and methods.
type mapping struct {
	dict *starlark.Dict
	env  *stdlib.Env
}

func newMapping(c *stdlib.Call) mapping { return mapping{new(starlark.Dict), c.Env()} }

// Underlying is the dict.
func (m *mapping) Underlying() *starlark.Dict { return m.dict }

func (m *mapping) Type() string               { return "dict" }
func (m *mapping) Freeze()                    { m.dict.Freeze() }
func (m *mapping) Truth() starlark.Bool       { return m.dict.Len() > 0 }
func (m *mapping) Len() int                   { return m.dict.Len() }
func (m *mapping) Items() []starlark.Tuple    { return m.dict.Items() }
func (m *mapping) Iterate() starlark.Iterator { return m.dict.Iterate() }

// Hash fails: a dict can change.
func (m *mapping) Hash() (uint32, error) {
	return 0, stdlib.Errorf(stdlib.TypeError, "unhashable type: 'dict'")
}

// SetKey is x[k] = v.
func (m *mapping) SetKey(k, v starlark.Value) error { return m.dict.SetKey(k, v) }

// Has is k in x.
func (m *mapping) Has(k starlark.Value) (bool, error) {
	_, found, err := m.dict.Get(k)
	return found, err
}

// get is x[k] with a KeyError for a missing key.
func (m *mapping) get(k starlark.Value) (starlark.Value, bool, error) {
	v, found, err := m.dict.Get(k)
	if err == nil && !found {
		err = stdlib.Errorf(stdlib.KeyError, "%s", m.env.Repr(k))
	}
	return v, found, err
}

// CompareSameType compares with any dict.
func (m *mapping) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	switch y := y.(type) {
	case stdlib.DictLike:
		return starlark.CompareDepth(op, m.dict, y.Underlying(), depth)
	case *starlark.Dict:
		return starlark.CompareDepth(op, m.dict, y, depth)
	}
	return op == syntax.NEQ, nil
}

// fill adds the contents of a mapping or of pairs, as dict(x, **kwargs) does.
func (m *mapping) fill(c *stdlib.Call, from starlark.Value, kwargs []starlark.Tuple) error {
	if err := m.addAll(c, from); err != nil {
		return err
	}
	for _, kv := range kwargs {
		if err := m.dict.SetKey(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

func (m *mapping) addAll(c *stdlib.Call, from starlark.Value) error {
	if from == nil {
		return nil
	}
	if items, ok := itemsOf(from); ok {
		for _, kv := range items {
			if err := m.dict.SetKey(kv[0], kv[1]); err != nil {
				return err
			}
		}
		return nil
	}
	return stdlib.Each(from, func(pair starlark.Value) error {
		kv, err := c.Elements(pair)
		if err != nil {
			return err
		}
		if len(kv) != 2 {
			return stdlib.Errorf(stdlib.ValueError, "dictionary update sequence element has length %d; 2 is required", len(kv))
		}
		return m.dict.SetKey(kv[0], kv[1])
	})
}

func itemsOf(v starlark.Value) ([]starlark.Tuple, bool) {
	switch v := v.(type) {
	case stdlib.DictLike:
		return v.Underlying().Items(), true
	case starlark.IterableMapping:
		return v.Items(), true
	}
	return nil, false
}

func (m *mapping) clone() mapping {
	c := mapping{starlark.NewDict(m.dict.Len()), m.env}
	for k, v := range m.dict.Entries() {
		_ = c.dict.SetKey(k, v) // a key of a dict is hashable
	}
	return c
}

// dictText is {k: v, ...}.
func (m *mapping) dictText(repr func(starlark.Value) string) string {
	out := make([]byte, 0, 64)
	out = append(out, '{')
	for k, v := range m.dict.Entries() {
		if len(out) > 1 {
			out = append(out, ", "...)
		}
		out = append(append(append(out, repr(k)...), ": "...), repr(v)...)
	}
	return string(append(out, '}'))
}

// union is x | y of dicts: copy, with the contents of y.
func union(m mapping, y starlark.Value) (mapping, bool, error) {
	items, ok := itemsOf(y)
	if !ok {
		return m, false, nil
	}
	out := m.clone()
	for _, kv := range items {
		if err := out.dict.SetKey(kv[0], kv[1]); err != nil {
			return m, true, err
		}
	}
	return out, true, nil
}

// orderedDict is an OrderedDict.
type orderedDict struct{ mapping }

var (
	_ stdlib.Dict         = (*orderedDict)(nil)
	_ starlark.HasAttrs   = (*orderedDict)(nil)
	_ starlark.Comparable = (*orderedDict)(nil)
	_ starlark.HasBinary  = (*orderedDict)(nil)
)

var orderedDictClass = func() *stdlib.Class {
	c := class("collections.OrderedDict", func(c *stdlib.Call) (starlark.Value, error) {
		from, err := firstOnly(c)
		if err != nil {
			return nil, err
		}
		d := &orderedDict{newMapping(c)}
		return d, d.fill(c, from, c.Kwargs)
	}, is[*orderedDict])
	c.Attrs = stdlib.Funcs(map[string]stdlib.Func{"fromkeys": func(c *stdlib.Call) (starlark.Value, error) {
		var keys, v starlark.Value = nil, starlark.None
		if err := c.Unpack("iterable", &keys, "value?", &v); err != nil {
			return nil, err
		}
		d := &orderedDict{newMapping(c)}
		return d, stdlib.Each(keys, func(k starlark.Value) error { return d.SetKey(k, v) })
	}})
	return c
}()

// firstOnly returns the only argument by position, nil without arguments.
func firstOnly(c *stdlib.Call) (starlark.Value, error) {
	switch len(c.Args) {
	case 0:
		return nil, nil
	case 1:
		return c.Args[0], nil
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "%s expected at most 1 argument, got %d", c.Name, len(c.Args))
}

func (d *orderedDict) String() string { return d.Repr(stdlib.PlainRepr) }

// Repr is the repr of Python 3.12.
func (d *orderedDict) Repr(repr func(starlark.Value) string) string {
	if d.Len() == 0 {
		return "OrderedDict()"
	}
	return "OrderedDict(" + d.dictText(repr) + ")"
}

// Get is d[k].
func (d *orderedDict) Get(k starlark.Value) (starlark.Value, bool, error) { return d.get(k) }

// CompareSameType minds the order where both are OrderedDicts.
func (d *orderedDict) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	same, err := d.mapping.CompareSameType(syntax.EQL, y, depth)
	if other, ok := y.(*orderedDict); ok && same && err == nil {
		keys := other.dict.Keys()
		i := 0
		for k := range d.dict.Entries() {
			if same, err = starlark.EqualDepth(k, keys[i], depth); !same || err != nil {
				break
			}
			i++
		}
	}
	switch op {
	case syntax.EQL:
		return same, err
	case syntax.NEQ:
		return !same, err
	}
	return false, fmt.Errorf("%s %s %s not implemented", d.Type(), op, y.Type())
}

// Binary is d | y.
func (d *orderedDict) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if op != syntax.PIPE || side != starlark.Left {
		return nil, nil
	}
	m, ok, err := union(d.mapping, y)
	if !ok || err != nil {
		return nil, err
	}
	return &orderedDict{m}, nil
}

func (d *orderedDict) AttrNames() []string {
	return append(d.dict.AttrNames(), "copy", "move_to_end")
}

func (d *orderedDict) Attr(name string) (starlark.Value, error) {
	if m := stdlib.Method(d, name, orderedMethods); m != nil {
		return m, nil
	}
	return d.env.DictAttr(d, name)
}

var orderedMethods = map[string]stdlib.Func{
	"copy": func(c *stdlib.Call) (starlark.Value, error) {
		return &orderedDict{c.Receiver.(*orderedDict).clone()}, c.Unpack()
	},
	"move_to_end": func(c *stdlib.Call) (starlark.Value, error) {
		var k starlark.Value
		last := true
		if err := c.Unpack("key", &k, "last?", &last); err != nil {
			return nil, err
		}
		d := c.Receiver.(*orderedDict)
		v, _, err := d.get(k)
		if err != nil {
			return nil, err
		}
		if _, _, err := d.dict.Delete(k); err != nil {
			return nil, err
		}
		if last {
			return starlark.None, d.SetKey(k, v)
		}
		rest := d.Items()
		if err := d.dict.Clear(); err != nil {
			return nil, err
		}
		for _, kv := range append([]starlark.Tuple{{k, v}}, rest...) {
			if err := d.SetKey(kv[0], kv[1]); err != nil {
				return nil, err
			}
		}
		return starlark.None, nil
	},
	"popitem": func(c *stdlib.Call) (starlark.Value, error) {
		last := true
		if err := c.Unpack("last?", &last); err != nil {
			return nil, err
		}
		d := c.Receiver.(*orderedDict)
		keys := d.dict.Keys()
		if len(keys) == 0 {
			return nil, stdlib.Errorf(stdlib.KeyError, "'dictionary is empty'")
		}
		k := keys[0]
		if last {
			k = keys[len(keys)-1]
		}
		v, _, err := d.dict.Delete(k)
		return starlark.Tuple{k, v}, err
	},
}

// defaultDict is a defaultdict.
type defaultDict struct {
	mapping
	factory starlark.Value // nil for none
	thread  *starlark.Thread
}

var (
	_ stdlib.Dict         = (*defaultDict)(nil)
	_ starlark.HasAttrs   = (*defaultDict)(nil)
	_ starlark.Comparable = (*defaultDict)(nil)
	_ starlark.HasBinary  = (*defaultDict)(nil)
)

func newDefaultDict(c *stdlib.Call) (starlark.Value, error) {
	d := &defaultDict{mapping: newMapping(c), thread: c.Thread}
	if len(c.Args) > 0 && c.Args[0] != starlark.None {
		if _, ok := c.Args[0].(starlark.Callable); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "first argument must be callable or None")
		}
		d.factory = c.Args[0]
	}
	rest := *c
	rest.Args = c.Args[min(1, len(c.Args)):]
	from, err := firstOnly(&rest)
	if err != nil {
		return nil, err
	}
	return d, d.fill(c, from, c.Kwargs)
}

func (d *defaultDict) String() string { return d.Repr(stdlib.PlainRepr) }

// Repr is defaultdict(<class 'list'>, {...}).
func (d *defaultDict) Repr(repr func(starlark.Value) string) string {
	factory := "None"
	if d.factory != nil {
		factory = repr(d.factory)
	}
	return "defaultdict(" + factory + ", " + d.dictText(repr) + ")"
}

// Get is d[k], which adds a missing key.
func (d *defaultDict) Get(k starlark.Value) (starlark.Value, bool, error) {
	v, found, err := d.dict.Get(k)
	if found || err != nil {
		return v, found, err
	}
	if d.factory == nil {
		return d.get(k)
	}
	if v, err = starlark.Call(d.thread, d.factory, nil, nil); err != nil {
		return nil, false, err
	}
	return v, true, d.SetKey(k, v)
}

// Binary is d | y.
func (d *defaultDict) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if op != syntax.PIPE || side != starlark.Left {
		return nil, nil
	}
	m, ok, err := union(d.mapping, y)
	if !ok || err != nil {
		return nil, err
	}
	return &defaultDict{m, d.factory, d.thread}, nil
}

func (d *defaultDict) AttrNames() []string {
	return append(d.dict.AttrNames(), "copy", "default_factory")
}

func (d *defaultDict) Attr(name string) (starlark.Value, error) {
	switch name {
	case "default_factory":
		if d.factory == nil {
			return starlark.None, nil
		}
		return d.factory, nil
	case "copy":
		return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			return &defaultDict{d.clone(), d.factory, d.thread}, c.Unpack()
		}), nil
	}
	return d.env.DictAttr(d, name)
}
