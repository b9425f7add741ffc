package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, tt := range []struct {
		text string
		perm fs.FileMode
	}{{"one", 0o600}, {"", 0o640}, {"three", 0o600}} {
		if err := Write(file, []byte(tt.text), tt.perm); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != tt.text {
			t.Errorf("%q, %v, want %q", got, err, tt.text)
		}
		if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != tt.perm {
			t.Errorf("mode %v, %v, want %v", info.Mode(), err, tt.perm)
		}
	}
	onlyNames(t, dir, "file")
}

// TestWriteFails checks that a failed write leaves no temporary file and does not change
// the existing file.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := errors.Join(os.Mkdir(taken, 0o700), os.WriteFile(filepath.Join(taken, "kept"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{taken, filepath.Join(dir, "none", "file"), filepath.Join(taken, "kept", "file"), dir + string(filepath.Separator)} {
		if err := Write(path, []byte("x"), 0o600); err == nil {
			t.Errorf("%s is written", path)
		}
	}
	onlyNames(t, dir, "taken")
	onlyNames(t, taken, "kept")
}

// TestWriteReplacesLinks checks that the target of a link is never written.
func TestWriteReplacesLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no links can be made: ", err)
	}
	if err := Write(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "kept" {
		t.Errorf("the target of the link has %q, %v", data, err)
	}
	onlyNames(t, dir, "link", "target")
}

func TestTempRemove(t *testing.T) {
	dir := t.TempDir()
	root, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	temp, err := WriteTemp(root, ".", []byte("x"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, TempPrefix+"*")); len(left) != 1 {
		t.Errorf("temporary files: %v", left)
	}
	if err := temp.Remove(); err != nil {
		t.Fatal(err)
	}
	onlyNames(t, dir)
}

// onlyNames fails unless a folder has exactly these names.
func onlyNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if len(entries) != len(want) || e.Name() != want[i] {
			t.Errorf("%s has %v, want %q", dir, entries, want)
			return
		}
	}
	if len(entries) != len(want) {
		t.Errorf("%s has %v, want %q", dir, entries, want)
	}
}
