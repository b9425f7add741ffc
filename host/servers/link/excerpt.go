package link

import "github.com/mcp-metatool/mcp-metatool/tools/display"

// Excerpt prepares text of a server for errors and logs: a line of at most 200 characters, without
// control characters.
func Excerpt(text string) string { return display.Line(text, 200) }
