package main

import (
	"io"
	"os"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// screens returns what the verbs write to. Output may contain text from others, so it is
// made displayable for a terminal. Files and pipes get the bytes unchanged. flush must be
// called at the end.
func screens(files ...*os.File) (out []io.Writer, flush func()) {
	var guards []*display.Writer
	for _, f := range files {
		if !isTerminal(f) {
			out = append(out, f)
			continue
		}
		guard := display.NewWriter(f)
		out, guards = append(out, guard), append(guards, guard)
	}
	return out, func() {
		for _, g := range guards {
			_ = g.Flush() // there is nobody to report it to
		}
	}
}

// unguarded returns the file behind out, for callers that write only displayable text
// with colours.
func unguarded(out io.Writer) io.Writer {
	if g, ok := out.(*display.Writer); ok {
		return g.Unwrap()
	}
	return out
}
