package compose

import (
	"os"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestFlowDocs checks the script and the denial in docs/flow.md.
func TestFlowDocs(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/flow.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(mark string) string {
		_, rest, _ := strings.Cut(string(raw), "<!-- "+mark+" -->\n```")
		_, rest, _ = strings.Cut(rest, "\n")
		text, _, _ := strings.Cut(rest, "\n```")
		return text
	}
	run := newFlowRig(t).run(t, block("script"))
	run.denied()
	shown := get(t, run.reply, "structuredContent", "error")
	id, _ := wire.GetString([]byte(shown), "details", "run")
	if got := strings.ReplaceAll(shown, id, "RUN"); got != block("denial") {
		t.Errorf("docs/flow.md has\n%s\nand it is\n%s", block("denial"), got)
	}
}
