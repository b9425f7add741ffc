package stdlibtest

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Repr returns a value in the form of Python's repr.
func Repr(v starlark.Value) string { return reprAt(v, 0) }

func reprAt(v starlark.Value, depth int) string {
	if depth > 50 {
		return "..."
	}
	inner := func(x starlark.Value) string { return reprAt(x, depth+1) }
	switch v := v.(type) {
	case starlark.String:
		return stdlib.Quote(string(v))
	case starlark.Bytes:
		return stdlib.QuoteBytes(string(v))
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
