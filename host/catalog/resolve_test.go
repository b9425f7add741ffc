package catalog

import (
	"log/slog"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
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
