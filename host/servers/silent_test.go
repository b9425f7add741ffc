package servers

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestSilentServerIsReplaced checks that a server that has stopped reading is restarted.
func TestSilentServerIsReplaced(t *testing.T) {
	t.Parallel()
	var u *Upstream // set before the server is silent
	starts := 0
	ready := make(chan struct{}, 10)
	quick := fastTimings
	quick.grace = time.Millisecond
	f := launchWith(t, restartingSpec(t, "ok"), Options{
		OnReady: func() { ready <- struct{}{} },
		Resolve: func(_ context.Context, s Spec) (Spec, error) { // before each start
			if starts++; starts > 1 {
				u.spec.Timeout = time.Minute
			}
			return s, nil
		},
	}, quick)
	<-ready
	f.call(t, "stop reading")
	u, f.spec.Timeout = f.Upstream, 10*time.Millisecond // not for the starts, which it also limits
	var timeout *TimeoutError
	if _, err := f.Call(t.Context(), toolCall("echo")); !errors.As(err, &timeout) {
		t.Fatalf("got %v", err)
	}
	<-ready
	if got := f.call(t, "who"); !strings.HasPrefix(got, `{"start":2,`) {
		t.Error(got)
	}
	if s := f.Status(); !strings.Contains(s.Err, "it no longer answers") {
		t.Errorf("status %+v", s)
	}
}

// TestSlowServerIsKept checks that a server is not restarted if it still answers ping
// after a call has timed out, or if it is waiting for an answer of ours.
func TestSlowServerIsKept(t *testing.T) {
	t.Parallel()
	f := launch(t, restartingSpec(t, "ok"))
	l, err := f.connection(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var timeout *TimeoutError
	if _, err := l.CallWithin(t.Context(), toolCall("hang"), rpc.Limit{Idle: time.Millisecond}); !errors.As(err, &timeout) {
		t.Fatalf("got %v", err)
	}
	f.noteTimeout(timeout) // as Call does; the ping may take longer
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
	soon, cancel := context.WithTimeoutCause(t.Context(), testenv.Quiet(10*time.Millisecond), timeout)
	defer cancel()
	if err := f.checkSilence(soon, l); !errors.As(err, &down) {
		t.Errorf("it does not read: %v", err)
	}
}
