package servers

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// restartingSpec returns the Spec of a server that is restarted and counts its starts.
func restartingSpec(t *testing.T, mode string) Spec {
	s := spec(mode, startsEnv+"="+filepath.Join(t.TempDir(), "starts"))
	s.Restart = RestartAlways
	return s
}

// slow returns timings with an hour before a restart.
func slow() timings {
	slow := fastTimings
	slow.firstDelay, slow.maxDelay = time.Hour, time.Hour
	return slow
}

func wantDown(t *testing.T, err error, text string) {
	t.Helper()
	var down *DownError
	if !errors.As(err, &down) || down.Upstream != "x" || !strings.Contains(down.Reason, text) {
		t.Errorf("got %v, want a DownError with %q", err, text)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	listed, onList := lists(t)
	ready := make(chan string, 10)
	var f *fixture
	up := make(chan struct{})
	f = launchWith(t, restartingSpec(t, "ok"), Options{OnList: onList, OnReady: func() {
		<-up
		reply, err := f.Call(t.Context(), toolCall("who")) // it may make calls
		start, _ := wire.Get(reply.Result, "start")
		if err != nil {
			start = []byte(err.Error())
		}
		ready <- string(start)
	}}, fastTimings)
	close(up)
	if got := <-ready; got != "1" {
		t.Fatal(got)
	}
	for range wire.Surfaces {
		<-listed
	}
	hanging := make(chan error, 1)
	go func() {
		_, err := f.Call(t.Context(), toolCall("hang"))
		hanging <- err
	}()
	<-f.notes
	_, err := f.Call(t.Context(), toolCall("crash"))
	wantDown(t, err, "its process ended: exit status 9")
	wantDown(t, <-hanging, "its process ended: exit status 9")
	// A call waits for the restart, whether the upstream has noticed the end yet or not.
	if got := f.call(t, "who"); !strings.HasPrefix(got, `{"start":2,`) {
		t.Error(got)
	}
	if got := <-ready; got != "2" {
		t.Error(got)
	}
	if got := <-listed; got != "tools [a b] " { // there was no empty list in between
		t.Error(got)
	}
	s := f.Status()
	if s.State != Ready || s.Restarts != 1 || !s.RestartAt.IsZero() || s.Pid == 0 || !strings.Contains(s.Err, "exit status 9") {
		t.Errorf("status %+v", s)
	}
	if err := f.Notify(t.Context(), "notifications/x", nil); err != nil {
		t.Error(err)
	}
}

func TestRestartUntilItWorks(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{}, 1)
	f := launchWith(t, restartingSpec(t, "third start works"), Options{OnReady: func() { ready <- struct{}{} }}, fastTimings)
	<-f.Started() // after the first failure
	_, err := f.Handshake(t.Context())
	if err != nil { // it is nil if the third start was quicker
		wantDown(t, err, "exit status 4")
	}
	<-ready
	if got := f.call(t, "who"); !strings.HasPrefix(got, `{"start":3,`) {
		t.Error(got)
	}
	if s := f.Status(); s.Restarts != 2 || s.Tools != 2 {
		t.Errorf("status %+v", s)
	}
	if log := f.log.String(); strings.Count(log, "level=ERROR") != 1 || strings.Count(log, `level=INFO msg="upstream failed"`) != 1 {
		t.Errorf("the same failure is an error once: %s", log)
	}
}

func TestCallsWhileItIsDown(t *testing.T) {
	t.Parallel()
	t.Run("until the next start, if it is far", func(t *testing.T) {
		f := launchWith(t, restartingSpec(t, "ok"), Options{}, slow())
		_, err := f.Call(t.Context(), toolCall("crash"))
		wantDown(t, err, "exit status 9")
		_, err = f.Call(t.Context(), toolCall("echo"))
		wantDown(t, err, "exit status 9 (what it wrote to stderr is in the log); the next start is in ")
		wantDown(t, f.Notify(t.Context(), "n", nil), "the next start is in ")
		wantDown(t, f.Ready(t.Context()), "the next start is in ")
		s := f.Status()
		if s.State != Failed || time.Until(s.RestartAt) < 30*time.Minute || s.Tools != 2 {
			t.Errorf("status %+v", s)
		}
		if raw, ok := f.Server(); !ok || !strings.Contains(string(raw), `"raw"`) {
			t.Errorf("server %s", raw)
		}
	})
	t.Run("when the first new start has failed", func(t *testing.T) {
		with := fastTimings
		with.maxDelay = time.Hour
		with.firstDelay = time.Millisecond
		f := launchWith(t, restartingSpec(t, "starts once"), Options{}, with)
		_, err := f.Call(t.Context(), toolCall("crash"))
		wantDown(t, err, "exit status 9")
		_, err = f.Call(t.Context(), toolCall("echo")) // waits for the restart
		wantDown(t, err, "exit status 4")
	})
	t.Run("when it does not come up soon", func(t *testing.T) {
		with := fastTimings
		with.callWait = 2 * time.Millisecond
		f := launchWith(t, restartingSpec(t, "hangs the second time"), Options{}, with)
		_, err := f.Call(t.Context(), toolCall("crash"))
		wantDown(t, err, "exit status 9")
		_, err = f.Call(t.Context(), toolCall("echo"))
		wantDown(t, err, "exit status 9")
	})
	t.Run("until the caller gives up", func(t *testing.T) {
		f := launchWith(t, restartingSpec(t, "hangs the second time"), Options{}, fastTimings)
		_, err := f.Call(t.Context(), toolCall("crash"))
		wantDown(t, err, "exit status 9")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := f.Call(ctx, toolCall("echo"))
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("until it is closed", func(t *testing.T) {
		f := launchWith(t, restartingSpec(t, "hangs the second time"), Options{}, fastTimings)
		_, err := f.Call(t.Context(), toolCall("crash"))
		wantDown(t, err, "exit status 9")
		done := make(chan error, 1)
		go func() {
			_, err := f.Call(t.Context(), toolCall("echo"))
			done <- err
		}()
		f.stop(t)
		wantDown(t, <-done, "closed")
	})
	t.Run("never", func(t *testing.T) {
		f := launch(t, spec("ok"))
		_, err := f.Call(t.Context(), toolCall("crash"))
		wantDown(t, err, "exit status 9")
		_, err = f.Call(t.Context(), toolCall("echo"))
		wantDown(t, err, "exit status 9 (what it wrote to stderr is in the log)")
		<-f.done
		if s := f.Status(); s.Restarts != 0 || !s.RestartAt.IsZero() {
			t.Errorf("status %+v", s)
		}
	})
}

func TestCloseBetweenTwoStarts(t *testing.T) {
	t.Parallel()
	f := launchWith(t, restartingSpec(t, "exit"), Options{}, slow())
	<-f.Started()
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if s := f.Status(); s.State != Closed || !s.RestartAt.IsZero() {
		t.Errorf("status %+v", s)
	}
}

// TestStateTransitions checks which states may follow each state, and that Started is
// closed once.
func TestStateTransitions(t *testing.T) {
	t.Parallel()
	u := &Upstream{started: make(chan struct{}), handshakeDone: make(chan struct{}), stateChanged: make(chan struct{})}
	for _, tt := range []struct {
		from, to State
		ok       bool
	}{
		{Starting, Starting, false}, {Starting, Ready, true}, {Starting, Failed, true}, {Starting, Closed, true},
		{Ready, Starting, false}, {Ready, Ready, false}, {Ready, Failed, true}, {Ready, Closed, true},
		{Failed, Starting, true}, {Failed, Ready, false}, {Failed, Failed, false}, {Failed, Closed, true},
		{Closed, Starting, false}, {Closed, Ready, false}, {Closed, Failed, false}, {Closed, Closed, false},
	} {
		u.status.State = tt.from
		if ok := u.enter(tt.to, transition{}); ok != tt.ok {
			t.Errorf("%s to %s: %v", tt.from, tt.to, ok)
		}
	}
	<-u.Started()
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for range 100 {
		b := backoff{timings: defaultTimings}
		want := defaultTimings.firstDelay
		for i := range 100 {
			got := b.next(0, false)
			if got > want || got < want*3/4-1 {
				t.Fatalf("failure %d: %v, want about %v", i+1, got, want)
			}
			want = min(2*want, defaultTimings.maxDelay)
		}
		if got := b.next(defaultTimings.stableAfter-1, true); got < defaultTimings.maxDelay*3/4-1 {
			t.Errorf("after a short time: %v", got)
		}
		if got := b.next(defaultTimings.stableAfter, false); got > defaultTimings.firstDelay {
			t.Errorf("after a long time: %v", got)
		}
		if got := b.next(defaultTimings.stableAfter, true); got != 0 {
			t.Errorf("a lost session: %v", got)
		}
		if got := b.next(0, true); got == 0 || got > 2*defaultTimings.firstDelay {
			t.Errorf("after the lost session: %v", got)
		}
	}
}

// TestDownErrorOfTriedLink checks that a call whose link has ended says why, also before
// the upstream has noticed the end.
func TestDownErrorOfTriedLink(t *testing.T) {
	t.Parallel()
	u := &Upstream{spec: Spec{Name: "x"}}
	wantDown(t, u.downError(nil), "its connection has just ended")
	ended := &DownError{Upstream: "x", Reason: "its process ended: exit status 9"}
	wantDown(t, u.downError(ended), "exit status 9")
	u.down = &DownError{Upstream: "x", Reason: "its process ended: exit status 4"}
	wantDown(t, u.downError(ended), "exit status 4")
}
