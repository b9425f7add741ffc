package serve

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/ui"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestPageLinks checks that what a browser is started with has no token.
func TestPageLinks(t *testing.T) {
	links := &pageLinks{"http://127.0.0.1:1/ui/", ui.NewAccess()}
	first, second := links.once(), links.once()
	if first == second || !strings.HasPrefix(first, "http://127.0.0.1:1/ui/#code=") || strings.Contains(first, links.access.Token()) {
		t.Errorf("%s, %s", first, second)
	}
	if links.lasting() != "http://127.0.0.1:1/ui/#token="+links.access.Token() {
		t.Error(links.lasting())
	}
}
