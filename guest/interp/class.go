package interp

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// A class is a class of the script, or a predefined error class.
type class struct {
	name string
	// kind is the type of the class's values, never a name of a type of the library, because the
	// library takes values with such a name for values of its own.
	kind    string
	bases   []*class
	order   []*class // in which members are looked up: the class itself first
	members starlark.StringDict
	names   []string // of members, in the order of the source
	run     *run     // nil for predefined classes
	isError bool
	tool    bool // the class is ToolError or a derived class
	// make constructs a value instead of the usual way; enumerations have it.
	make func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)
	data *dataclass
	enum *enum
}

var (
	_ starlark.Callable    = (*class)(nil)
	_ starlark.HasSetField = (*class)(nil)
	_ starlark.Mapping     = (*class)(nil)
	_ starlark.Iterable    = (*class)(nil)
)

func (c *class) String() string        { return fmt.Sprintf("<class '%s'>", c.Name()) }
func (*class) Type() string            { return "class" }
func (*class) Freeze()                 {}
func (*class) Truth() starlark.Bool    { return true }
func (c *class) Hash() (uint32, error) { return starlark.String(c.name).Hash() }

// Name is the name in backtraces.
func (c *class) Name() string {
	if c == exceptionClass {
		return "Error"
	}
	return c.name
}

// objectClass is the base of all classes.
var objectClass = &class{name: "object"}

func init() { objectClass.order = []*class{objectClass} }

// makeClass is ·class(name, bases, body), which a class statement calls.
func makeClass(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	name := string(args[0].(starlark.String))
	v, err := starlark.Call(thread, args[2], nil, nil)
	if err != nil {
		return nil, err
	}
	members := v.(Object)
	var special starlark.Value // a base other than a class, for example NamedTuple
	c := &class{name: name, kind: name, members: make(starlark.StringDict), run: runOf(thread)}
	if typeNames[name] || foreignTypes[name] {
		c.kind = "class " + name
	}
	for _, base := range args[1].(starlark.Tuple) {
		switch base := base.(type) {
		case *class:
			if base.enum != nil && base != enumClass && len(base.enum.list) > 0 {
				return nil, stdlib.Errorf(stdlib.TypeError, "class %s: the enumeration %s cannot be extended", name, base.name)
			}
			c.bases = append(c.bases, base)
		case classMaker:
			special = base
		default:
			if ignoredBases[text(base)] {
				continue
			}
			return nil, stdlib.Errorf(stdlib.TypeError, "class %s: %s is no class that another can be derived from (write a function, or keep such a value in an attribute)", name, text(base))
		}
	}
	for k, v := range members.Entries() {
		key := string(k.(starlark.String))
		c.members[key] = v
		c.names = append(c.names, key)
	}
	if c.order, err = linearize(c); err != nil {
		return nil, err
	}
	for _, base := range c.order[1:] {
		c.isError = c.isError || base.isError
		c.tool = c.tool || base.tool
		if base.make != nil && c.make == nil {
			c.make = base.make
		}
		if base.data != nil && c.data == nil {
			c.data = base.data
		}
	}
	if special != nil {
		return special.(classMaker).makeClass(thread, c)
	}
	if isEnum(c) {
		return c, makeEnum(c)
	}
	return c, nil
}

// foreignTypes are types of the library hardly seen by scripts.
var foreignTypes = map[string]bool{"string.elems": true, "string.codepoints": true, "bytes.elems": true, "operand": true, "method": true, "mandatory": true, "cell": true}

// A classMaker is a base that turns a class into another value.
type classMaker interface {
	starlark.Value
	makeClass(thread *starlark.Thread, c *class) (starlark.Value, error)
}

// ignoredBases are bases without a meaning here.
var ignoredBases = map[string]bool{"typing.Generic": true, "typing.Protocol": true, "ABC": true}

// linearize returns the order in which the members of a class are looked up (C3).
func linearize(c *class) ([]*class, error) {
	var lists [][]*class
	for _, b := range c.bases {
		lists = append(lists, slices.Clone(b.order))
	}
	if len(c.bases) == 0 {
		lists = append(lists, objectClass.order)
	}
	lists = append(lists, slices.Clone(c.bases))
	out := []*class{c}
	for {
		lists = slices.DeleteFunc(lists, func(l []*class) bool { return len(l) == 0 })
		if len(lists) == 0 {
			return out, nil
		}
		next := nextInOrder(lists)
		if next == nil {
			return nil, stdlib.Errorf(stdlib.TypeError, "class %s: its bases contradict each other's order", c.name)
		}
		out = append(out, next)
		for i, l := range lists {
			if l[0] == next {
				lists[i] = l[1:]
			}
		}
	}
}

// nextInOrder returns the first head absent from all tails.
func nextInOrder(lists [][]*class) *class {
	for _, l := range lists {
		head := l[0]
		inTail := slices.ContainsFunc(lists, func(l []*class) bool { return slices.Contains(l[1:], head) })
		if !inTail {
			return head
		}
	}
	return nil
}

// derives reports whether c is base or derived from base.
func (c *class) derives(base *class) bool { return slices.Contains(c.order, base) }

// find returns a member of the class or a base.
func (c *class) find(name string) starlark.Value { return findIn(c.order, name) }

func findIn(order []*class, name string) starlark.Value {
	for _, k := range order {
		if v, ok := k.members[name]; ok {
			return v
		}
	}
	return nil
}

func (c *class) Attr(name string) (starlark.Value, error) {
	switch name {
	case "__name__", "__qualname__":
		return starlark.String(c.name), nil
	case "__module__":
		return starlark.String("__main__"), nil
	case "__doc__":
		if c.members[name] == nil {
			return starlark.None, nil
		}
	case "__mro__":
		return classTuple(c.order), nil
	case "__bases__":
		return classTuple(c.bases), nil
	case "__members__":
		if c.enum != nil {
			return c.enum.members(), nil
		}
	}
	v := c.find(name)
	switch v := v.(type) {
	case nil:
		names := publicNames(c.AttrNames())
		return nil, stdlib.Errorf(stdlib.AttributeError, "class %s has no .%s%s", c.name, name, suggest(name, names, names))
	case *classMethod:
		return &boundMethod{v.fn, c}, nil
	case *staticMethod:
		return v.fn, nil
	}
	return v, nil
}

func classTuple(list []*class) starlark.Tuple {
	out := make(starlark.Tuple, len(list))
	for i, c := range list {
		out[i] = c
	}
	return out
}

// Get is the member of an enumeration, E["NAME"]. For other classes the result is the class: the
// brackets hold types.
func (c *class) Get(k starlark.Value) (starlark.Value, bool, error) {
	if c.enum == nil {
		switch k.(type) {
		case *class, *stdlib.Class, placeholder, classMaker, *starlark.Builtin, starlark.Tuple, starlark.String:
			return c, true, nil
		}
		return nil, false, stdlib.Errorf(stdlib.TypeError, "class %s is no container, and has no elements", c.name)
	}
	if i := instanceOf(k); i != nil {
		return k, i.class == c, nil
	}
	for _, i := range c.enum.list {
		if i.attrs["name"] == k {
			return i.self, true, nil
		}
	}
	return nil, false, stdlib.Errorf(stdlib.KeyError, "%s", repr(k))
}

func (c *class) AttrNames() []string {
	var names []string
	for _, k := range c.order {
		for name := range k.members {
			if name != parse.Annotations {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c *class) SetField(name string, v starlark.Value) error {
	if c.run == nil {
		return stdlib.Errorf(stdlib.TypeError, "class %s cannot change", c.name)
	}
	c.members[name] = v
	return nil
}

// CallInternal makes a value of the class.
func (c *class) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	switch {
	case c.make != nil:
		return c.make(thread, args, kwargs)
	case c.isError:
		return c.newError(thread, args, kwargs)
	}
	self := newInstance(c)
	if init := c.find("__init__"); init != nil {
		v, err := starlark.Call(thread, init, append(starlark.Tuple{self}, args...), kwargs)
		if err == nil && v != starlark.None {
			err = stdlib.Errorf(stdlib.TypeError, "%s.__init__ must return None, not %s", c.name, v.Type())
		}
		return self, err
	}
	if c.data != nil {
		return self, c.data.init(thread, self, args, kwargs)
	}
	if len(args) > 0 || len(kwargs) > 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "%s takes no arguments (it has no __init__)", c.name)
	}
	return self, nil
}

// boundMethod is a function with the value before the dot.
type boundMethod struct {
	fn   starlark.Value
	self starlark.Value
}

// boundName is the name of the frame of a boundMethod; no script can have it.
const boundName = "·bound"

func (m *boundMethod) String() string        { return "<bound method>" }
func (*boundMethod) Type() string            { return "method" }
func (*boundMethod) Freeze()                 {}
func (*boundMethod) Truth() starlark.Bool    { return true }
func (m *boundMethod) Hash() (uint32, error) { return starlark.String(boundName).Hash() }
func (m *boundMethod) Name() string          { return boundName }

func (m *boundMethod) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	all := make(starlark.Tuple, 0, len(args)+1)
	return starlark.Call(thread, m.fn, append(append(all, m.self), args...), kwargs)
}

// wrapped is the common part of the values of decorators.
type wrapped struct {
	operandOnly
	fn starlark.Value
}

type (
	classMethod  struct{ wrapped }
	staticMethod struct{ wrapped }
	// property is a computed attribute.
	property struct {
		wrapped
		set starlark.Value
		// once reports a value computed once and kept: cached_property.
		once bool
	}
)

func (s *staticMethod) Name() string { return "staticmethod" }

func (s *staticMethod) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.Call(thread, s.fn, args, kwargs)
}

// Attr is .setter and .getter, which are decorators.
func (p *property) Attr(name string) (starlark.Value, error) {
	if name != "setter" && name != "getter" {
		return nil, nil
	}
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		fn, err := onlyArgument(b, args, kwargs)
		if err != nil {
			return nil, err
		}
		if name == "setter" {
			return &property{wrapped: p.wrapped, set: fn}, nil
		}
		return &property{wrapped: wrapped{fn: fn}, set: p.set}, nil
	}), nil
}

func (*property) AttrNames() []string { return []string{"getter", "setter"} }

// decoratorBuiltin implements property, staticmethod or classmethod.
func decoratorBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if b.Name() == "property" {
		p := &property{}
		var get, set starlark.Value
		err := starlark.UnpackArgs(b.Name(), args, kwargs, "fget?", &get, "fset?", &set)
		p.fn, p.set = get, set
		return p, err
	}
	fn, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	if b.Name() == "classmethod" {
		return &classMethod{wrapped{fn: fn}}, nil
	}
	return &staticMethod{wrapped{fn: fn}}, nil
}

// superValue is super(): the members of the classes after a given class, for a value.
type superValue struct {
	operandOnly
	order []*class
	self  starlark.Value
}

// superOperand makes (superOperand | (class, self)).
type superOperand struct{ operandOnly }

func (superOperand) Binary(_ syntaxToken, y starlark.Value, _ starlark.Side) (starlark.Value, error) {
	pair := y.(starlark.Tuple)
	base, ok := pair[0].(*class)
	of := classOf(pair[1])
	if c, isClass := pair[1].(*class); isClass { // in a classmethod
		of = c
	}
	if !ok || of == nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "super() belongs in a method of a class")
	}
	i := slices.Index(of.order, base)
	if i < 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "super(): the value is a %s, which is not derived from %s", of.name, base.name)
	}
	return &superValue{order: of.order[i+1:], self: pair[1]}, nil
}

func (s *superValue) AttrNames() []string { return nil }

func (s *superValue) Attr(name string) (starlark.Value, error) {
	switch v := findIn(s.order, name).(type) {
	case nil:
		return s.inherited(name)
	case *classMethod:
		return &boundMethod{v.fn, classOf(s.self)}, nil
	case *staticMethod:
		return v.fn, nil
	case *property:
		return starlark.Call(classOf(s.self).run.current, v.fn, starlark.Tuple{s.self}, nil)
	case starlark.Callable:
		return &boundMethod{v, s.self}, nil
	default:
		return v, nil
	}
}

// inherited returns the members of object and Exception without an entry of their own.
func (s *superValue) inherited(name string) (starlark.Value, error) {
	self := s.self
	switch name {
	case "__init__":
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			if e, ok := self.(*errorValue); ok {
				return starlark.None, e.fill(args, kwargs)
			}
			return starlark.None, nil
		}), nil
	case "__str__", "__repr__":
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			if e, ok := self.(*errorValue); ok {
				return starlark.String(e.message), nil
			}
			return starlark.String(fmt.Sprintf("<%s object>", self.Type())), nil
		}), nil
	case "__setattr__":
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var field string
			var v starlark.Value
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &field, &v); err != nil {
				return nil, err
			}
			if i := instanceOf(self); i != nil {
				i.put(field, v)
			}
			return starlark.None, nil
		}), nil
	}
	return nil, stdlib.Errorf(stdlib.AttributeError, "super() has no .%s", name)
}

// Methods for operators. The first is the method of the left operand.
var binaryMethods = map[syntax.Token][2]string{
	syntax.PLUS:       {"__add__", "__radd__"},
	syntax.MINUS:      {"__sub__", "__rsub__"},
	syntax.STAR:       {"__mul__", "__rmul__"},
	syntax.SLASH:      {"__truediv__", "__rtruediv__"},
	syntax.SLASHSLASH: {"__floordiv__", "__rfloordiv__"},
	syntax.PERCENT:    {"__mod__", "__rmod__"},
	syntax.AMP:        {"__and__", "__rand__"},
	syntax.PIPE:       {"__or__", "__ror__"},
	syntax.CIRCUMFLEX: {"__xor__", "__rxor__"},
	syntax.LTLT:       {"__lshift__", "__rlshift__"},
	syntax.GTGT:       {"__rshift__", "__rrshift__"},
}

var comparisonMethods = map[syntax.Token][2]string{
	syntax.EQL: {"__eq__", "__eq__"},
	syntax.NEQ: {"__ne__", "__ne__"},
	syntax.LT:  {"__lt__", "__gt__"},
	syntax.GT:  {"__gt__", "__lt__"},
	syntax.LE:  {"__le__", "__ge__"},
	syntax.GE:  {"__ge__", "__le__"},
}

// methodFor returns the name of the method for an operator.
func methodFor(op syntax.Token, side starlark.Side) string {
	if side == starlark.Left {
		return binaryMethods[op][0]
	}
	return binaryMethods[op][1]
}

// notImplemented is the result of an operator's method that cannot handle the operand.
type notImplementedValue struct{ operandOnly }

func (notImplementedValue) String() string { return "NotImplemented" }

var notImplemented = notImplementedValue{}

func (i *instance) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) { // a marked operand
	case inPlace:
		return i.Binary(op, y.operand, side)
	case operandMarker:
		return y.apply(i.self)
	}
	fn := i.method(methodFor(op, side))
	if fn == nil {
		x, y := i.plain(), plainMember(y)
		if x == nil {
			return nil, nil
		}
		if side == starlark.Right {
			x, y = y, x
		}
		return starlark.Binary(op, x, y)
	}
	v, err := i.call(fn, y)
	if v == notImplemented {
		return nil, nil
	}
	return v, err
}

// operandMarker is the right operand of an operator that stands for another operator.
type operandMarker interface {
	starlark.Value
	apply(x starlark.Value) (starlark.Value, error)
}

// Has is y in i.
func (i *instance) Has(y starlark.Value) (bool, error) {
	if fn := i.method("__contains__"); fn != nil {
		v, err := i.call(fn, y)
		return err == nil && bool(v.Truth()), err
	}
	if it, ok := i.self.(*iterable); ok {
		return containsValue(it, y)
	}
	return false, i.lacks("is not a container", "__contains__")
}

// containsValue looks for a value among the elements of another.
func containsValue(xs, y starlark.Value) (found bool, err error) {
	err = stdlib.Each(xs, func(x starlark.Value) error {
		same, err := starlark.Equal(x, y)
		if err == nil && same {
			found, err = true, errStop
		}
		return err
	})
	if err == errStop {
		err = nil
	}
	return found, err
}

func (i *instance) Unary(op syntax.Token) (starlark.Value, error) {
	name := map[syntax.Token]string{syntax.MINUS: "__neg__", syntax.PLUS: "__pos__", syntax.TILDE: "__invert__"}[op]
	fn := i.method(name)
	if fn == nil {
		return nil, nil
	}
	return i.call(fn)
}

// CompareSameType compares instances of classes of the same name.
func (i *instance) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	v, err := i.compare(op, y)
	if err != nil || v != nil {
		return v != nil && bool(v.Truth()), err
	}
	j := instanceOf(y)
	switch op {
	case syntax.EQL:
		return i == j, nil
	case syntax.NEQ:
		return i != j, nil
	}
	return false, stdlib.Errorf(stdlib.TypeError, "'%s' not supported between instances of '%s' and '%s'", op, i.class.name, y.Type())
}

// compare returns nil if the class does not define the comparison.
func (i *instance) compare(op syntax.Token, y starlark.Value) (starlark.Value, error) {
	methods := comparisonMethods[op]
	if v, err := i.tryMethod(methods[0], y); v != nil || err != nil {
		return v, err
	}
	if j := instanceOf(y); j != nil {
		if v, err := j.tryMethod(methods[1], i.self); v != nil || err != nil {
			return v, err
		}
	}
	if op == syntax.NEQ { // by default, the opposite of ==
		v, err := i.compare(syntax.EQL, y)
		if v == nil || err != nil {
			return nil, err
		}
		return !v.Truth(), nil
	}
	if d := i.class.data; d != nil {
		return d.compare(op, i, instanceOf(y))
	}
	if x := i.plain(); x != nil {
		y := plainMember(y)
		if _, ok := y.(starlark.Comparable); !ok && x.Type() != y.Type() {
			return nil, nil
		}
		result, err := starlark.Compare(op, x, y)
		return starlark.Bool(result), err
	}
	return nil, nil
}

func (i *instance) tryMethod(name string, y starlark.Value) (starlark.Value, error) {
	fn := i.method(name)
	if fn == nil {
		return nil, nil
	}
	v, err := i.call(fn, y)
	if v == notImplemented {
		return nil, nil
	}
	return v, err
}
