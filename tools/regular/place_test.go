package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestPlace(t *testing.T) {
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "inside"), filepath.Join(dir, "outside")
	if err := errors.Join(os.MkdirAll(filepath.Join(inside, "below"), 0o755), os.WriteFile(outside, []byte("secret"), 0o644)); err != nil {
		t.Fatal(err)
	}
	content := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	for _, p := range []Place{{Folder: inside, Name: "below/new"}, {Name: filepath.Join(inside, "below", "other")}} {
		if _, err := p.Read(t.Context(), 10); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
		for _, text := range []string{"one", "two"} {
			if err := p.Replace([]byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
			got, err := p.Read(t.Context(), 10)
			if err != nil || string(got) != text || content(p.String()) != text {
				t.Errorf("%s: %q, %v", p, got, err)
			}
		}
		if info, err := os.Stat(p.String()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
		if err := os.Chmod(p.String(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Replace([]byte("three"), 0o640); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(p.String()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s did not keep its mode: %v, %v", p, info.Mode(), err)
		}
	}
	for _, p := range []Place{{inside, "../outside"}, {inside, outside}, {inside, ".."}, {inside, "below"}, {Name: inside}, {inside, "none/file"}, {filepath.Join(dir, "none"), "file"}} {
		if data, err := p.Read(t.Context(), 10); err == nil {
			t.Errorf("%s is read: %q", p, data)
		}
		if err := p.Replace([]byte("x"), 0o600); err == nil {
			t.Errorf("%s is replaced", p)
		}
	}
	if got := content(outside); got != "secret" {
		t.Errorf("outside is %q", got)
	}
	if entries, err := os.ReadDir(filepath.Join(inside, "below")); err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestPlaceAndLinks checks that with a folder no link leads out of it, for reading and for
// writing, and that without a folder links are followed and stay.
func TestPlaceAndLinks(t *testing.T) {
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "inside"), filepath.Join(dir, "outside")
	if err := errors.Join(os.MkdirAll(inside, 0o755), os.MkdirAll(outside, 0o755), os.WriteFile(filepath.Join(outside, "file"), []byte("secret"), 0o644)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(inside, "link")
	if err := errors.Join(os.Symlink(filepath.Join(outside, "file"), link), os.Symlink(outside, filepath.Join(inside, "folder"))); err != nil {
		t.Skip("no links can be made: ", err)
	}
	for _, name := range []string{"link", "folder/file"} {
		p := Place{inside, name}
		if data, err := p.Read(t.Context(), 10); !errors.Is(err, ErrOutside) {
			t.Errorf("%s is read: %q, %v", p, data, err)
		}
		if err := p.Replace([]byte("x"), 0o600); err == nil {
			t.Errorf("%s is replaced", p)
		}
	}
	if err := (Place{Name: link}).Replace([]byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(outside, "file"))
	if info, bad := os.Lstat(link); err != nil || bad != nil || string(data) != "new" || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("through a link: %q, %v, %v", data, err, bad)
	}
}
