package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// shortDir is a directory where sockets can be.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startControl serves a socket for dir; stop ends that.
func startControl(t *testing.T, dir, name string) (stop func()) {
	t.Helper()
	c, err := listenControl(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		c.serve(ctx, func(ask controlAsk) controlAnswer {
			return controlAnswer{PID: 1, Config: name, Reload: &reloadReport{Changes: []string{ask.Config}}}
		})
	})
	stop = sync.OnceFunc(func() { cancel(); serving.Wait() })
	t.Cleanup(stop)
	return stop
}

// answers are the names of the servers that are there.
func answers(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, path := range controlSockets(filepath.Join(dir, controlDir)) {
		answer, err := askServer(t.Context(), path, controlAsk{Config: "/x"})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if !slices.Equal(answer.Reload.Changes, []string{"/x"}) {
			t.Errorf("%s: %+v", path, answer)
		}
		names = append(names, answer.Config)
	}
	slices.Sort(names)
	return names
}

func TestControl(t *testing.T) {
	for _, tt := range []struct{ name, below, suffix string }{
		{"short", "", socketSuffix}, {"long", strings.Repeat("long/", 20), pointerSuffix},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(shortDir(t), tt.below)
			run := filepath.Join(dir, controlDir)
			stopOne := startControl(t, dir, "one")
			startControl(t, dir, "two") // with the same process id, as in another container
			if got := answers(t, dir); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("servers %q", got)
			}
			for _, path := range controlSockets(run) {
				if filepath.Ext(path) != tt.suffix {
					t.Errorf("it is %s", path)
				}
			}
			if info, err := os.Stat(run); err != nil || info.Mode().Perm() != 0o700 && os.PathSeparator == '/' {
				t.Errorf("others may enter %s: %v, %v", run, info.Mode(), err)
			}
			stopOne()
			if got := answers(t, dir); !slices.Equal(got, []string{"two"}) {
				t.Errorf("servers %q", got)
			}
		})
	}
}

// TestControlIgnoresNoise has others connect that say nothing, or nonsense.
func TestControlIgnoresNoise(t *testing.T) {
	dir := shortDir(t)
	startControl(t, dir, "one")
	path := controlSockets(filepath.Join(dir, controlDir))[0]
	for _, noise := range []string{"", "nonsense\n", "[1]\n"} {
		conn, err := dialControl(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(noise)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if got := answers(t, dir); !slices.Equal(got, []string{"one"}) {
		t.Errorf("servers %q", got)
	}
}

// TestControlSweeps leaves behind what servers do that are killed.
func TestControlSweeps(t *testing.T) {
	dir := shortDir(t)
	run := filepath.Join(dir, controlDir)
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(run, "1"+socketSuffix))
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "2"+pointerSuffix), []byte(filepath.Join(elsewhere, "s")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := len(controlSockets(run)); got != 2 {
		t.Fatalf("%d left behind", got)
	}
	startControl(t, dir, "one")
	if got := answers(t, dir); !slices.Equal(got, []string{"one"}) {
		t.Errorf("servers %q", got)
	}
	if exists(elsewhere) {
		t.Error("the directory of a socket is left behind")
	}
}

// FuzzControlAnswer has the command read whatever is said.
func FuzzControlAnswer(f *testing.F) {
	f.Add([]byte(`{"pid":1,"config":"\u001b[2J","reload":{"changes":["a\nb"],"problems":[],"warnings":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var a controlAnswer
		if json.Unmarshal(raw, &a) != nil || a.Reload == nil {
			return
		}
		var out strings.Builder
		if err := a.write(&out); err != nil || strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
}
