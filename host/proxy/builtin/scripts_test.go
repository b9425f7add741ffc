package builtin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestScriptsThatNameBuiltinTools checks that a script that calls a built-in tool is
// told that only agents can do that.
func TestScriptsThatNameBuiltinTools(t *testing.T) {
	h := newFixture(t)
	for _, name := range names {
		code := fmt.Sprintf("return %s(query=1)", name)
		text, _ := h.fails("eval_starlark", fmt.Sprintf(`{"code":%s}`, wire.Quote(code)))
		if want := fmt.Sprintf("undefined: %s (only agents can call it: ", name); !strings.Contains(text, want) {
			t.Errorf("%s: %s", code, text)
		}
	}
}
