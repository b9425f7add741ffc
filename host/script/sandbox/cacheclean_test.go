package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// cacheOfFiles returns a cache directory with files.
func cacheOfFiles(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "wasm")
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	names, err := regular.Names(root, ".", 100)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCleanCache(t *testing.T) {
	if names, err := CachedGuests(filepath.Join(t.TempDir(), "none")); names != nil || err != nil {
		t.Errorf("without a cache: %q, %v", names, err)
	}
	dir := cacheOfFiles(t, "guest-1/a/code", "guest-2/code", "compiling-old/x", "compiling-now/x", "compiling.lock", "mine/x", "guest-file")
	old := time.Now().Add(-2 * staleAfter)
	if err := os.Chtimes(filepath.Join(dir, "compiling-old"), old, old); err != nil {
		t.Fatal(err)
	}
	names, err := CachedGuests(dir)
	if want := []string{"compiling-old", "guest-1", "guest-2"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("%q, %v; want %q", names, err, want)
	}
	for _, bad := range []string{"mine", "../wasm/guest-1", "guest-1/../mine"} {
		if err := CleanCache(t.Context(), dir, []string{bad}); err == nil {
			t.Errorf("%s is removed", bad)
		}
	}
	if err := CleanCache(t.Context(), dir, append(names, "guest-gone")); err != nil {
		t.Fatal(err)
	}
	if left, want := namesIn(t, dir), []string{"compiling-now", "compiling.lock", "guest-file", "mine"}; !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// TestCleanCacheWaits checks that a cache is not removed while a process compiles for it.
func TestCleanCacheWaits(t *testing.T) {
	dir := cacheOfFiles(t, "guest-1/code")
	lock := regular.NewLock(filepath.Join(dir, lockName))
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- CleanCache(ctx, dir, []string{"guest-1"}) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ends with %v", err)
	}
	go func() { done <- CleanCache(t.Context(), dir, []string{"guest-1"}) }()
	if _, err := os.Stat(filepath.Join(dir, "guest-1", "code")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(lock.Unlock(), <-done); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "guest-1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestCleanCacheKeepsToItsFolder checks that what links lead to stays.
func TestCleanCacheKeepsToItsFolder(t *testing.T) {
	dir := cacheOfFiles(t, "guest-1/code")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(dir, "guest-1", "link")); err != nil {
		t.Skip("no links can be made: ", err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(dir, "guest-link")); err != nil {
		t.Fatal(err)
	}
	names, err := CachedGuests(dir)
	if err != nil || !slices.Equal(names, []string{"guest-1"}) {
		t.Errorf("%q, %v", names, err)
	}
	if err := CleanCache(t.Context(), dir, append(names, "guest-link")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}
