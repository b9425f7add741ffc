package stdlibtest

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Repr returns a value as Python's repr has it.
func Repr(v starlark.Value) string { return reprAt(v, 0) }

func reprAt(v starlark.Value, depth int) string {
	if depth > 50 {
		return "..."
	}
	inner := func(x starlark.Value) string { return reprAt(x, depth+1) }
	switch v := v.(type) {
	case starlark.String:
		return quote(string(v))
	case starlark.Bytes:
		return quoteBytes(string(v))
	case starlark.Float:
		return stdlib.FloatText(float64(v))
	case *starlark.List:
		return "[" + stdlib.JoinRepr(elements(v), inner) + "]"
	case starlark.Tuple:
		if len(v) == 1 {
			return "(" + inner(v[0]) + ",)"
		}
		return "(" + stdlib.JoinRepr(v, inner) + ")"
	case *starlark.Set:
		if v.Len() == 0 {
			return "set()"
		}
		return "{" + stdlib.JoinRepr(elements(v), inner) + "}"
	case stdlib.Representer:
		return v.Repr(inner)
	case starlark.IterableMapping:
		var parts []string
		for _, kv := range v.Items() {
			parts = append(parts, inner(kv[0])+": "+inner(kv[1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return v.String()
}

func elements(v starlark.Iterable) []starlark.Value {
	var out []starlark.Value
	for x := range starlark.Elements(v) {
		out = append(out, x)
	}
	return out
}

func quote(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteByte(mark)
	for _, r := range s {
		switch {
		case r == rune(mark) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r >= 0x80 && r <= 0xff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r >= utf8.RuneSelf && !unicode.IsPrint(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r >= utf8.RuneSelf && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte(mark)
	return b.String()
}

func quoteBytes(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteByte('b')
	b.WriteByte(mark)
	for i := range len(s) {
		switch c := s[i]; {
		case c == mark || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte(mark)
	return b.String()
}
