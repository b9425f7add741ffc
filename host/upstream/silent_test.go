package upstream

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSilentServerIsReplaced checks that a server that has stopped reading is restarted.
func TestSilentServerIsReplaced(t *testing.T) {
	s := restartingSpec(t, "ok")
	s.Timeout = time.Second // also for the start of the process
	ready := make(chan struct{}, 10)
	quick := fastTimings
	quick.grace = time.Millisecond
	f := launchWith(t, s, Options{OnReady: func() { ready <- struct{}{} }}, quick)
	<-ready
	f.call(t, "stop reading")
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

// TestSlowServerIsKept checks that a server is not restarted if it still answers ping
// after a call has timed out, or if it is waiting for an answer of ours.
func TestSlowServerIsKept(t *testing.T) {
	s := restartingSpec(t, "ok")
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
	f.call(t, "stop reading")
	f.answering.Add(1)
	if err := f.checkSilence(t.Context(), l); err != nil {
		t.Errorf("it is waiting for an answer: %v", err)
	}
	f.answering.Add(-1)
	for l.(singleStreamLink).Heard()%2 == 1 { // the last answer is still being processed
		runtime.Gosched()
	}
	var down *DownError
	if err := f.checkSilence(t.Context(), l); !errors.As(err, &down) {
		t.Errorf("it does not read: %v", err)
	}
}
