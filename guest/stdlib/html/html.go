// Package html is Python's module html.
package html

import (
	"html"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module html.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "html", Members: stdlib.Funcs(map[string]stdlib.Func{"escape": escape, "unescape": unescape})}
}

func escape(c *stdlib.Call) (starlark.Value, error) {
	var s string
	quote := true
	if err := c.Unpack("s", &s, "quote?", &quote); err != nil {
		return nil, err
	}
	pairs := []string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}
	if quote {
		pairs = append(pairs, `"`, "&quot;", "'", "&#x27;")
	}
	return starlark.String(strings.NewReplacer(pairs...).Replace(s)), nil
}

func unescape(c *stdlib.Call) (starlark.Value, error) {
	var s string
	err := c.Unpack("s", &s)
	return starlark.String(html.UnescapeString(s)), err
}
