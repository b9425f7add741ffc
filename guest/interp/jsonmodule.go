package interp

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/json"
	"go.starlark.net/starlark"
)

// jsonModule has the functions of Python's json module and of Starlark's. Unlike the library's,
// encode keeps the order of dicts instead of sorting their keys.
var jsonModule = &module{
	name: "json",
	members: withOwn(json.Module(), starlark.StringDict{
		"decode":        starlark.NewBuiltin("json.decode", jsonDecode),
		"encode":        starlark.NewBuiltin("json.encode", jsonEncode),
		"encode_indent": starlark.NewBuiltin("json.encode_indent", jsonEncodeIndent),
		"indent":        starlark.NewBuiltin("json.indent", jsonIndent),
	}),
	instead: map[string]string{"parse": "json.loads(text)", "stringify": "json.dumps(value)"},
}

func jsonDecode(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	var fallback starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &text, "default?", &fallback); err != nil {
		return nil, err
	}
	v, err := decodeJSONString(text)
	if err != nil {
		if fallback != nil {
			return fallback, nil
		}
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return v, nil
}

func jsonEncode(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(kwargs) > 0 || len(args) == 2 {
		return nil, fmt.Errorf("%s takes one value and nothing else (for indented text write json.encode_indent(value, indent=\"  \"))", b.Name())
	}
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 1, &v); err != nil {
		return nil, err
	}
	text, err := encodeJSON("value", v)
	if err != nil {
		return nil, runOf(thread).encodeFailed(b.Name(), err)
	}
	return starlark.String(text), nil
}

func jsonEncodeIndent(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := jsonEncode(thread, b, args, nil)
	if err != nil {
		return nil, err
	}
	prefix, unit, err := indentArgs(b, kwargs)
	if err != nil {
		return nil, err
	}
	return starlark.String(indent(string(v.(starlark.String)), prefix, unit)), nil
}

func jsonIndent(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	prefix, unit, err := indentArgs(b, kwargs)
	if err != nil {
		return nil, err
	}
	var text string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 1, &text); err != nil {
		return nil, err
	}
	if _, err := decodeJSONString(text); err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return starlark.String(indent(text, prefix, unit)), nil
}

func indentArgs(b *starlark.Builtin, kwargs []starlark.Tuple) (prefix, unit string, err error) {
	unit = "\t"
	err = starlark.UnpackArgs(b.Name(), nil, kwargs, "prefix?", &prefix, "indent?", &unit)
	return prefix, unit, err
}

// indent lays out valid JSON over several lines; tokens are unchanged.
func indent(text, prefix, unit string) string {
	var b strings.Builder
	depth := 0
	newline := func() {
		b.WriteString("\n" + prefix)
		for range depth {
			b.WriteString(unit)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\n', '\r':
		case '{', '[':
			b.WriteByte(c)
			rest := strings.TrimLeft(text[i+1:], " \t\r\n")
			if rest[0] == '}' || rest[0] == ']' { // an empty container stays on the line
				b.WriteByte(rest[0])
				i = len(text) - len(rest)
				continue
			}
			depth++
			newline()
		case '}', ']':
			depth--
			newline()
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			newline()
		case ':':
			b.WriteString(": ")
		case '"':
			end := i + 1
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			b.WriteString(text[i : end+1])
			i = end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
