package catalog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestInputSchema(t *testing.T) {
	c := New([]Source{{Server: "a-b", Prefix: "p__", Exposes: func(string) bool { return false }, Hides: func(string) bool { return false }}}, slog.New(slog.DiscardHandler), func(*Scope, wire.Surface, []byte) {})
	c.SetUpstream("a-b", wire.Tools, [][]byte{[]byte(`{"name":"x-y","inputSchema":{"n":1.0}}`), []byte(`{"name":"none"}`)}, nil)
	for _, tt := range []struct{ server, tool, want string }{
		{"a-b", "x-y", `{"n":1.0}`}, {"a-b", "none", ""}, {"a-b", "x_y", ""}, {"a_b", "x-y", ""}, {"other", "x-y", ""},
	} {
		if got := string(c.InputSchema(tt.server, tt.tool)); got != tt.want {
			t.Errorf("%s.%s: %q, want %q", tt.server, tt.tool, got, tt.want)
		}
	}
}

// TestHiddenNamesInErrors checks that errors name no hidden tool, and say of a hidden name
// the same whether there is such a tool or not.
func TestHiddenNamesInErrors(t *testing.T) {
	hides := func(tool string) bool { return strings.HasPrefix(tool, "x") || tool == "a.b" }
	c := New([]Source{{Server: "s", Exposes: hides, Hides: hides}}, slog.New(slog.DiscardHandler), func(*Scope, wire.Surface, []byte) {})
	var items [][]byte
	for _, name := range []string{"a-b", "a_b", "a.b", "xa", "x-b", "x_b"} {
		items = append(items, []byte(`{"name":"`+name+`","inputSchema":{"type":"object"}}`))
	}
	c.SetUpstream("s", wire.Tools, items, nil)
	for name, want := range map[string]string{
		"xa": "the configuration hides it", "xb": "the configuration hides it", "x_b": "the configuration hides it",
		"a_b": `s["a-b"] or s["a_b"]`, "a": `server "s" has no tool "a"`,
	} {
		_, _, err := c.Resolve("s", name, false)
		if err == nil || !strings.Contains(err.Error(), want) || !hides(name) && (strings.Contains(err.Error(), "x") || strings.Contains(err.Error(), "a.b")) {
			t.Errorf("%s: %v", name, err)
		}
		if hides(name) != c.Hides("s", name) || c.Hides("other", name) {
			t.Errorf("%s is hidden: %t", name, c.Hides("s", name))
		}
	}
}

// TestInputSchemaIsFoundOnce checks that a definition, which may have megabytes, is not searched
// for its inputSchema at each call.
func TestInputSchemaIsFoundOnce(t *testing.T) {
	c := listed(wire.Tools, [][]byte{[]byte(`{"name":"a","inputSchema":{"type":"object"}}`)}, nil)
	definition := c.Definition("s", "a")
	copy(definition, bytes.ReplaceAll(definition, []byte("inputSchema"), []byte("nothingelse")))
	if got := string(c.InputSchema("s", "a")); got != `{"type":"object"}` {
		t.Errorf("%q", got)
	}
	if c.InputSchema("s", "b") != nil || c.InputSchema("other", "a") != nil {
		t.Error("a schema of a tool that there is not")
	}
}
