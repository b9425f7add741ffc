package upstream

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSilentServerIsReplaced: a server that reads nothing any more ends for
// nobody but us.
func TestSilentServerIsReplaced(t *testing.T) {
	s := phoenix(t, "ok")
	s.Timeout = time.Second // also for the start of the process
	ready := make(chan struct{}, 10)
	quick := fastTimings
	quick.grace = time.Millisecond
	f := launchWith(t, s, Options{OnReady: func() { ready <- struct{}{} }}, quick)
	<-ready
	f.call(t, "deaf")
	var timeout *TimeoutError
	if _, err := f.Call(t.Context(), toolCall("echo")); !errors.As(err, &timeout) {
		t.Fatalf("got %v", err)
	}
	<-ready
	if got := f.call(t, "who"); !strings.HasPrefix(got, `{"start":2,`) {
		t.Error(got)
	}
	if s := f.Status(); !strings.Contains(s.Err, "it does not answer any more") {
		t.Errorf("status %+v", s)
	}
}

// TestSlowServerIsKept: that a call times out says nothing of the server, and
// one that waits for an answer of ours may do nothing else.
func TestSlowServerIsKept(t *testing.T) {
	s := phoenix(t, "ok")
	s.Timeout = time.Second // also for the start of the process
	f := launch(t, s)
	var timeout *TimeoutError
	if _, err := f.Call(t.Context(), toolCall("hang")); !errors.As(err, &timeout) {
		t.Fatalf("got %v", err)
	}
	l, err := f.connection(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.checkSilence(t.Context(), l); err != nil {
		t.Errorf("it answers: %v", err)
	}
	f.call(t, "deaf")
	f.answering.Add(1)
	if err := f.checkSilence(t.Context(), l); err != nil {
		t.Errorf("it waits for us: %v", err)
	}
	f.answering.Add(-1)
	for l.(listener).Heard()%2 == 1 { // the answer to deaf is still being worked on
		runtime.Gosched()
	}
	var down *DownError
	if err := f.checkSilence(t.Context(), l); !errors.As(err, &down) {
		t.Errorf("it is deaf: %v", err)
	}
}
