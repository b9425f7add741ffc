//go:build unix

package owner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// family returns a folder dir/a/b that belongs to a user who is not root, and several
// users.
func family(t *testing.T) (dir string, owner, other, root user) {
	t.Helper()
	dir = t.TempDir()
	owner = user{os.Geteuid(), os.Getegid()}
	if owner.uid == 0 {
		owner = user{4242, 4242}
	}
	for _, name := range []string{"", "a", "a/b"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(path, owner.uid, owner.gid); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, owner, user{owner.uid + 1, owner.gid + 1}, user{}
}

func TestWhoMayChangeAFolder(t *testing.T) {
	dir, owner, other, root := family(t)
	shared := user{owner.uid, owner.gid + 7} // its own group is not that of the folder
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a/../a", link); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		by    user
		ask   string // below dir
		at    string // the path that gets the mode
		mode  fs.FileMode
		wrong string // the folder in the error, "" for none
		sure  bool
		says  string
	}{
		"private":                       {owner, "a/b", "a/b", 0o700, "", false, ""},
		"others may read":               {owner, "a/b", "a/b", 0o755, "", false, ""},
		"everybody":                     {owner, "a/b", "a/b", 0o777, "a/b", true, "everybody may write to it (chmod o-w it)"},
		"everybody, above":              {owner, "a/b", "a", 0o777, "a", true, "everybody may write to it"},
		"everybody, far above":          {owner, "a/b", "", 0o777, "", true, "everybody may write to it"},
		"sticky, above":                 {owner, "a/b", "a", 0o777 | fs.ModeSticky, "", false, ""},
		"sticky":                        {owner, "a/b", "a/b", 0o777 | fs.ModeSticky, "a/b", true, "everybody may write to it"},
		"one's own group":               {owner, "a/b", "a/b", 0o775, "", false, ""},
		"a group":                       {shared, "a/b", "a/b", 0o775, "a/b", false, "its group may write to it"},
		"a group, above":                {shared, "a/b", "a", 0o775, "a", false, "its group may write to it"},
		"another user":                  {other, "a/b", "a/b", 0o755, "a/b", true, "belongs to user"},
		"root uses a user's":            {root, "a/b", "a/b", 0o755, "a/b", false, "belongs to user"},
		"not there":                     {owner, "a/b/c/d", "a/b", 0o700, "", false, ""},
		"not there, below everybody's":  {owner, "a/b/c/d", "a/b", 0o777, "a/b", true, "everybody may write to it"},
		"a link":                        {owner, "link/b", "a", 0o755, "", false, ""},
		"a link to everybody's":         {owner, "link/b", "a", 0o777, "a", true, "everybody may write to it"},
		"another user's in sticky":      {other, "a/b", "a", 0o777 | fs.ModeSticky, "a/b", true, "in a folder where everybody may make files"},
		"another user's link in sticky": {other, "link/b", "", 0o777 | fs.ModeSticky, "link", true, "is a link of user"},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(dir, tt.at)
			if err := os.Chmod(at, tt.mode); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(at, 0o755)
			if os.Geteuid() == 0 {
				if err := os.Lchown(link, owner.uid, owner.gid); err != nil {
					t.Fatal(err)
				}
			}
			problems, err := tt.by.inspect(filepath.Join(dir, tt.ask))
			if err != nil {
				t.Fatal(err)
			}
			found := tt.says == "" && len(problems) == 0
			for _, p := range problems {
				found = found || p.At == filepath.Join(dir, tt.wrong) && p.Certain == tt.sure && tt.says != "" && strings.Contains(p.Error(), tt.says)
			}
			if !found {
				t.Errorf("problems %v, want %q at %q, certain %v", problems, tt.says, tt.wrong, tt.sure)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if doubts, err := Check(dir); err != nil || len(doubts) > 0 && os.Geteuid() != 0 {
		t.Errorf("%v, %v", doubts, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{func() error { _, err := Check(dir); return err }(), CheckStrictly(dir), CheckStrictly(filepath.Join(dir, "none"))} {
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), dir) {
			t.Errorf("error %v", err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(filepath.Join(file, "x")); err == nil || errors.Is(err, ErrUnsafe) {
		t.Errorf("below a file: %v", err)
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(filepath.Join(dir, "loop")); err == nil || errors.Is(err, ErrUnsafe) {
		t.Errorf("a link to itself: %v", err)
	}
}

func TestCheckFile(t *testing.T) {
	dir, owner, other, root := family(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, owner.uid, owner.gid); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		by   user
		mode fs.FileMode
		ok   bool
	}{{owner, 0o600, true}, {owner, 0o664, true}, {owner, 0o666, false}, {root, 0o644, true}, {other, 0o644, false}} {
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.by.file(info); (err == nil) != tt.ok {
			t.Errorf("%+v, mode %v: %v", tt.by, tt.mode, err)
		}
	}
}
