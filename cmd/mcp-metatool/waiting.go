package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// waitLine is the last line of a terminal, which says what the command waits for. A nil
// *waitLine shows nothing.
type waitLine struct {
	out *os.File

	mu    sync.Mutex // guards drawn; a leaf
	drawn bool       // the line is on the screen
}

const eraseLine = "\r\x1b[K"

// above removes the line, so that something can be written in its place. It comes back after
// that text with the next draw. The returned function must be called after writing.
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

// show shows what the command does, from a second after now on, until stop is called.
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

// waitText returns the line, which is narrower than a terminal of that many columns: a longer
// one could not be erased. n counts the steps of the spinner. columns is 0 if it is not known.
func waitText(n int, what, seconds string, columns int) string {
	columns = cmp.Or(columns, 80)
	line := string(spinner[n%len(spinner)]) + " "
	if room := columns - len(line) - len(seconds) - 1; room >= 10 {
		line += display.Cut(display.Line(what, columns), room)
	}
	return display.Cut(line+seconds, columns-1)
}

// doing is what the command does at the moment, for the user who waits for it or ends it.
type doing struct {
	mu   sync.Mutex
	what []string // the innermost last
}

type doingKey struct{}

// now returns what the command does; "" if that is not known.
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

// during says what is done with ctx until done is called. If the user ends ctx before that,
// the command ends with the line "cancelled: WHAT".
func during(ctx context.Context, what string) (done func()) {
	d, ok := ctx.Value(doingKey{}).(*doing)
	if !ok {
		return func() {}
	}
	d.push(what)
	return func() {
		if ctx.Err() == nil { // else it is said at the end
			d.pop()
		}
	}
}

// busy is like during, and shows what is done on a terminal if it takes more than a second.
// done may be called several times.
func busy(cmd *cobra.Command, what string) (done func()) {
	stop, end := func() {}, during(cmd.Context(), what)
	if s, ok := cmd.ErrOrStderr().(*screen); ok {
		stop = s.wait.show(what, func() int { return columns(s) })
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
