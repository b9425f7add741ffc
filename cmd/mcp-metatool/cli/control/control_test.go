package control

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// shortDir returns a directory whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startControl serves a socket for dir until stop is called.
func startControl(t *testing.T, dir, name string) (stop func()) {
	t.Helper()
	c, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		c.Serve(ctx, func(ask Request) Response {
			return Response{PID: 1, Config: name, Reload: &ReloadReport{Changes: []string{ask.Config}}}
		})
	})
	stop = sync.OnceFunc(func() { cancel(); serving.Wait() })
	t.Cleanup(stop)
	return stop
}

// openRun opens the folder for sockets of a store.
func openRun(t *testing.T, dir string) *Folder {
	t.Helper()
	run, err := OpenFolder(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.Close)
	return run
}

// answers returns the names of the servers that answer.
func answers(t *testing.T, dir string) (names []string) {
	t.Helper()
	run := openRun(t, dir)
	for _, socket := range run.Sockets() {
		answer, err := run.Ask(t.Context(), socket, Request{Config: "/x"})
		if err != nil {
			t.Errorf("%s: %v", socket, err)
			continue
		}
		if !slices.Equal(answer.Reload.Changes, []string{"/x"}) {
			t.Errorf("%s: %+v", socket, answer)
		}
		names = append(names, answer.Config)
	}
	slices.Sort(names)
	return names
}

func TestControl(t *testing.T) {
	for name, below := range map[string]string{"short": "", "long": strings.Repeat("long/", 20)} {
		t.Run(name, func(t *testing.T) {
			if below != "" && runtime.GOOS != "linux" {
				t.Skip("sockets have no long paths on this system")
			}
			dir := filepath.Join(shortDir(t), below)
			stopOne := startControl(t, dir, "one")
			startControl(t, dir, "two") // with the same process id, as in another container
			if got := answers(t, dir); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("servers %q", got)
			}
			run := filepath.Join(dir, FolderName)
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

// TestControlIgnoresNoise checks that connections that send nothing, or garbage, do no
// harm.
func TestControlIgnoresNoise(t *testing.T) {
	dir := shortDir(t)
	startControl(t, dir, "one")
	run := openRun(t, dir)
	for _, noise := range []string{"", "nonsense\n", "[1]\n"} {
		conn, err := run.dial(run.Sockets()[0])
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

// TestControlRemovesStaleSockets checks that the sockets of killed servers are removed,
// and nothing else.
func TestControlRemovesStaleSockets(t *testing.T) {
	dir := shortDir(t)
	run := filepath.Join(dir, FolderName)
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	dead := func(path string) {
		t.Helper()
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
		ln.Close()
	}
	dead(filepath.Join(run, "1"+socketSuffix))
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	dead(filepath.Join(elsewhere, "s"))
	kept := map[string]bool{filepath.Join(elsewhere, "s"): true}
	// Files of earlier versions, and files that an attacker might create.
	for name, content := range map[string]string{"9.path": filepath.Join(elsewhere, "s"), "8" + socketSuffix: "no socket"} {
		path := filepath.Join(run, name)
		kept[path] = true
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Symlink(filepath.Join(elsewhere, "s"), filepath.Join(run, "7"+socketSuffix)) == nil {
		kept[filepath.Join(run, "7"+socketSuffix)] = true
	}
	if got := openRun(t, dir).Sockets(); !slices.Equal(got, []string{"1" + socketSuffix}) {
		t.Fatalf("left behind are %q", got)
	}
	startControl(t, dir, "one")
	if got := answers(t, dir); !slices.Equal(got, []string{"one"}) {
		t.Errorf("servers %q", got)
	}
	for path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s was removed", path)
		}
	}
}

// TestControlRefusesLink checks that a link in place of the folder is refused, and that
// its target is not changed.
func TestControlRefusesLink(t *testing.T) {
	dir := shortDir(t)
	target := filepath.Join(dir, "target")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(store, FolderName)); err != nil {
		t.Skip("no links can be made: ", err)
	}
	before, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Listen(store); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("listening: %v, %v", c, err)
	}
	if _, err := OpenFolder(store, false); err == nil {
		t.Error("the folder behind a link is used")
	}
	after, err := os.Stat(target)
	if entries, _ := os.ReadDir(target); err != nil || before.Mode() != after.Mode() || len(entries) > 0 {
		t.Errorf("the target has mode %v and %v in it, %v", after.Mode(), entries, err)
	}
}

// FuzzControlAnswer checks that the command survives any answer.
func FuzzControlAnswer(f *testing.F) {
	f.Add([]byte(`{"pid":1,"config":"\u001b[2J","reload":{"changes":["a\nb"],"problems":[],"warnings":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var a Response
		if json.Unmarshal(raw, &a) != nil || a.Reload == nil {
			return
		}
		var out strings.Builder
		if err := a.Write(&out); err != nil || strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
}
