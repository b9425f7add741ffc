package regular

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestLoad lets several processes make one key, in a folder that no other user can read, and refuses
// files without a key, and paths that are no file.
func TestLoad(t *testing.T) {
	var made atomic.Int32
	f := KeyFile[string]{
		Name: "a.key", Lock: ".a.lock", What: "the key of a", Hint: " (do something)", Limit: 10,
		Parse: func(text []byte) (string, error) {
			if !strings.HasPrefix(string(text), "key") {
				return "", errors.New("is no key")
			}
			return string(text), nil
		},
		New: func() (string, []byte) {
			made.Add(1)
			return "key 1", []byte("key 1")
		},
	}
	dir := filepath.Join(t.TempDir(), "new", "store")
	path := filepath.Join(dir, f.Name)
	if _, err := f.Read(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if key, err := f.Load(context.Background(), dir); err != nil || key != "key 1" {
				t.Error(key, err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("%d keys were made", made.Load())
	}
	for _, name := range []string{dir, path} {
		if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, text := range []string{"", "short", "key" + strings.Repeat("x", 10)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Load(t.Context(), dir); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "(do something)") {
			t.Errorf("%q: %v", text, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, []byte(text)) {
			t.Errorf("the file was replaced: %q, %v", now, err)
		}
	}
	if _, err := f.Load(t.Context(), filepath.Join(path, "below")); err == nil || !strings.Contains(err.Error(), f.Name) {
		t.Errorf("below a file: %v", err)
	}
}
