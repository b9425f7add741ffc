package interp

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// A dataclass has the fields found by @dataclass in a class.
type dataclass struct {
	fields        []dataField
	frozen, order bool
	noEq          bool
}

type dataField struct {
	name      string
	value     starlark.Value // the default, nil without a default
	factory   starlark.Value // makes the default, nil without a factory
	hidden    bool           // from __init__
	noRepr    bool
	kwOnly    bool
	noCompare bool
}

// fieldValue is the result of field(...).
type fieldValue struct {
	operandOnly
	field dataField
}

// fieldBuiltin implements dataclasses.field.
func fieldBuiltin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	f := &fieldValue{}
	show, init, compare := true, true, true
	var ignored starlark.Value
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "default?", &f.field.value, "default_factory?", &f.field.factory,
		"init?", &init, "repr?", &show, "compare?", &compare, "kw_only?", &f.field.kwOnly, "hash?", &ignored, "metadata?", &ignored)
	f.field.hidden, f.field.noRepr, f.field.noCompare = !init, !show, !compare
	return f, err
}

// dataclassBuiltin implements @dataclass, with arguments or without.
func dataclassBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var c *class
	d := &dataclass{}
	eq := true
	var ignored starlark.Value
	kwOnly := false
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "cls??", &c, "frozen?", &d.frozen, "order?", &d.order, "eq?", &eq, "kw_only?", &kwOnly,
		"init?", &ignored, "repr?", &ignored, "slots?", &ignored, "unsafe_hash?", &ignored)
	if err != nil {
		return nil, err
	}
	d.noEq = !eq
	if c != nil {
		return c, d.complete(c, kwOnly)
	}
	return starlark.NewBuiltin(b.Name(), func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var c *class
		if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &c); err != nil {
			return nil, err
		}
		return c, d.complete(c, kwOnly)
	}), nil
}

// complete finds the fields of a class, the fields of bases first.
func (d *dataclass) complete(c *class, kwOnly bool) error {
	for _, base := range c.bases {
		if base.data != nil {
			d.fields = append(d.fields, base.data.fields...)
		}
	}
	names, _ := c.members[parse.Annotations].(*starlark.List)
	if names != nil {
		for _, name := range listElems(names) {
			d.add(c, string(name.(starlark.String)), kwOnly)
		}
	}
	optional := ""
	for _, f := range d.fields {
		switch {
		case f.hidden || f.kwOnly:
		case f.value != nil || f.factory != nil:
			optional = f.name
		case optional != "":
			return stdlib.Errorf(stdlib.TypeError, "dataclass %s: non-default argument %s follows default argument %s", c.name, f.name, optional)
		}
	}
	c.data = d
	return nil
}

// add adds a field, or replaces the field of a base.
func (d *dataclass) add(c *class, name string, kwOnly bool) {
	f := dataField{value: c.members[name]}
	if given, ok := f.value.(*fieldValue); ok {
		f = given.field
		if f.value != nil {
			c.members[name] = f.value
		} else {
			delete(c.members, name)
		}
	}
	f.name, f.kwOnly = name, f.kwOnly || kwOnly
	for i := range d.fields {
		if d.fields[i].name == name {
			d.fields[i] = f
			return
		}
	}
	d.fields = append(d.fields, f)
}

// init sets the fields of a new value.
func (d *dataclass) init(thread *starlark.Thread, self starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	i := instanceOf(self)
	given := make(starlark.StringDict, len(d.fields))
	n := 0
	for _, f := range d.fields {
		if n < len(args) && !f.hidden && !f.kwOnly {
			given[f.name] = args[n]
			n++
		}
	}
	if n < len(args) {
		return stdlib.Errorf(stdlib.TypeError, "%s takes %d positional arguments, and %d were given", i.class.name, n, len(args))
	}
	for _, kv := range kwargs {
		name := string(kv[0].(starlark.String))
		if _, twice := given[name]; twice {
			return stdlib.Errorf(stdlib.TypeError, "%s got multiple values for argument %q", i.class.name, name)
		}
		if !d.takes(name) {
			return stdlib.Errorf(stdlib.TypeError, "%s got an unexpected keyword argument %q%s", i.class.name, name, suggest(name, d.names(), d.names()))
		}
		given[name] = kv[1]
	}
	for _, f := range d.fields {
		v := given[f.name]
		switch {
		case v != nil:
		case f.factory != nil:
			made, err := starlark.Call(thread, f.factory, nil, nil)
			if err != nil {
				return err
			}
			v = made
		case f.value != nil:
			v = f.value
		case f.hidden:
			continue
		default:
			return stdlib.Errorf(stdlib.TypeError, "%s is missing the argument %s", i.class.name, f.name)
		}
		i.put(f.name, v)
	}
	if fn := i.class.find("__post_init__"); fn != nil {
		if _, err := starlark.Call(thread, fn, starlark.Tuple{self}, nil); err != nil {
			return err
		}
	}
	i.frozen = d.frozen
	return nil
}

func (d *dataclass) takes(name string) bool {
	for _, f := range d.fields {
		if f.name == name && !f.hidden {
			return true
		}
	}
	return false
}

func (d *dataclass) names() (out []string) {
	for _, f := range d.fields {
		out = append(out, f.name)
	}
	return out
}

// values returns the fields for comparisons.
func (d *dataclass) values(i *instance) starlark.Tuple {
	var out starlark.Tuple
	for _, f := range d.fields {
		if v := i.attrs[f.name]; v != nil && !f.noCompare {
			out = append(out, v)
		}
	}
	return out
}

func (d *dataclass) text(i *instance) string {
	var parts []string
	for _, f := range d.fields {
		if v := i.attrs[f.name]; v != nil && !f.noRepr {
			parts = append(parts, f.name+"="+i.nested(v))
		}
	}
	return i.class.name + "(" + strings.Join(parts, ", ") + ")"
}

// nested returns the text of a field; a cyclic value is cut.
func (i *instance) nested(v starlark.Value) string {
	r := i.class.run
	if r.texts++; r.texts > maxTexts {
		return "..."
	}
	defer func() { r.texts-- }()
	return repr(v)
}

// maxTexts is how deep values of classes may be nested in a text.
const maxTexts = 100

// compare is the comparison of two values of the same dataclass; nil without a comparison.
func (d *dataclass) compare(op syntax.Token, i, j *instance) (starlark.Value, error) {
	if j == nil || i.class != j.class || d.noEq {
		return nil, nil
	}
	if op != syntax.EQL && op != syntax.NEQ && !d.order {
		return nil, nil
	}
	r := i.class.run
	if r.texts++; r.texts > maxTexts {
		r.texts = 0
		return nil, stdlib.Errorf("RecursionError", "values of %s are nested too deep to be compared", i.class.name)
	}
	result, err := starlark.Compare(op, d.values(i), d.values(j))
	r.texts = max(r.texts-1, 0)
	return starlark.Bool(result), err
}

// asDict is dataclasses.asdict: a dict of the fields, and so on inside.
func asDict(v starlark.Value, depth int) (starlark.Value, error) {
	if depth > maxTexts {
		return nil, stdlib.Errorf("RecursionError", "asdict: the value is nested deeper than %d", maxTexts)
	}
	switch x := v.(type) {
	case *instance, *iterable:
		i := instanceOf(x)
		if i.class.data == nil {
			return v, nil
		}
		out := newObject(len(i.class.data.fields))
		for _, f := range i.class.data.fields {
			inner, err := asDict(i.attrs[f.name], depth+1)
			if err != nil {
				return nil, err
			}
			_ = out.Dict.SetKey(starlark.String(f.name), inner)
		}
		return out, nil
	case *starlark.List:
		var out []starlark.Value
		for _, e := range listElems(x) {
			inner, err := asDict(e, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, inner)
		}
		return starlark.NewList(out), nil
	case Object:
		out := newObject(x.Len())
		for _, item := range x.Items() {
			inner, err := asDict(item[1], depth+1)
			if err != nil {
				return nil, err
			}
			_ = out.Dict.SetKey(item[0], inner)
		}
		return out, nil
	}
	return v, nil
}

// dataFunction is asdict, astuple, fields, is_dataclass or replace.
func dataFunction(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) != 1 {
		return nil, stdlib.Errorf(stdlib.TypeError, "%s takes a value of a dataclass", b.Name())
	}
	i := instanceOf(args[0])
	c, isClass := args[0].(*class)
	if i != nil {
		c = i.class
	}
	known := c != nil && c.data != nil
	switch {
	case b.Name() == "is_dataclass":
		return starlark.Bool(known), nil
	case !known || isClass && b.Name() != "fields":
		return nil, stdlib.Errorf(stdlib.TypeError, "%s takes a value of a dataclass, got %s", b.Name(), text(args[0]))
	}
	switch b.Name() {
	case "asdict":
		return asDict(args[0], 0)
	case "astuple":
		return c.data.values(i), nil
	case "fields":
		var out starlark.Tuple
		for _, f := range c.data.fields {
			o := newObject(1)
			_ = o.Dict.SetKey(starlark.String("name"), starlark.String(f.name))
			out = append(out, o)
		}
		return out, nil
	}
	for _, f := range c.data.fields { // replace
		v, given := i.attrs[f.name], false
		for _, kv := range kwargs {
			given = given || kv[0] == starlark.String(f.name)
		}
		if !given && !f.hidden && v != nil {
			kwargs = append(kwargs, starlark.Tuple{starlark.String(f.name), v})
		}
	}
	return starlark.Call(thread, c, nil, kwargs)
}

// An enum has the members of an enumeration.
type enum struct {
	list []*instance
	kind string // Enum, IntEnum or StrEnum
}

// The base classes of enumerations.
var (
	enumClass    = &class{name: "Enum", enum: &enum{kind: "Enum"}}
	intEnumClass = &class{name: "IntEnum", enum: &enum{kind: "IntEnum"}}
	strEnumClass = &class{name: "StrEnum", enum: &enum{kind: "StrEnum"}}
)

func init() {
	for _, c := range []*class{enumClass, intEnumClass, strEnumClass} {
		c.order = []*class{c, objectClass}
	}
}

// autoValue is auto().
type autoValue struct{ operandOnly }

func isEnum(c *class) bool {
	for _, base := range c.order[1:] {
		if base.enum != nil {
			return true
		}
	}
	return false
}

// makeEnum turns the members of a class into values of the class.
func makeEnum(c *class) error {
	c.enum = &enum{kind: "Enum"}
	for _, base := range c.order[1:] {
		if base.enum != nil {
			c.enum.kind = base.enum.kind
			break
		}
	}
	last := 0
	for _, name := range c.names {
		v := c.members[name]
		switch v.(type) {
		case starlark.Callable, *property, *classMethod:
			continue
		}
		if strings.HasPrefix(name, "_") || name == parse.Annotations {
			continue
		}
		if _, auto := v.(autoValue); auto {
			v = starlark.MakeInt(last + 1)
			if c.enum.kind == "StrEnum" {
				v = starlark.String(strings.ToLower(name))
			}
		}
		if n, ok := v.(starlark.Int); ok {
			last = clamped(n)
		}
		found, err := c.enum.byValue(v)
		if err != nil {
			return err
		}
		if found == nil {
			found = instanceOf(newInstance(c))
			found.put("name", starlark.String(name))
			found.put("value", v)
			found.frozen = true
			c.enum.list = append(c.enum.list, found)
		}
		c.members[name] = found.self
	}
	c.make = func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var v starlark.Value
		if err := starlark.UnpackPositionalArgs(c.name, args, kwargs, 1, &v); err != nil {
			return nil, err
		}
		if i := instanceOf(v); i != nil && i.class == c {
			return v, nil
		}
		found, err := c.enum.byValue(v)
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, stdlib.Errorf(stdlib.ValueError, "%s is not a valid %s", repr(v), c.name)
		}
		return found.self, nil
	}
	return nil
}

func (e *enum) byValue(v starlark.Value) (*instance, error) {
	for _, i := range e.list {
		same, err := starlark.Equal(i.attrs["value"], v)
		if err != nil {
			return nil, err
		}
		if same {
			return i, nil
		}
	}
	return nil, nil
}

// plain returns the number or text of a member of an IntEnum or StrEnum, nil for other values.
func (i *instance) plain() starlark.Value {
	if e := i.class.enum; e != nil && e.kind != enumClass.name {
		return i.attrs["value"]
	}
	return nil
}

// plainMember returns the number or text of a member of an IntEnum or StrEnum, and other values
// unchanged.
func plainMember(v starlark.Value) starlark.Value {
	if i := instanceOf(v); i != nil {
		if x := i.plain(); x != nil {
			return x
		}
	}
	return v
}

// Iterate goes over the members of an enumeration. Other classes have no iterator.
func (c *class) Iterate() starlark.Iterator {
	if c.enum == nil {
		return &memberIterator{err: stdlib.Errorf(stdlib.TypeError, "'type' object is not iterable")}
	}
	return &memberIterator{left: c.enum.list}
}

type memberIterator struct {
	left []*instance
	err  error
}

func (m *memberIterator) Next(p *starlark.Value) bool {
	if len(m.left) == 0 {
		return false
	}
	*p, m.left = m.left[0].self, m.left[1:]
	return true
}

func (*memberIterator) Done()        {}
func (m *memberIterator) Err() error { return m.err }

func (e *enum) members() starlark.Value {
	out := newObject(len(e.list))
	for _, i := range e.list {
		_ = out.Dict.SetKey(i.attrs["name"], i.self)
	}
	return out
}

func (e *enum) text(i *instance) string {
	if e.kind != "Enum" {
		return text(i.attrs["value"])
	}
	return fmt.Sprintf("%s.%s", i.class.name, text(i.attrs["name"]))
}

func (e *enum) repr(i *instance) string {
	return fmt.Sprintf("<%s.%s: %s>", i.class.name, text(i.attrs["name"]), repr(i.attrs["value"]))
}
