//go:build unix

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
)

// TestCacheRefusesSharedParent checks that a cache is refused if others can write to
// a parent directory, because they could replace the cache.
func TestCacheRefusesSharedParent(t *testing.T) {
	top := t.TempDir()
	above, cache := filepath.Join(top, "above"), filepath.Join(top, "above", "cache")
	if err := errors.Join(os.MkdirAll(cache, 0o700), os.Chmod(above, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openCache(cache, [32]byte{}); !errors.Is(err, owner.ErrUnsafe) {
		t.Errorf("a folder above that everybody may write to: %v", err)
	}
	if os.Geteuid() == 0 { // only root can give a directory to another group
		if err := errors.Join(os.Chown(above, 0, 4242), os.Chmod(above, 0o770)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openCache(cache, [32]byte{}); !errors.Is(err, owner.ErrUnsafe) {
			t.Errorf("a folder above that a group may write to: %v", err)
		}
	}
	if err := errors.Join(os.Chown(above, os.Geteuid(), os.Getegid()), os.Chmod(above, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openCache(cache, [32]byte{}); err != nil {
		t.Error(err)
	}
}
