package change

import (
	"bytes"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Diff returns a unified diff of two texts for people, "" if they are equal. Characters invisible
// in a terminal are escaped.
func Diff(beforeName string, before []byte, afterName string, after []byte) string {
	text := diff.Diff(beforeName, before, afterName, after)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the command line of a diff
	return display.Escape(string(text))
}
