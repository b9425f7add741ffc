package servers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func TestServerSeesOnlyItsEnvironment(t *testing.T) {
	t.Setenv("PLANTED_SECRET", "hunter2")
	t.Setenv("HTTPS_PROXY", "http://user:hunter2@proxy")
	t.Setenv("LC_TEST", "ok")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := spec("ok", "NAMED=yes", "HOME=/nowhere", "EMPTY=")
	s.Dir = dir
	f := launch(t, s)
	var got struct {
		Env []string
		Dir string
	}
	raw := f.call(t, "env")
	mustUnmarshal(t, raw, &got)
	if strings.Contains(raw, "hunter2") {
		t.Errorf("a secret of ours reached the server: %s", raw)
	}
	for _, want := range []string{"NAMED=yes", "HOME=/nowhere", "EMPTY=", "LC_TEST=ok", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(got.Env, want) {
			t.Errorf("%s is missing in %v", want, got.Env)
		}
	}
	if got.Dir != dir {
		t.Errorf("it runs in %s", got.Dir)
	}
	if strings.Contains(f.log.String(), "hunter2") || strings.Contains(f.log.String(), "NAMED") {
		t.Error("the environment is in the log")
	}
}

func TestShutdownSteps(t *testing.T) {
	t.Parallel()
	t.Run("a server that ignores everything is killed", func(t *testing.T) {
		b := newProcessMonitor(t)
		f := launch(t, spec("stubborn", b.env())) // ignores SIGTERM and the end of its input
		_, _, r := b.next()
		<-f.Started()
		f.timings.grace = time.Millisecond
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		awaitEnd(r)
	})
	t.Run("a context that ends kills at once", func(t *testing.T) {
		b := newProcessMonitor(t)
		f := launch(t, spec("stubborn", b.env()))
		_, _, r := b.next()
		<-f.Started()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		awaitEnd(r)
	})
	t.Run("while it starts", func(t *testing.T) {
		f := launch(t, spec("hang"))
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-f.Started()
		if s := f.Status(); s.State != Closed {
			t.Errorf("status %+v", s)
		}
	})
	t.Run("SIGTERM", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("there is no SIGTERM")
		}
		f := launch(t, spec("terminates"))
		<-f.Started()
		terminateGroup(f.Status().Pid)
		<-f.done
		if s := f.Status(); !strings.Contains(s.Err, "exit status 0") || !strings.Contains(s.Err, "got SIGTERM") {
			t.Errorf("status %+v", s)
		}
	})
	t.Run("calls in flight are answered", func(t *testing.T) {
		f := launch(t, spec("ok"))
		<-f.Started()
		done := make(chan error, 1)
		go func() {
			_, err := f.Call(t.Context(), wire.Call{Method: "tools/call", Params: []byte(`{"name":"flood"}`), Progress: func([]byte) {
				f.closing() // as Close does first
				f.cancel(errors.New("closed"))
			}})
			done <- err
		}()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNoProcessOfTheGroupIsLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"close", "crash"} {
		b := newProcessMonitor(t)
		f := launch(t, spec("family", b.env()))
		_, _, r1 := b.next()
		_, _, r2 := b.next()
		<-f.Started()
		if how == "close" {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		} else {
			if p, err := os.FindProcess(f.Status().Pid); err != nil || p.Kill() != nil {
				t.Fatal("cannot kill the server")
			}
			<-f.done
		}
		awaitEnd(r1)
		awaitEnd(r2)
	}
}

// TestDaemonHoldsThePipes checks that Close, and calls after a crash, do not wait for a
// process that left the group and still has the server's pipes open.
func TestDaemonHoldsThePipes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no process leaves a job")
	}
	b := newProcessMonitor(t)
	f := launch(t, spec("daemonizes", b.env()))
	one, c1, r1 := b.next()
	_, c2, r2 := b.next()
	daemon, r, server := c2, r2, r1
	if one == "daemon" {
		daemon, r, server = c1, r1, r2
	}
	<-f.Started()
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	awaitEnd(server)
	daemon.Close() // ends it
	awaitEnd(r)

	f = launch(t, spec("daemonizes", b.env()))
	one, c1, _ = b.next()
	_, c2, _ = b.next()
	_, err := f.Call(t.Context(), toolCall("crash"))
	var down *DownError
	if !errors.As(err, &down) || !strings.HasPrefix(down.Reason, "its process ended: exit status 9") {
		t.Errorf("got %v", err)
	}
	<-f.done
	if daemon = c2; one == "daemon" {
		daemon = c1
	}
	daemon.Close()
}

// TestServerEndsWithKilledParent checks that a server ends when its parent is killed.
func TestServerEndsWithKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("the system cannot do that")
	}
	b := newProcessMonitor(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), serverEnv+"=parent", b.env())
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	_, _, r1 := b.next()
	_, _, r2 := b.next()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	awaitEnd(r1)
	awaitEnd(r2)
}
