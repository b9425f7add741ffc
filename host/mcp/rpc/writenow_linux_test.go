package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// pipes are the kinds of files whose writers may have to wait for the reader.
var pipes = map[string]func(t *testing.T) (r, w *os.File){
	"pipe": func(t *testing.T) (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	},
	"blocking pipe": func(t *testing.T) (r, w *os.File) { return blocking(t, unix.Pipe) },
	"blocking socket": func(t *testing.T) (r, w *os.File) {
		return blocking(t, func(fds []int) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			copy(fds, pair[:])
			return err
		})
	},
}

func blocking(t *testing.T, open func(fds []int) error) (r, w *os.File) {
	t.Helper()
	fds := make([]int, 2)
	if err := open(fds); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
}

// overPipes runs a test with a Writer to each kind of file.
func overPipes(t *testing.T, f func(t *testing.T, r *wire.Reader, w *Writer)) {
	for name, open := range pipes {
		t.Run(name, func(t *testing.T) {
			r, file := open(t)
			w := NewWriter(file)
			f(t, wire.NewReader(r, 0), w)
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			r.Close()
		})
	}
}

func wantLine(t *testing.T, r *wire.Reader, want string) {
	t.Helper()
	if got, err := r.Read(); err != nil || string(got) != want {
		t.Fatalf("got %.60q, %v, want %.60q", got, err, want)
	}
}

func aloneFrame(text string) Frame { return Frame{Data: []byte(text), alone: true} }

// TestSenderWrites checks that a message that is alone needs no goroutine, and that
// others need one.
func TestSenderWrites(t *testing.T) {
	overPipes(t, func(t *testing.T, r *wire.Reader, w *Writer) {
		w.TrySend(aloneFrame("a\nb"))
		wantLine(t, r, "a b")
		w.Finish(aloneFrame("answer"))
		wantLine(t, r, "answer")
		w.TrySend(Frame{Data: []byte("held")})
		w.TrySend(aloneFrame("behind it"))
		if len(w.held) != 2 {
			t.Errorf("%d messages are held", len(w.held))
		}
		go w.Run()
		wantLine(t, r, "held")
		wantLine(t, r, "behind it")
		w.Drain()
		<-w.Done()
		if w.TrySend(aloneFrame("late")) {
			t.Error("accepted after the end")
		}
		if w.writeNow(aloneFrame("late")) {
			t.Error("written after the end")
		}
	})
}

// TestSenderDoesNotWait checks that a sender writes what a full pipe or socket takes,
// and that the goroutine writes the rest.
func TestSenderDoesNotWait(t *testing.T) {
	overPipes(t, func(t *testing.T, r *wire.Reader, w *Writer) {
		text := strings.Repeat("x", maxNow-10)
		n := 0
		for ; len(w.held) == 0 && w.rest.line == nil; n++ {
			w.TrySend(aloneFrame(fmt.Sprint(n, text)))
		}
		if n < 10 {
			t.Errorf("only %d messages were accepted before the pipe was full", n)
		}
		w.TrySend(aloneFrame("after"))
		w.Finish(aloneFrame("the end"))
		go w.Run()
		w.Drain()
		for i := range n {
			wantLine(t, r, fmt.Sprint(i, text))
		}
		wantLine(t, r, "after")
		wantLine(t, r, "the end")
		if _, err := r.Read(); err != io.EOF {
			t.Error(err)
		}
		<-w.Done()
	})
}

// TestRestOfMessage checks that nothing is written between the parts of a message whose
// sender has written the beginning of it.
func TestRestOfMessage(t *testing.T) {
	overPipes(t, func(t *testing.T, r *wire.Reader, w *Writer) {
		if !w.claim() {
			t.Fatal("it is idle")
		}
		w.TrySend(Frame{Data: []byte("held")})
		w.TrySend(aloneFrame("alone"))
		w.now.Write([]byte("the beg"))
		go w.Run()
		w.Drain()
		w.unclaim(rest{Frame{}, []byte("inning\n")})
		for _, want := range []string{"the beginning", "held", "alone"} {
			wantLine(t, r, want)
		}
		<-w.Done()
	})
}

// TestDrainWaitsForSender checks that the file is not closed while a sender writes.
func TestDrainWaitsForSender(t *testing.T) {
	overPipes(t, func(t *testing.T, r *wire.Reader, w *Writer) {
		if !w.claim() {
			t.Fatal("it is idle")
		}
		go w.Run()
		w.Drain()
		for waits := false; !waits; {
			w.mu.Lock()
			waits = w.draining
			w.mu.Unlock()
		}
		select {
		case <-w.Done():
			t.Fatal("it has ended")
		default:
		}
		w.now.Write([]byte("whole\n"))
		w.unclaim(rest{})
		wantLine(t, r, "whole")
		<-w.Done()
	})
}

type forbidden struct{}

func (forbidden) Permitted() error { return errors.New("forbidden") }

func TestSenderAsksPermit(t *testing.T) {
	overPipes(t, func(t *testing.T, r *wire.Reader, w *Writer) {
		f := aloneFrame("denied")
		f.Permit = forbidden{}
		if !w.TrySend(f) || len(w.held) != 1 {
			t.Error("it is not left to the goroutine")
		}
		go w.Run()
		w.TrySend(aloneFrame("next"))
		wantLine(t, r, "next")
	})
}

// TestSenderAfterReader checks that a reader that has gone is noticed in the usual way.
func TestSenderAfterReader(t *testing.T) {
	for name, open := range pipes {
		r, file := open(t)
		w := NewWriter(file)
		go w.Run()
		r.Close()
		w.TrySend(aloneFrame("lost"))
		<-w.Done()
		if w.TrySend(aloneFrame("lost")) && len(w.held) > 0 {
			t.Errorf("%s: a message is held after the end", name)
		}
	}
}

// TestSendersAndRun checks that messages stay whole and in the order of their sender
// while some are written by senders and others by Run.
func TestSendersAndRun(t *testing.T) {
	overPipes(t, func(t *testing.T, r *wire.Reader, w *Writer) {
		go w.Run()
		const senders, each = 4, 2000
		var sending sync.WaitGroup
		for i := range senders {
			sending.Go(func() {
				for n := range each {
					f := Frame{Data: fmt.Appendf(nil, "%d %d %s", i, n, strings.Repeat("x", n%700)), alone: n%3 > 0}
					if n%2 == 0 {
						w.Finish(f)
					} else if !w.TrySend(f) {
						if err := w.Send(t.Context(), f); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		go func() { sending.Wait(); w.Drain() }()
		var next [senders]int
		for {
			line, err := r.Read()
			if err == io.EOF {
				break
			}
			var i, n int
			if _, err := fmt.Sscan(string(line), &i, &n); err != nil || i >= senders || n != next[i] ||
				bytes.Count(line, []byte("x")) != n%700 {
				t.Fatalf("%.60q after %d: %v", line, next, err)
			}
			next[i]++
		}
		if next != [senders]int{each, each, each, each} {
			t.Errorf("%d", next)
		}
	})
}
