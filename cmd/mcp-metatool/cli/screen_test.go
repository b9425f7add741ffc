package cli

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestWaitText checks that the line is narrower than the terminal, whatever is waited for.
func TestWaitText(t *testing.T) {
	for _, tt := range []struct {
		what    string
		columns int
		want    string
	}{
		{"reading", 80, "| reading 12s"}, {"reading", 0, "| reading 12s"}, {"reading the journal", 18, "| reading th… 12s"},
		{"reading the journal", 12, "|  12s"}, {"x", 4, "| …"}, {"x", 1, ""}, {strings.Repeat("語", 40), 20, "| 語語語語語語… 12s"},
	} {
		got := waitText(0, tt.what, " 12s", tt.columns)
		if got != tt.want || tt.columns > 0 && display.Width(got) >= tt.columns {
			t.Errorf("%q at %d columns: %q, want %q", tt.what, tt.columns, got, tt.want)
		}
	}
}
