package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestStderr(t *testing.T) {
	var log bytes.Buffer
	s := &stderrLog{log: slog.New(slog.NewTextHandler(&log, nil))}
	var in bytes.Buffer
	for i := range 50 {
		fmt.Fprintf(&in, "line %d\r\n\n", i)
	}
	in.WriteString(strings.Repeat("é", 5000) + "\n" + strings.Repeat("z", maxStderrLine-1) + "\n" + "bad \xff\xfe \x1b[2J\x00\x7f\u009b end\nlast")
	s.copy(&in)
	last := s.tail()
	if len(last) != tailLines || last[0] != "line 44" || last[6] != strings.Repeat("é", 90)+"..." || last[8] != "bad \uFFFD \uFFFD[2J\uFFFD\uFFFD\uFFFD end" || last[9] != "last" {
		t.Errorf("last lines %q", last)
	}
	total := 0
	for _, line := range last {
		total += len(line)
	}
	if out := log.String(); strings.Count(out, "\n") != 54 || len(out) > 54*80+2*maxStderrLine+100 || !utf8.ValidString(out) {
		t.Errorf("log of %d bytes, %d lines", len(out), strings.Count(out, "\n"))
	}
	if !strings.Contains(log.String(), strings.Repeat("z", maxStderrLine-1)+"\n") {
		t.Error("a line of exactly the maximum size was cut")
	}
	if total > 2<<10 { // more than Status.Err shows
		t.Errorf("%d bytes kept", total)
	}
}

// TestFloodOfStderr checks that stderr is read no faster than Charge
// allows, and at full speed once the process has exited.
func TestFloodOfStderr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		ended := make(chan struct{})
		const rate = 500 // lines a second
		slow := func(_ int, exited <-chan struct{}) {
			select {
			case <-time.After(time.Second / rate):
			case <-exited:
			}
		}
		s := &stderrLog{log: slog.New(slog.DiscardHandler), charge: slow, exited: ended}
		copied := make(chan struct{})
		go func() { defer close(copied); s.copy(r) }()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		lines := 0
		for ctx.Err() == nil {
			_, _ = io.WriteString(w, "x\n")
			lines++
		}
		if most := 31 * rate; lines > most || lines < 30*rate/2 {
			t.Errorf("%d lines, want at most %d", lines, most)
		}
		close(ended)
		begun := time.Now()
		for range 100 * rate {
			_, _ = io.WriteString(w, "x\n")
		}
		w.Close()
		<-copied
		if took := time.Since(begun); took > 0 {
			t.Errorf("reading the rest took %v", took)
		}
	})
}
