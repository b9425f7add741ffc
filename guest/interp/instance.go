package interp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

type syntaxToken = syntax.Token

// An instance is a value of a class of the script. An operation without a method with two
// underscores in the class is an error, as in Python.
type instance struct {
	class  *class
	attrs  starlark.StringDict
	names  []string       // of attrs, in the order in which they were set
	self   starlark.Value // the value seen by the script: itself or an iterable
	id     uint32
	frozen bool // a frozen dataclass, once complete
}

// iterable is an instance of a class with iteration.
type iterable struct{ *instance }

var (
	_ starlark.HasSetField = (*instance)(nil)
	_ starlark.HasSetKey   = (*instance)(nil)
	_ starlark.HasBinary   = (*instance)(nil)
	_ starlark.HasUnary    = (*instance)(nil)
	_ starlark.Comparable  = (*instance)(nil)
	_ starlark.Container   = (*instance)(nil)
	_ starlark.Callable    = (*instance)(nil)
	_ starlark.Iterable    = (*iterable)(nil)
)

func newInstance(c *class) starlark.Value {
	i := &instance{class: c, attrs: make(starlark.StringDict)}
	c.run.made++
	i.id = c.run.made
	i.self = i
	if c.find("__iter__") != nil || c.find("__getitem__") != nil {
		i.self = &iterable{i}
	}
	return i.self
}

// instanceOf returns the instance of a value, nil for other values.
func instanceOf(v starlark.Value) *instance {
	switch v := v.(type) {
	case *instance:
		return v
	case *iterable:
		return v.instance
	}
	return nil
}

// classOf returns the class of a value of the script, nil without a class.
func classOf(v starlark.Value) *class {
	switch v := v.(type) {
	case *instance:
		return v.class
	case *iterable:
		return v.class
	case *errorValue:
		return v.class
	}
	return nil
}

// method returns a method of the class, nil without a method.
func (i *instance) method(name string) starlark.Value { return i.class.find(name) }

// call calls an existing method of the class.
func (i *instance) call(fn starlark.Value, args ...starlark.Value) (starlark.Value, error) {
	return i.class.run.callback(fn, append(starlark.Tuple{i.self}, args...))
}

// items returns the items of a value with a class with keys() and [].
func (i *instance) items() (starlark.Value, error) {
	keys, err := i.call(i.method("keys"))
	if err != nil {
		return nil, err
	}
	var out []starlark.Value
	err = each(keys, func(k starlark.Value) error {
		v, _, err := i.Get(k)
		out = append(out, starlark.Tuple{k, v})
		return err
	})
	return starlark.NewList(out), err
}

// CallMethod calls a method of the class; nil for an unknown name.
func (i *instance) CallMethod(name string, args ...starlark.Value) (starlark.Value, error) {
	fn := i.method(name)
	if fn == nil {
		return nil, nil
	}
	return i.call(fn, args...)
}

// callback calls a function of the script from where the library has no thread.
func (r *run) callback(fn starlark.Value, args starlark.Tuple) (starlark.Value, error) {
	if r.current.CallStackDepth() > MaxFrames {
		r.stop(r.current, abi.LimitRecursion, deepMessage)
		return nil, r.fatal
	}
	return starlark.Call(r.current, fn, args, nil)
}

// must is call where the library allows no error: an error ends the run.
func (i *instance) must(fn starlark.Value, args ...starlark.Value) starlark.Value {
	v, err := i.call(fn, args...)
	if err != nil {
		r := i.class.run
		r.setFatal(&fatalError{message: err.Error(), cause: err})
		r.current.Cancel(err.Error())
		return nil
	}
	return v
}

func (i *instance) Type() string { return i.class.kind }
func (i *instance) Freeze()      {}

func (i *instance) String() string {
	for _, name := range []string{"__repr__", "__str__"} {
		if fn := i.method(name); fn != nil {
			if s, ok := i.must(fn).(starlark.String); ok {
				return string(s)
			}
			return ""
		}
	}
	if i.class.data != nil {
		return i.class.data.text(i)
	}
	if i.class.enum != nil {
		return i.class.enum.repr(i)
	}
	return fmt.Sprintf("<%s object>", i.class.name)
}

// text returns str(i).
func (i *instance) text() string {
	if fn := i.method("__str__"); fn != nil {
		s, _ := i.must(fn).(starlark.String)
		return string(s)
	}
	if i.class.enum != nil && i.method("__repr__") == nil {
		return i.class.enum.text(i)
	}
	return i.String()
}

func (i *instance) Truth() starlark.Bool {
	if fn := i.method("__bool__"); fn != nil {
		v := i.must(fn)
		return v == nil || v.Truth()
	}
	if fn := i.method("__len__"); fn != nil {
		v := i.must(fn)
		return v == nil || v.Truth()
	}
	return true
}

func (i *instance) Hash() (uint32, error) {
	if fn := i.method("__hash__"); fn != nil {
		v, err := i.call(fn)
		if err != nil {
			return 0, err
		}
		return v.Hash()
	}
	if i.class.data != nil && i.class.data.frozen {
		return i.class.data.values(i).Hash()
	}
	if i.method("__eq__") != nil || i.class.data != nil {
		return 0, fmt.Errorf("unhashable type: %s", i.class.name)
	}
	return i.id, nil
}

func (i *instance) Name() string { return boundName }

func (i *instance) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	fn := i.method("__call__")
	if fn == nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object is not callable", i.class.name)
	}
	return starlark.Call(thread, fn, append(starlark.Tuple{i.self}, args...), kwargs)
}

// Attr is i.name.
func (i *instance) Attr(name string) (starlark.Value, error) {
	if v, ok := i.attrs[name]; ok {
		return v, nil
	}
	switch v := i.class.find(name).(type) {
	case nil:
	case *property:
		x, err := i.call(v.fn)
		if err == nil && v.once {
			i.put(name, x)
		}
		return x, err
	case *classMethod:
		return &boundMethod{v.fn, i.class}, nil
	case *staticMethod:
		return v.fn, nil
	case *starlark.Function:
		return &boundMethod{v, i.self}, nil
	case stdlib.Binder:
		return &boundMethod{v, i.self}, nil
	default:
		return v, nil
	}
	switch name {
	case "__class__":
		return i.class, nil
	case "__dict__":
		o := newObject(len(i.names))
		for _, name := range i.names {
			_ = o.Dict.SetKey(starlark.String(name), i.attrs[name])
		}
		return o, nil
	}
	if fn := i.method("__getattr__"); fn != nil {
		return i.call(fn, starlark.String(name))
	}
	names := publicNames(i.AttrNames())
	return nil, stdlib.Errorf(stdlib.AttributeError, "%s has no .%s%s", i.class.name, name, suggest(name, names, names))
}

func (i *instance) AttrNames() []string {
	names := append(slices.Clone(i.names), i.class.AttrNames()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// publicNames returns the names possibly meant by a script.
func publicNames(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "__") })
}

// SetField is i.name = v.
func (i *instance) SetField(name string, v starlark.Value) error {
	if p, ok := i.class.find(name).(*property); ok {
		if p.set == nil {
			return stdlib.Errorf(stdlib.AttributeError, "%s.%s is a property without a setter", i.class.name, name)
		}
		_, err := i.call(p.set, v)
		return err
	}
	if i.frozen {
		return &stdlib.Error{
			Class: "FrozenInstanceError", Bases: []string{stdlib.AttributeError},
			Message: fmt.Sprintf("%s is frozen: .%s cannot change", i.class.name, name),
		}
	}
	i.put(name, v)
	return nil
}

func (i *instance) put(name string, v starlark.Value) {
	if _, known := i.attrs[name]; !known {
		i.names = append(i.names, name)
	}
	i.attrs[name] = v
}

func (i *instance) remove(name string) error {
	if _, known := i.attrs[name]; !known || i.frozen {
		return stdlib.Errorf(stdlib.AttributeError, "%s has no .%s to delete", i.class.name, name)
	}
	delete(i.attrs, name)
	i.names = slices.DeleteFunc(i.names, func(n string) bool { return n == name })
	return nil
}

// lacks is the error for an operation undefined in the class.
func (i *instance) lacks(what, method string) error {
	return stdlib.Errorf(stdlib.TypeError, "'%s' object %s (its class has no %s)", i.class.name, what, method)
}

// Get is i[k].
func (i *instance) Get(k starlark.Value) (starlark.Value, bool, error) {
	fn := i.method("__getitem__")
	if fn == nil {
		return nil, false, i.lacks("is not subscriptable", "__getitem__")
	}
	v, err := i.call(fn, k)
	return v, err == nil, err
}

// SetKey is i[k] = v.
func (i *instance) SetKey(k, v starlark.Value) error {
	fn := i.method("__setitem__")
	if fn == nil {
		return i.lacks("does not support item assignment", "__setitem__")
	}
	_, err := i.call(fn, k, v)
	return err
}

// Iterate calls __iter__, or __getitem__ with 0, 1, ... until an IndexError.
func (i *iterable) Iterate() starlark.Iterator {
	if fn := i.method("__iter__"); fn != nil {
		v, err := i.call(fn)
		if err == nil && v == starlark.Value(i) || err == nil && instanceOf(v) != nil && instanceOf(v).method("__next__") != nil {
			return instanceOf(v).nextIterator().Iterate()
		}
		if err == nil {
			var it starlark.Iterator
			if it, err = stdlib.Iterate(v); err == nil {
				return it
			}
		}
		return stdlib.NewIterator("iterator", func() (starlark.Value, error) { return nil, err }).Iterate()
	}
	n := 0
	fn := i.method("__getitem__")
	return stdlib.NewIterator("iterator", func() (starlark.Value, error) {
		v, err := i.call(fn, starlark.MakeInt(n))
		n++
		if err != nil && errorClassOf(err).derives(errorClasses[stdlib.IndexError]) && !i.class.run.uncatchable(err) {
			return nil, nil
		}
		return v, err
	}).Iterate()
}

// nextIterator iterates by __next__ until a StopIteration.
func (i *instance) nextIterator() *stdlib.Iterator {
	fn := i.method("__next__")
	return stdlib.NewIterator("iterator", func() (starlark.Value, error) {
		if fn == nil {
			return nil, i.lacks("is not an iterator", "__next__")
		}
		v, err := i.call(fn)
		if err != nil && errorClassOf(err).derives(errorClasses[stdlib.StopIteration]) && !i.class.run.uncatchable(err) {
			return nil, nil
		}
		return v, err
	})
}
