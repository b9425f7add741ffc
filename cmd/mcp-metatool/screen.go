package main

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// screen is what the verbs write to: standard output or standard error. Output may contain
// text from others, so it is made displayable for a terminal. Files and pipes get the bytes
// unchanged.
type screen struct {
	file  *os.File
	guard *display.Writer // nil: it is not a terminal
	color bool
	wait  *waitLine // nil: there is no terminal to show one
}

// screens returns standard output and standard error. flush must be called at the end.
func screens(out, errs *os.File) (stdout, stderr *screen, flush func()) {
	stdout, stderr = newScreen(out), newScreen(errs)
	if stderr.guard != nil && os.Getenv("TERM") != "dumb" && understandsEscapes(errs) {
		stderr.wait = &waitLine{out: errs}
		if stdout.guard != nil {
			stdout.wait = stderr.wait
		}
	}
	return stdout, stderr, func() {
		for _, s := range []*screen{stdout, stderr} {
			if s.guard != nil {
				_ = s.guard.Flush() // there is nobody to report it to
			}
		}
	}
}

func newScreen(file *os.File) *screen {
	s := &screen{file: file}
	if isTerminal(file) {
		s.guard = display.NewWriter(file)
	}
	return s
}

// setColor sets whether colours are used; see display.UseColor.
func (s *screen) setColor(mode string) {
	s.color = display.UseColor(mode, s.guard != nil, os.Getenv) && (s.guard == nil || understandsEscapes(s.file))
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	defer s.wait.above()()
	if s.guard != nil {
		return s.guard.Write(p)
	}
	return s.file.Write(p)
}

// unguarded writes text that is displayable and has colours.
type unguarded struct{ *screen }

// Write implements io.Writer.
func (u unguarded) Write(p []byte) (int, error) {
	defer u.wait.above()()
	if u.guard != nil {
		if err := u.guard.Flush(); err != nil {
			return 0, err
		}
	}
	return u.file.Write(p)
}

// raw returns a writer to out for callers that write only displayable text and colours.
func raw(out io.Writer) io.Writer {
	if s, ok := out.(*screen); ok {
		return unguarded{s}
	}
	return out
}

// hasColor reports whether to use colours in what is written to out.
func hasColor(out io.Writer) bool {
	s, ok := out.(*screen)
	return ok && s.color
}

// columns returns the width of the terminal that out is, 0 if it is none.
func columns(out io.Writer) int {
	s, ok := out.(*screen)
	if t, is := out.(*terminal); is {
		s, ok = &screen{file: t.out, guard: display.NewWriter(t.out)}, true
	}
	if !ok || s.guard == nil {
		return 0
	}
	width, _, err := term.GetSize(int(s.file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// paint applies a style to displayable text if out has colours. The result must be written
// to raw(out).
func paint(out io.Writer, style display.Style, text string) string {
	if !hasColor(out) {
		return text
	}
	return style.Apply(text)
}

// errColor refuses a value of --color.
var errColor = errors.New("want auto, always or never")

// colorFlag is the value of --color.
type colorFlag string

// String implements pflag.Value.
func (c *colorFlag) String() string { return string(*c) }

// Type implements pflag.Value.
func (*colorFlag) Type() string { return "WHEN" }

// Set implements pflag.Value.
func (c *colorFlag) Set(text string) error {
	switch text {
	case display.ColorAuto, display.ColorAlways, display.ColorNever:
		*c = colorFlag(text)
		return nil
	}
	return errColor
}
