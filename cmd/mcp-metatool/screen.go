package main

import (
	"io"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/display"
)

// screens are what the verbs write to. What others wrote can be in all of it, so
// for a terminal it is made fit to be shown, whatever the verb. Into files and pipes
// go the bytes as they are. flush ends them.
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
			_ = g.Flush() // nobody is there to be told
		}
	}
}

// unguarded is the file behind out, for who writes nothing but what is fit to be
// shown, in colours.
func unguarded(out io.Writer) io.Writer {
	if g, ok := out.(*display.Writer); ok {
		return g.Unwrap()
	}
	return out
}
