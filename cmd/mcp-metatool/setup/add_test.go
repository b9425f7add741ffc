package setup

import (
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestServerName(t *testing.T) {
	for full, want := range map[string]string{
		"io.github.a/weather": "weather", "a/mcp-server-git": "git", "a/brave-search-mcp": "brave-search", "a/mcp": "mcp",
		"a/x.y z": "x-y-z", "a/" + strings.Repeat("x", 40): strings.Repeat("x", 32),
	} {
		if got := serverName(full); got != want {
			t.Errorf("%s is called %q, want %q", full, got, want)
		}
	}
}

func TestReplaceVariable(t *testing.T) {
	if got := replaceVariable("a${X}$${X}${X}", "${X}", "${keyring:X}"); got != "a${keyring:X}$${X}${keyring:X}" {
		t.Error(got)
	}
}
