package re

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// patternValue is a compiled pattern in scripts.
type patternValue struct{ *Pattern }

var _ starlark.HasAttrs = patternValue{}

// flagNames are the flags in the text of a pattern, in Python's order.
var flagNames = []struct {
	flag Flags
	name string
}{
	{IgnoreCase, "re.IGNORECASE"}, {MultiLine, "re.MULTILINE"}, {DotAll, "re.DOTALL"},
	{Verbose, "re.VERBOSE"}, {Debug, "re.DEBUG"}, {ASCII, "re.ASCII"},
}

func (p patternValue) String() string { return p.Repr(stdlib.PlainRepr) }

// Repr is the text of the pattern.
func (p patternValue) Repr(repr func(starlark.Value) string) string {
	var flags []string
	for _, f := range flagNames {
		if p.Flags&f.flag != 0 {
			flags = append(flags, f.name)
		}
	}
	text := repr(starlark.String(p.Text))
	if len(flags) > 0 {
		text += ", " + strings.Join(flags, "|")
	}
	return "re.compile(" + text + ")"
}

func (patternValue) Type() string            { return "re.Pattern" }
func (patternValue) Freeze()                 {}
func (patternValue) Truth() starlark.Bool    { return true }
func (p patternValue) Hash() (uint32, error) { return starlark.String(p.Text).Hash() }

func (patternValue) AttrNames() []string {
	return []string{"findall", "finditer", "flags", "fullmatch", "groupindex", "groups", "match", "pattern", "search", "split", "sub", "subn"}
}

func (p patternValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "pattern":
		return starlark.String(p.Text), nil
	case "flags":
		return starlark.MakeInt(int(p.Flags)), nil
	case "groups":
		return starlark.MakeInt(p.Groups), nil
	case "groupindex":
		d := starlark.NewDict(len(p.Index))
		for _, name := range p.GroupNames() {
			if err := d.SetKey(starlark.String(name), starlark.MakeInt(p.Index[name])); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	if m := stdlib.Method(p, name, patternMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

// matchValue is a match in scripts. Offsets are in bytes here, and in code points for
// scripts.
type matchValue struct {
	*Match
	p           *Pattern
	text        string
	start       int // of the match, in code points; -1 if not counted yet
	pos, endpos int
}

var (
	_ starlark.HasAttrs = (*matchValue)(nil)
	_ starlark.Mapping  = (*matchValue)(nil)
)

func (m *matchValue) String() string { return m.Repr(stdlib.PlainRepr) }

// Repr is the text of the match.
func (m *matchValue) Repr(repr func(starlark.Value) string) string {
	from, to := m.span(0)
	return fmt.Sprintf("<re.Match object; span=(%d, %d), match=%s>", from, to, repr(m.group(0, starlark.None)))
}

func (*matchValue) Type() string            { return "re.Match" }
func (*matchValue) Freeze()                 {}
func (*matchValue) Truth() starlark.Bool    { return true }
func (m *matchValue) Hash() (uint32, error) { return starlark.String(m.text).Hash() }

func (*matchValue) AttrNames() []string {
	return []string{"end", "endpos", "expand", "group", "groupdict", "groups", "lastgroup", "lastindex", "pos", "re", "regs", "span", "start", "string"}
}

func (m *matchValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "string":
		return starlark.String(m.text), nil
	case "re":
		return patternValue{m.p}, nil
	case "pos":
		return starlark.MakeInt(m.pos), nil
	case "endpos":
		return starlark.MakeInt(m.endpos), nil
	case "lastindex":
		if m.LastIndex == 0 {
			return starlark.None, nil
		}
		return starlark.MakeInt(m.LastIndex), nil
	case "lastgroup":
		if m.p.Names[m.LastIndex] == "" {
			return starlark.None, nil
		}
		return starlark.String(m.p.Names[m.LastIndex]), nil
	case "regs":
		spans := make(starlark.Tuple, m.p.Groups+1)
		for i := range spans {
			spans[i] = m.spanValue(i)
		}
		return spans, nil
	}
	if method := stdlib.Method(m, name, matchMethods); method != nil {
		return method, nil
	}
	return nil, nil
}

// Get is m[group].
func (m *matchValue) Get(k starlark.Value) (starlark.Value, bool, error) {
	i, err := m.number(k)
	if err != nil {
		return nil, false, err
	}
	return m.group(i, starlark.None), true, nil
}

// number returns the number of a group given by number or name.
func (m *matchValue) number(k starlark.Value) (int, error) {
	if name, ok := starlark.AsString(k); ok {
		if n, ok := m.p.Index[name]; ok {
			return n, nil
		}
	} else if n, ok := stdlib.Integer(k); ok {
		if i, ok := n.Int64(); ok && 0 <= i && i <= int64(m.p.Groups) {
			return int(i), nil
		}
	}
	return 0, stdlib.Errorf(stdlib.IndexError, "no such group")
}

// group returns the text of a group, or a default without a match.
func (m *matchValue) group(i int, otherwise starlark.Value) starlark.Value {
	if m.Spans[2*i] < 0 {
		return otherwise
	}
	return starlark.String(m.text[m.Spans[2*i]:m.Spans[2*i+1]])
}

// span returns the offsets of a group in code points.
func (m *matchValue) span(i int) (from, to int) {
	if m.Spans[2*i] < 0 {
		return -1, -1
	}
	if m.start < 0 {
		m.start = utf8.RuneCountInString(m.text[:m.Spans[0]])
	}
	return m.position(m.Spans[2*i]), m.position(m.Spans[2*i+1])
}

// position returns an offset in code points. With lookaround, the position can be before the match.
func (m *matchValue) position(offset int) int {
	if offset < m.Spans[0] {
		return m.start - utf8.RuneCountInString(m.text[offset:m.Spans[0]])
	}
	return m.start + utf8.RuneCountInString(m.text[m.Spans[0]:offset])
}

func (m *matchValue) spanValue(i int) starlark.Value {
	from, to := m.span(i)
	return starlark.Tuple{starlark.MakeInt(from), starlark.MakeInt(to)}
}

var matchMethods = map[string]stdlib.Func{
	"group": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		if len(c.Kwargs) > 0 {
			return nil, c.Errorf(stdlib.TypeError, "takes no keyword arguments")
		}
		out := make(starlark.Tuple, 0, len(c.Args))
		for _, k := range c.Args {
			i, err := m.number(k)
			if err != nil {
				return nil, err
			}
			out = append(out, m.group(i, starlark.None))
		}
		switch len(out) {
		case 0:
			return m.group(0, starlark.None), nil
		case 1:
			return out[0], nil
		}
		return out, nil
	},
	"groups": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		var otherwise starlark.Value = starlark.None
		if err := c.Unpack("default?", &otherwise); err != nil {
			return nil, err
		}
		return m.groups(otherwise), nil
	},
	"groupdict": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		var otherwise starlark.Value = starlark.None
		if err := c.Unpack("default?", &otherwise); err != nil {
			return nil, err
		}
		d := c.Env().NewDict(len(m.p.Index))
		for _, name := range m.p.GroupNames() {
			if err := d.SetKey(starlark.String(name), m.group(m.p.Index[name], otherwise)); err != nil {
				return nil, err
			}
		}
		return d, nil
	},
	"start": func(c *stdlib.Call) (starlark.Value, error) {
		return place(c, func(from, to int) starlark.Value { return starlark.MakeInt(from) })
	},
	"end": func(c *stdlib.Call) (starlark.Value, error) {
		return place(c, func(from, to int) starlark.Value { return starlark.MakeInt(to) })
	},
	"span": func(c *stdlib.Call) (starlark.Value, error) {
		return place(c, func(from, to int) starlark.Value {
			return starlark.Tuple{starlark.MakeInt(from), starlark.MakeInt(to)}
		})
	},
	"expand": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(*matchValue)
		var text string
		if err := c.Unpack("template", &text); err != nil {
			return nil, err
		}
		t, err := m.p.Template(text)
		if err != nil {
			return nil, scriptError(err)
		}
		var out strings.Builder
		t.Expand(&out, m.text, m.Match)
		return starlark.String(out.String()), nil
	},
}

func (m *matchValue) groups(otherwise starlark.Value) starlark.Tuple {
	out := make(starlark.Tuple, m.p.Groups)
	for i := range out {
		out[i] = m.group(i+1, otherwise)
	}
	return out
}

// place is start, end or span of a group.
func place(c *stdlib.Call, of func(from, to int) starlark.Value) (starlark.Value, error) {
	var group starlark.Value = starlark.MakeInt(0)
	if err := c.Unpack("group?", &group, "/", nil); err != nil {
		return nil, err
	}
	m := c.Receiver.(*matchValue)
	i, err := m.number(group)
	if err != nil {
		return nil, err
	}
	return of(m.span(i)), nil
}
