// Package string is Python's module string.
package string

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

const (
	lower       = "abcdefghijklmnopqrstuvwxyz"
	upper       = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits      = "0123456789"
	punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	whitespace  = " \t\n\r\x0b\x0c"
)

// Module returns the module string.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{"capwords": capWords})
	for name, text := range map[string]string{
		"ascii_lowercase": lower, "ascii_uppercase": upper, "ascii_letters": lower + upper, "digits": digits,
		"hexdigits": digits + "abcdefABCDEF", "octdigits": "01234567", "punctuation": punctuation,
		"whitespace": whitespace, "printable": digits + lower + upper + punctuation + whitespace,
	} {
		members[name] = starlark.String(text)
	}
	members["Template"] = &stdlib.Class{
		Named: "string.Template",
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			c := &stdlib.Call{Thread: thread, Name: "Template", Args: args, Kwargs: kwargs}
			t := &template{}
			err := c.Unpack("template", &t.text)
			return t, err
		},
		Is: func(v starlark.Value) bool { _, ok := v.(*template); return ok },
	}
	return &stdlib.Module{Name: "string", Members: members}
}

func capWords(c *stdlib.Call) (starlark.Value, error) {
	var s string
	var sep starlark.Value
	if err := c.Unpack("s", &s, "sep??", &sep); err != nil {
		return nil, err
	}
	words, join := strings.Fields(s), " "
	if sep != nil {
		var ok bool
		if join, ok = starlark.AsString(sep); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "must be str or None, not %s", stdlib.TypeName(sep))
		}
		if join == "" {
			return nil, stdlib.Errorf(stdlib.ValueError, "empty separator")
		}
		words = strings.Split(s, join)
	}
	for i, w := range words {
		runes := []rune(w)
		if len(runes) > 0 {
			words[i] = strings.ToTitle(string(runes[:1])) + strings.ToLower(string(runes[1:]))
		}
	}
	return starlark.String(strings.Join(words, join)), nil
}

// template is a Template.
type template struct{ text string }

var _ starlark.HasAttrs = (*template)(nil)

func (*template) String() string          { return "<string.Template object>" }
func (*template) Type() string            { return "Template" }
func (*template) Freeze()                 {}
func (*template) Truth() starlark.Bool    { return true }
func (t *template) Hash() (uint32, error) { return starlark.String(t.text).Hash() }
func (*template) AttrNames() []string     { return []string{"safe_substitute", "substitute", "template"} }

func (t *template) Attr(name string) (starlark.Value, error) {
	switch name {
	case "template":
		return starlark.String(t.text), nil
	case "substitute", "safe_substitute":
		return stdlib.NewFunc(name, t.substitute), nil
	}
	return nil, nil
}

func (t *template) substitute(c *stdlib.Call) (starlark.Value, error) {
	if len(c.Args) > 1 {
		return nil, c.Errorf(stdlib.TypeError, "takes one mapping and keywords")
	}
	lookup := func(name string) (starlark.Value, error) {
		for _, kv := range c.Kwargs {
			if kv[0] == starlark.String(name) {
				return kv[1], nil
			}
		}
		if len(c.Args) == 1 {
			m, ok := c.Args[0].(starlark.Mapping)
			if !ok {
				return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object is not a mapping", stdlib.TypeName(c.Args[0]))
			}
			if like, ok := m.(stdlib.DictLike); ok {
				m = like.Underlying()
			}
			if v, found, err := m.Get(starlark.String(name)); found || err != nil {
				return v, err
			}
		}
		return nil, nil
	}
	out := c.Env().NewOutput()
	for rest := t.text; rest != ""; {
		at := strings.IndexByte(rest, '$')
		if at < 0 {
			return starlark.String(out.String() + rest), nil
		}
		text, name, length := placeholder(rest[at:])
		if name != "" {
			v, err := lookup(name)
			switch {
			case err != nil:
				return nil, err
			case v != nil:
				text = c.Env().Str(v)
			case c.Name == "substitute":
				return nil, stdlib.Errorf(stdlib.KeyError, "%s", c.Env().Repr(starlark.String(name)))
			}
		} else if length == 1 && c.Name == "substitute" {
			line := strings.Count(t.text[:len(t.text)-len(rest)+at], "\n") + 1
			return nil, stdlib.Errorf(stdlib.ValueError, "Invalid placeholder in string: line %d", line)
		}
		if err := out.WriteString(rest[:at] + text); err != nil {
			return nil, err
		}
		rest = rest[at+length:]
	}
	return starlark.String(out.String()), nil
}

// placeholder reads $name, ${name} or $$ at the start of a text. text is the result without a
// value, length 1 means no placeholder.
func placeholder(s string) (text, name string, length int) {
	if strings.HasPrefix(s, "$$") {
		return "$", "", 2
	}
	from := 1
	if strings.HasPrefix(s, "${") {
		from = 2
	}
	to := from
	for to < len(s) && (s[to] == '_' || 'a' <= s[to]|0x20 && s[to]|0x20 <= 'z' || to > from && '0' <= s[to] && s[to] <= '9') {
		to++
	}
	if to == from || from == 2 && (to == len(s) || s[to] != '}') {
		return "$", "", 1
	}
	return s[:to+from-1], s[from:to], to + from - 1
}
