package interp

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
