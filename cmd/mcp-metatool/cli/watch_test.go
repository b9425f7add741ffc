package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// watched watches files, and reports the content of the first one that exists.
type watched struct {
	files ConfigFiles
	seen  chan string

	mu    sync.Mutex
	known [sha256.Size]byte
}

func startWatch(t *testing.T, files ...string) *watched {
	w := &watched{files: files, seen: make(chan string)}
	w.known = w.files.Fingerprint()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		w.files.Watch(ctx, slog.New(slog.DiscardHandler), func() [sha256.Size]byte {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.known
		}, func() {
			w.mu.Lock()
			w.known = w.files.Fingerprint()
			w.mu.Unlock()
			text := "nothing"
			for _, name := range files {
				if data, err := os.ReadFile(name); err == nil {
					text = string(data)
					break
				}
			}
			select {
			case w.seen <- text:
			case <-ctx.Done():
			}
		}, nil, nil)
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	return w
}

// expect waits until the given state of the files is reported.
func (w *watched) expect(t *testing.T, want string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case got := <-w.seen:
			if got == want {
				return
			}
		case <-late:
			t.Fatalf("%q was not told", want)
		}
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "sub", "config.toml"), filepath.Join(dir, "sub", "config.json")
	if err := os.Mkdir(filepath.Dir(first), 0o700); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, first, second)
	put(t, second, "made")
	w.expect(t, "made")
	put(t, second, "changed in place")
	w.expect(t, "changed in place")
	put(t, first+"~", "renamed over it")
	if err := os.Rename(first+"~", first); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "renamed over it")
	if err := errors.Join(os.Remove(first), os.Remove(second)); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "nothing")
}

// TestWatchOfLinks checks files that are links, or in a directory that is a link, as in
// Kubernetes.
func TestWatchOfLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take a privilege")
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	if err := errors.Join(os.Mkdir(one, 0o700), os.Mkdir(two, 0o700)); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(one, "config.toml"), "1")
	put(t, filepath.Join(two, "config.toml"), "2")
	data, name := filepath.Join(dir, "..data"), filepath.Join(dir, "config.toml")
	if err := errors.Join(os.Symlink("one", data), os.Symlink(filepath.Join("..data", "config.toml"), name)); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, name)
	put(t, filepath.Join(one, "config.toml"), "1, edited")
	w.expect(t, "1, edited")
	if err := errors.Join(os.Symlink("two", data+"~"), os.Rename(data+"~", data)); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "2")
	put(t, filepath.Join(two, "config.toml"), "2, edited")
	w.expect(t, "2, edited")
}

func TestReadAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	put(t, file, "")
	if err := ReadAgain(file); err != nil {
		t.Errorf("a file: %v", err)
	}
	if err := ReadAgain(filepath.Join(dir, "none")); err != nil {
		t.Errorf("no file: %v", err)
	}
	if ReadAgain(dir) == nil {
		t.Error("a directory can be read again")
	}
	if runtime.GOOS != "windows" && ReadAgain(os.DevNull) == nil {
		t.Error("a device can be read again")
	}
}
