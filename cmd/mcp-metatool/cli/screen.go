package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Screen is the standard output or standard error of the verbs. Output may contain text from
// servers and clients, so a Screen makes the text displayable for a terminal. Files and pipes get
// the bytes unchanged.
type Screen struct {
	file  *os.File
	guard *display.Writer // nil: the file is not a terminal
	color bool
	wait  *waitLine // nil: no terminal can show the line
}

// screens returns standard output and standard error. flush must be called at the end.
func screens(out, errs *os.File) (stdout, stderr *Screen, flush func()) {
	stdout, stderr = newScreen(out), newScreen(errs)
	if stderr.guard != nil && os.Getenv("TERM") != "dumb" && understandsEscapes(errs) {
		stderr.wait = &waitLine{out: errs}
		if stdout.guard != nil {
			stdout.wait = stderr.wait
		}
	}
	return stdout, stderr, func() {
		for _, s := range []*Screen{stdout, stderr} {
			if s.guard != nil {
				_ = s.guard.Flush() // an error could not be reported
			}
		}
	}
}

func newScreen(file *os.File) *Screen {
	s := &Screen{file: file}
	if IsTerminal(file) {
		s.guard = display.NewWriter(file)
	}
	return s
}

// setColor sets whether colours are used; see display.UseColor.
func (s *Screen) setColor(mode string) {
	s.color = display.UseColor(mode, s.guard != nil, os.Getenv) && (s.guard == nil || understandsEscapes(s.file))
}

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	defer s.wait.above()()
	if s.guard != nil {
		return s.guard.Write(p)
	}
	return s.file.Write(p)
}

// unguarded writes displayable text with colours.
type unguarded struct{ *Screen }

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

// Raw returns a writer to out for callers that write only displayable text and colours.
func Raw(out io.Writer) io.Writer {
	if s, ok := out.(*Screen); ok {
		return unguarded{s}
	}
	return out
}

// HasColor reports whether text to out has colours.
func HasColor(out io.Writer) bool {
	s, ok := out.(*Screen)
	return ok && s.color
}

// ownTerminal is a writer to a terminal in raw mode, such as the terminal of repl.
type ownTerminal interface{ Screen() *os.File }

// Columns returns the width of the terminal out; 0 if out is not a terminal.
func Columns(out io.Writer) int {
	s, ok := out.(*Screen)
	if t, is := out.(ownTerminal); is {
		s, ok = &Screen{file: t.Screen(), guard: display.NewWriter(t.Screen())}, true
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

// Paint applies a style to displayable text if out has colours. The result must be written
// to raw(out).
func Paint(out io.Writer, style display.Style, text string) string {
	if !HasColor(out) {
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

// waitLine is the last line of a terminal, and says what the command waits for. A nil *waitLine
// shows nothing.
type waitLine struct {
	out *os.File

	mu    sync.Mutex // guards drawn; a leaf
	drawn bool       // the line is on the screen
}

const eraseLine = "\r\x1b[K"

// above removes the line before other text is written in its place. The next draw shows the line
// again after the text. The caller must call the returned function after writing.
func (l *waitLine) above() (done func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	l.erase()
	return l.mu.Unlock
}

// erase removes the line from the screen. mu is held.
func (l *waitLine) erase() {
	if l.drawn {
		_, _ = io.WriteString(l.out, eraseLine)
		l.drawn = false
	}
}

// draw shows the line.
func (l *waitLine) draw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	if text != "" {
		_, _ = io.WriteString(l.out, text) // an error of the terminal does not matter
		l.drawn = true
	}
}

// waitShown is how long the user waits before the line is shown.
const waitShown = time.Second

const waitStep = 100 * time.Millisecond

// spinner is plain ASCII, which each terminal has.
const spinner = `|/-\`

// show shows the work of the command, from a second after now on, until the caller calls stop.
func (l *waitLine) show(what string, columns func() int) (stop func()) {
	if l == nil {
		return func() {}
	}
	began, end, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer l.draw("")
		first := time.NewTimer(waitShown)
		defer first.Stop()
		select {
		case <-first.C:
		case <-end:
			return
		}
		step := time.NewTicker(waitStep)
		defer step.Stop()
		for n := 0; ; n++ {
			seconds := fmt.Sprintf(" %.0fs", time.Since(began).Seconds())
			l.draw(waitText(n, what, seconds, columns()))
			select {
			case <-step.C:
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// waitText returns the line, narrower than a terminal of the given width: a longer line could not
// be erased. n counts the steps of the spinner. columns is 0 if the width is unknown.
func waitText(n int, what, seconds string, columns int) string {
	columns = cmp.Or(columns, 80)
	line := string(spinner[n%len(spinner)]) + " "
	if room := columns - len(line) - len(seconds) - 1; room >= 10 {
		line += display.Cut(display.Line(what, columns), room)
	}
	return display.Cut(line+seconds, columns-1)
}

// doing holds the current work of the command, for the user who waits or presses Ctrl-C.
type doing struct {
	mu   sync.Mutex
	what []string // the innermost last
}

type doingKey struct{}

// now returns the current work of the command; "" if unknown.
func (d *doing) now() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.what) == 0 {
		return ""
	}
	return d.what[len(d.what)-1]
}

func (d *doing) push(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.what = append(d.what, what)
}

func (d *doing) pop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.what = d.what[:len(d.what)-1]
}

// During names the work with ctx until the caller calls done. If the user ends ctx earlier, the
// command ends with the line "cancelled: WHAT".
func During(ctx context.Context, what string) (done func()) {
	d, ok := ctx.Value(doingKey{}).(*doing)
	if !ok {
		return func() {}
	}
	d.push(what)
	return func() {
		if ctx.Err() == nil { // otherwise the end of the command names the work
			d.pop()
		}
	}
}

// Busy is like During, and shows the work on a terminal after a second. The caller may call done
// several times.
func Busy(cmd *cobra.Command, what string) (done func()) {
	stop, end := func() {}, During(cmd.Context(), what)
	if s, ok := cmd.ErrOrStderr().(*Screen); ok {
		stop = s.wait.show(what, func() int { return Columns(s) })
	}
	return sync.OnceFunc(func() {
		stop()
		end()
	})
}

// withDoing returns a context for busy.
func withDoing(ctx context.Context) (context.Context, *doing) {
	d := &doing{}
	return context.WithValue(ctx, doingKey{}, d), d
}
