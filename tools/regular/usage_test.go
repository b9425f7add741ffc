package regular

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	if err := os.MkdirAll(filepath.Join(dir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"one": "1", "b/two": "22"} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{dir}
	if err := os.Symlink(dir, filepath.Join(dir, "b", "up")); err == nil { // not followed
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, link)
	}
	for _, path := range paths {
		if files, bytes := Usage(path, 10); files != 2 || bytes != 3 {
			t.Errorf("%d files, %d bytes", files, bytes)
		}
	}
	if files, _ := Usage(dir, 1); files != 1 {
		t.Errorf("%d files of at most 1", files)
	}
	if files, bytes := Usage(filepath.Join(dir, "b", "two"), 10); files != 1 || bytes != 2 {
		t.Errorf("a file: %d files, %d bytes", files, bytes)
	}
	if err := os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "linked")); err == nil {
		var c Counter
		if files, bytes := c.Usage(dir, 10); files != 2 || bytes != 3 {
			t.Errorf("with a second name: %d files, %d bytes", files, bytes)
		}
		if files, bytes := c.Usage(dir, 10); files != 0 || bytes != 0 {
			t.Errorf("counted again: %d files, %d bytes", files, bytes)
		}
	}
	if files, bytes := Usage(filepath.Join(dir, "none"), 10); files != 0 || bytes != 0 {
		t.Errorf("nothing: %d files, %d bytes", files, bytes)
	}
}
