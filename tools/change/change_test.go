package change

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// answers returns an Ask that gives one answer and counts the questions.
func answers(yes bool, asked *int) func(context.Context, string) (bool, error) {
	return func(context.Context, string) (bool, error) { *asked++; return yes, nil }
}

func setUp(t *testing.T) (path string) {
	t.Helper()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "cache"))
	}
	path = filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte("a = 1\nb = \"hunter2\"\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestApply(t *testing.T) {
	before := []byte("a = 1\nb = \"hunter2\"\n")
	after := []byte("a = 2\nb = \"hunter2\"\n# \x1b[31m\u202e\n")
	for _, tt := range []struct {
		what    string
		options Options
		yes     bool // the answer
		asked   int
		outcome Outcome
		err     error
	}{
		{"nobody", Options{}, false, -1, Shown, ErrNobody},
		{"asked, no", Options{}, false, 1, Declined, nil},
		{"asked, yes", Options{}, true, 1, Written, nil},
		{"yes", Options{Yes: true}, false, 0, Written, nil},
		{"dry run", Options{DryRun: true}, true, 0, Shown, nil},
		{"dry run comes first", Options{DryRun: true, Yes: true}, true, 0, Shown, nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			path := setUp(t)
			var out bytes.Buffer
			asked := 0
			o := tt.options
			o.Out, o.Mask = &out, func(s string) string { return strings.ReplaceAll(s, "hunter2", "****") }
			if tt.asked >= 0 {
				o.Ask = answers(tt.yes, &asked)
			}
			outcome, backups, err := o.Apply(t.Context(), File{Path: path, Before: before, After: after, Backup: true})
			if outcome != tt.outcome || !errors.Is(err, tt.err) || asked != max(tt.asked, 0) {
				t.Errorf("%v, %v, asked %d times", outcome, err, asked)
			}
			want := "--- " + path + "\n+++ " + path + "\n@@ -1,2 +1,3 @@\n-a = 1\n+a = 2\n b = \"****\"\n+# \\x1b[31m\\u202e\n"
			if out.String() != want {
				t.Errorf("shows\n%s\nwant\n%s", out.String(), want)
			}
			now, err := os.ReadFile(path)
			if err != nil || bytes.Equal(now, after) != (tt.outcome == Written) {
				t.Errorf("has become %q (%v)", now, err)
			}
			if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v (%v)", info.Mode(), err)
			}
			if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1+len(backups) {
				t.Errorf("left behind: %v (%v)", entries, err)
			}
			if (len(backups) == 1) != (tt.outcome == Written) {
				t.Fatalf("backups %v", backups)
			}
			for _, b := range backups {
				if data, err := os.ReadFile(b); err != nil || !bytes.Equal(data, before) {
					t.Errorf("backup %q (%v)", data, err)
				}
			}
		})
	}
}

func TestApplyRefusesChangedFiles(t *testing.T) {
	path := setUp(t)
	o := Options{Yes: true, Out: &bytes.Buffer{}}
	for _, f := range []File{
		{Path: path, Before: []byte("other"), After: []byte("x")},
		{Path: path, After: []byte("x")},
		{Path: path + "2", Before: []byte("gone"), After: []byte("x")},
	} {
		if _, _, err := o.Apply(t.Context(), f); !errors.Is(err, ErrChanged) {
			t.Errorf("%v", err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "a = 1\nb = \"hunter2\"\n" {
		t.Errorf("%q, %v", data, err)
	}
	outcome, _, err := o.Apply(t.Context(), File{Path: path, Before: []byte("x"), After: []byte("x")})
	if outcome != Unchanged || err != nil {
		t.Errorf("%v, %v", outcome, err)
	}
}

func TestApplyCreatesFilesAndFollowsLinks(t *testing.T) {
	path := setUp(t)
	o := Options{Yes: true, Out: &bytes.Buffer{}}
	fresh := filepath.Join(filepath.Dir(path), "a", "b", "new.toml")
	if _, _, err := o.Apply(t.Context(), File{Path: fresh, After: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(fresh)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	link := filepath.Join(filepath.Dir(path), "link")
	if err := os.Symlink("config.toml", link); err != nil {
		t.Skip("no links can be made: ", err)
	}
	before, err := os.ReadFile(link)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.Apply(t.Context(), File{Path: link, Before: before, After: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if info, bad := os.Lstat(link); err != nil || bad != nil || string(data) != "x" || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%q, %v, %v", data, err, bad)
	}
}

// TestApplyLocks changes a file from many goroutines: each change that is written is based on
// the one before it.
func TestApplyLocks(t *testing.T) {
	path := setUp(t)
	o := Options{Yes: true, Out: &bytes.Buffer{}}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const n = 8
	errs := make(chan error, n)
	for i := range n {
		go func() {
			_, _, err := Options{Yes: true, Out: &bytes.Buffer{}}.Apply(t.Context(), File{Path: path, Before: before, After: []byte{byte(i)}})
			errs <- err
		}()
	}
	written := 0
	for range n {
		if err := <-errs; err == nil {
			written++
		} else if !errors.Is(err, ErrChanged) {
			t.Error(err)
		}
	}
	if written != 1 {
		t.Errorf("%d changes were written", written)
	}
	for range 2 { // backups do not overwrite each other
		before, err = os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, b, err := o.Apply(t.Context(), File{Path: path, Before: before, After: append(before, 'x'), Backup: true}); err != nil || len(b) != 1 {
			t.Errorf("%v, %v", b, err)
		}
	}
	if data, err := os.ReadFile(path + ".bak2"); err != nil || !bytes.Equal(data, before) {
		t.Errorf("%q, %v", data, err)
	}
}

// TestLockFollowsLinks checks that a file has one lock, through whatever links it is named,
// and whether it exists or not.
func TestLockFollowsLinks(t *testing.T) {
	path := setUp(t)
	folder := filepath.Dir(path)
	links := t.TempDir()
	if err := os.Symlink(folder, filepath.Join(links, "folder")); err != nil {
		t.Skip("no links can be made: ", err)
	}
	if err := os.Symlink(path, filepath.Join(links, "file")); err != nil {
		t.Fatal(err)
	}
	for name, others := range map[string][]string{
		path:                             {filepath.Join(links, "file"), filepath.Join(links, "folder", "config.toml"), filepath.Join(folder, "..", filepath.Base(folder), "config.toml")},
		filepath.Join(folder, "missing"): {filepath.Join(links, "folder", "missing")},
	} {
		unlock, err := Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range others {
			short, cancel := context.WithTimeout(t.Context(), testenv.Quiet(3*lockRetry))
			if again, err := Lock(short, other); err == nil {
				again()
				t.Errorf("%s is locked, and %s is not", name, other)
			}
			cancel()
		}
		unlock()
	}
}
