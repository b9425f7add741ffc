// Package textwrap is Python's module textwrap.
//
//	textwrap.go  the module; dedent and indent
//	wrap.go      wrap, fill and shorten
package textwrap

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module textwrap.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "textwrap", Members: stdlib.Funcs(map[string]stdlib.Func{
		"dedent": dedent, "indent": indent, "wrap": wrap, "fill": wrap, "shorten": shorten,
	})}
}

func blank(line string) bool { return strings.Trim(line, " \t") == "" }

func dedent(c *stdlib.Call) (starlark.Value, error) {
	var text string
	if err := c.Unpack("text", &text); err != nil {
		return nil, err
	}
	lines := strings.Split(text, "\n")
	margin, found := "", false
	for i, line := range lines {
		if blank(line) {
			lines[i] = ""
			continue
		}
		own := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if !found {
			margin, found = own, true
			continue
		}
		n := 0
		for n < len(margin) && n < len(own) && margin[n] == own[n] {
			n++
		}
		margin = margin[:n]
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, margin)
	}
	return starlark.String(strings.Join(lines, "\n")), nil
}

func indent(c *stdlib.Call) (starlark.Value, error) {
	var text, prefix string
	var predicate starlark.Value
	if err := c.Unpack("text", &text, "prefix", &prefix, "predicate??", &predicate); err != nil {
		return nil, err
	}
	out := c.Env().NewOutput()
	for rest := text; rest != ""; {
		line := rest
		if n := lineEnd(rest); n > 0 {
			line = rest[:n]
		}
		rest = rest[len(line):]
		with := strings.TrimSpace(line) != ""
		if predicate != nil {
			v, err := c.Call(predicate, starlark.String(line))
			if err != nil {
				return nil, err
			}
			with = bool(v.Truth())
		}
		if with {
			line = prefix + line
		}
		if err := out.WriteString(line); err != nil {
			return nil, err
		}
	}
	return starlark.String(out.String()), nil
}

// lineEnd returns the length of the first line with the line end, 0 for the last line.
func lineEnd(s string) int {
	for i, r := range s {
		switch r {
		case '\r':
			if strings.HasPrefix(s[i:], "\r\n") {
				return i + 2
			}
			return i + 1
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e:
			return i + 1
		case 0x85:
			return i + 2
		case 0x2028, 0x2029:
			return i + 3
		}
	}
	return 0
}
