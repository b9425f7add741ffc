package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
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

func TestEnviron(t *testing.T) {
	ours := []string{"PATH=/bin", "AWS_SECRET=s", "SHELL=() { :;}", "=C:=C:\\", "odd", "LC_ALL=C", "XDG_DATA_HOME=/x", "SystemRoot=w", "Path=p", "GITHUB_TOKEN=s"}
	for _, tt := range []struct {
		windows bool
		want    []string
	}{
		{false, []string{"PATH=/bin", "LC_ALL=C", "XDG_DATA_HOME=/x", "A=b"}},
		{true, []string{"PATH=/bin", "LC_ALL=C", "SystemRoot=w", "Path=p", "A=b"}},
	} {
		if got := environ(ours, []string{"A=b"}, tt.windows); !slices.Equal(got, tt.want) {
			t.Errorf("windows %v: %v", tt.windows, got)
		}
	}
	if got := environ(nil, nil, false); got == nil {
		t.Error("nil would mean our whole environment to os/exec")
	}
	if got := lookup([]string{"Path=a", "PATH=b", "path=c"}, "PATH", true) + lookup([]string{"PATH=b", "path=c"}, "PATH", false); got != "cb" {
		t.Error(got)
	}
}

func TestFindCommand(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	name := "our-server"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(bin, name)
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ command, path, want string }{
		{"our-server", bin, path},
		{"our-server", dir + string(filepath.ListSeparator) + bin, path},
		{"our-server", "bin", ""}, // relative entries do not count
		{"our-server", "", ""},
		{filepath.Join("bin", "our-server"), "", path}, // below dir
		{path, "", path},
		{"bin", dir, ""}, // a directory
	} {
		got, err := findCommand(tt.command, dir, []string{"PATH=/ours", "PATH=" + tt.path})
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s in %s: %q, %v", tt.command, tt.path, got, err)
		}
	}
}

func TestShutdownSteps(t *testing.T) {
	t.Run("a server that ignores everything is killed", func(t *testing.T) {
		b := newBeacon(t)
		f := launch(t, spec("stubborn", b.env()))
		_, _, r := b.next()
		<-f.Started()
		f.timings.grace = time.Millisecond
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		gone(r)
	})
	t.Run("a context that ends kills at once", func(t *testing.T) {
		b := newBeacon(t)
		f := launch(t, spec("stubborn", b.env()))
		_, _, r := b.next()
		<-f.Started()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		gone(r)
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
	t.Run("terminate", func(t *testing.T) {
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
	for _, how := range []string{"close", "crash"} {
		b := newBeacon(t)
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
		gone(r1)
		gone(r2)
	}
}

// TestDaemonHoldsThePipes: where a process that left the group is out of reach,
// what it holds open must not hold us.
func TestDaemonHoldsThePipes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process leaves a job")
	}
	b := newBeacon(t)
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
	gone(server)
	daemon.Close() // ends it
	gone(r)

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

// TestKilledParentTakesTheServerAlong is the parent-death signal.
func TestKilledParentTakesTheServerAlong(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("the system has no such thing")
	}
	b := newBeacon(t)
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
	gone(r1)
	gone(r2)
}

func TestStderr(t *testing.T) {
	var log bytes.Buffer
	s := &stderrLog{log: slog.New(slog.NewTextHandler(&log, nil))}
	var in bytes.Buffer
	for i := range 50 {
		fmt.Fprintf(&in, "line %d\r\n\n", i)
	}
	in.WriteString(strings.Repeat("é", 5000) + "\n" + strings.Repeat("z", maxStderrLine-1) + "\n" + "bad \xff\xfe \x1b[2J\x00\x7f\u009b end\nlast")
	s.copy(&in)
	last := s.lines()
	if len(last) != keptLines || last[0] != "line 44" || last[6] != strings.Repeat("é", 90)+"..." || last[8] != "bad \uFFFD [2J end" || last[9] != "last" {
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
		t.Error("a line of just the size was cut")
	}
	if total > maxStatusErr {
		t.Errorf("%d bytes kept", total)
	}
}
