//go:build unix

package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// user is the user for whom folders are checked.
type user struct{ uid, gid int }

func inspect(dir string) ([]*Problem, error) { return user{os.Geteuid(), os.Getegid()}.inspect(dir) }

// CheckFile returns an error if a file in a folder of ours may be another user's: another user owns
// the file, or everybody may write.
func CheckFile(info fs.FileInfo) error { return user{os.Geteuid(), os.Getegid()}.file(info) }

func (u user) file(info fs.FileInfo) error {
	switch uid, _ := ids(info); {
	case u.uid != 0 && uid != u.uid && uid != 0:
		return fmt.Errorf("it belongs to user %d: %w (copy it, to have one of your own)", uid, ErrUnsafe)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("everybody may write to it: %w (chmod o-w it)", ErrUnsafe)
	}
	return nil
}

// maxLinks is the largest number of links on the way to a folder.
const maxLinks = 40

// inspect walks from the root to a folder, following all links.
func (u user) inspect(dir string) ([]*Problem, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w := walk{user: u, dir: path}
	at, rest, links := "/", split(path), 0
	above, err := os.Lstat(at)
	for err == nil {
		w.folder(at, above, len(rest) == 0)
		if len(rest) == 0 {
			return w.problems, nil
		}
		entry := filepath.Join(at, rest[0]) // for "..", the folder above
		rest = rest[1:]
		var info fs.FileInfo
		if info, err = os.Lstat(entry); err != nil {
			break
		}
		w.entry(entry, above, info)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, readErr := os.Readlink(entry)
			if links++; links > maxLinks {
				readErr = fmt.Errorf("%s: more than %d links lead to it", dir, maxLinks)
			}
			if err = readErr; err == nil && filepath.IsAbs(target) {
				at = "/"
				above, err = os.Lstat(at)
			}
			rest = append(split(target), rest...)
		case !info.IsDir():
			return nil, &fs.PathError{Op: "open", Path: entry, Err: errors.New("is not a directory")}
		default:
			at, above = entry, info
		}
	}
	if errors.Is(err, fs.ErrNotExist) { // the user who creates the rest owns the rest
		return w.problems, nil
	}
	return nil, err
}

// split returns the parts of a path, including "..".
func split(path string) []string {
	parts := strings.Split(path, "/")
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" || p == "." })
}

func ids(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}

// walk is the way to a folder.
type walk struct {
	user
	dir      string
	problems []*Problem
}

func (w *walk) add(at string, certain bool, format string, args ...any) {
	p := &Problem{w.dir, at, fmt.Sprintf(format, args...), certain}
	if !slices.ContainsFunc(w.problems, func(q *Problem) bool { return *q == *p }) {
		w.problems = append(w.problems, p)
	}
}

// trusted reports whether a user can change our files anyway.
func (w *walk) trusted(uid int) bool { return uid == w.uid || uid == 0 }

// folder checks a folder on the way; last is the one in question. In the folders above the last,
// the sticky bit keeps users from replacing files of other users; in the last, they could still add
// files.
func (w *walk) folder(at string, info fs.FileInfo, last bool) {
	uid, gid := ids(info)
	if !w.trusted(uid) {
		w.add(at, w.uid != 0, "belongs to user %d (use a folder of your own)", uid)
	}
	perm, sticky := info.Mode().Perm(), info.Mode()&fs.ModeSticky != 0
	switch {
	case sticky && !last:
	case perm&0o002 != 0:
		w.add(at, true, "everybody may write to it (chmod o-w it)")
	case perm&0o020 != 0 && !w.isPrivateGroup(gid):
		w.add(at, false, "its group may write to it (chmod g-w it, unless all of group %d may act as you)", gid)
	}
}

// isPrivateGroup reports whether a group belongs to one user: by convention, the group then has the
// number of the user. Where each user has a private group, the group may write to the user's files.
func (w *walk) isPrivateGroup(gid int) bool { return gid == w.gid && gid == w.uid }

// entry checks an entry of a folder on the way: where everybody may create files, the entry must be
// ours.
func (w *walk) entry(at string, above, info fs.FileInfo) {
	uid, _ := ids(info)
	open := above.Mode().Perm()&0o022 != 0 && above.Mode()&fs.ModeSticky != 0
	if open && !w.trusted(uid) && info.Mode()&fs.ModeSymlink != 0 {
		w.add(at, true, "is a link of user %d", uid)
	}
	if open && !w.trusted(uid) && info.IsDir() {
		w.add(at, true, "belongs to user %d, in a folder where everybody may make files", uid)
	}
}
