package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

// TestPost checks that posted and written messages come out in order, and that
// everything posted before the end is written.
func TestPost(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	if w.Post([]byte("early")) {
		t.Error("taken before Run")
	}
	stop := make(chan struct{})
	ran := make(chan error, 1)
	running := make(chan struct{})
	go func() {
		close(running)
		ran <- w.Run(stop)
	}()
	<-running
	var want strings.Builder
	post := func(msg string) {
		for !w.Post([]byte(msg)) { // until Run runs, or has caught up
			if err := w.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			want.WriteString("x\n")
		}
		want.WriteString(msg + "\n")
	}
	for i := range 5000 {
		msg := fmt.Sprint(i)
		if i%7 == 0 {
			want.WriteString(msg + "\n")
			if err := w.Write([]byte(msg)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		post(msg)
	}
	close(stop)
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if out.String() != want.String() {
		t.Error("something is missing, or in another order")
	}
	if w.Post([]byte("late")) {
		t.Error("taken after Run")
	}
}

// TestPostConcurrently checks that nothing is lost when goroutines post and write at
// the same time.
func TestPostConcurrently(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	stop := make(chan struct{})
	ran := make(chan error, 1)
	go func() { ran <- w.Run(stop) }()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 500 {
				msg := fmt.Appendf(nil, "%d %d", i, j)
				if i%2 == 0 || !w.Post(msg) {
					if err := w.Write(msg); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	close(stop)
	if err := <-ran; err != nil {
		t.Error(err)
	}
	next := map[int]int{}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines {
		var i, j int
		if _, err := fmt.Sscan(line, &i, &j); err != nil || j != next[i] {
			t.Fatalf("%q, want %d of %d: %v", line, next[i], i, err)
		}
		next[i]++
	}
	if len(lines) != 8*500 {
		t.Errorf("%d lines", len(lines))
	}
}

// TestPostWithoutReader checks that posted messages are bounded while nobody reads, and
// that Run returns why it ends.
func TestPostWithoutReader(t *testing.T) {
	r, pipe := io.Pipe()
	w := NewWriter(pipe)
	stop := make(chan struct{})
	ran := make(chan error, 1)
	go func() { ran <- w.Run(stop) }()
	for !w.Post([]byte("first")) {
	}
	var one [1]byte
	if _, err := r.Read(one[:]); err != nil { // Run is in the middle of the first
		t.Fatal(err)
	}
	n := 0
	for w.Post([]byte("more")) {
		n++
	}
	if n != maxPosted {
		t.Errorf("%d wait", n)
	}
	broken := errors.New("broken")
	r.CloseWithError(broken)
	if err := <-ran; !errors.Is(err, broken) {
		t.Errorf("Run: %v", err)
	}
	if w.Post(nil) || !errors.Is(w.Write(nil), broken) {
		t.Error("still taken")
	}
}
