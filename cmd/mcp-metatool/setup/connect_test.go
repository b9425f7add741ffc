package setup

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestStableBinary checks that a link is preferred to the file of a version.
func TestStableBinary(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a right there")
	}
	dir := t.TempDir()
	own := filepath.Join(dir, "Cellar", "mcp-metatool", "1.2.3", "bin", "mcp-metatool")
	link, other := filepath.Join(dir, "bin", "mcp-metatool"), filepath.Join(dir, "other", "mt")
	for _, path := range []string{own, link, other} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(own, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, other} {
		if err := os.Symlink(own, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ started, path, want string }{
		{other, filepath.Dir(link), other}, {"mcp-metatool", filepath.Dir(link), link}, {own, filepath.Dir(link), link},
		{own, dir, own}, {"elsewhere", dir, own},
	} {
		t.Setenv("PATH", tt.path)
		if got, err := stableBinary(own, tt.started); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v", tt.started, got, err)
		}
	}
}
