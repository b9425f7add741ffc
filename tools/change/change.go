// Package change writes files of the user with consent: [Options.Apply] shows the difference, asks
// unless told not to, and writes each file with a lock, a comparison, a backup and an atomic
// replacement.
//
// Every command that changes a configuration, ours or another program's, uses this package.
package change

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// File is a change of a file.
type File struct {
	// Path is the file. A symbolic link is followed and stays.
	Path string
	// Before is the content on which the change is based; nil for a new file. If the file has other
	// contents at the time of the write, the write fails.
	Before []byte
	// After is the new content.
	After []byte
	// Perm is the mode of a new file; an existing file keeps its mode. 0 means 0600.
	Perm fs.FileMode
	// Write writes After to its real place instead of the file, which is then only for people. The
	// error is ErrChanged if the place no longer holds Before. Nil: the file is written.
	Write func(ctx context.Context, after []byte) error
	// Backup keeps the old content next to the file, as PATH.bak, or PATH.bak2 and so on if
	// PATH.bak exists.
	Backup bool
}

// changed reports whether the change differs from the file.
func (f *File) changed() bool { return f.Before == nil || !bytes.Equal(f.Before, f.After) }

// Options says how to ask. The zero value refuses to write.
type Options struct {
	// Yes writes without asking. DryRun only shows the change.
	Yes, DryRun bool
	// Out gets the difference.
	Out io.Writer
	// Ask asks a person a question with the answers yes and no; nil: no person can be asked.
	Ask func(ctx context.Context, question string) (bool, error)
	// Mask replaces the secrets in a displayed text; nil: no secrets.
	Mask func(string) string
	// Question is the question for Ask; "" for "Write this?".
	Question string
}

// Outcome is the result of Apply.
type Outcome int

// The outcomes. After an error, the outcome is the best of the known ones.
const (
	Unchanged Outcome = iota // nothing had to be written
	Shown                    // a dry run
	Declined                 // the person said no
	Written
)

// ErrNobody is matched by errors.Is if no person can be asked and Yes is not set.
var ErrNobody = errors.New("nothing was written: there is no terminal to ask on (--yes writes without asking, --dry-run only shows the difference)")

// ErrChanged is matched by errors.Is if a file has changed since the read.
var ErrChanged = errors.New("it has changed since it was read (run the command again)")

// Apply shows the differences, asks once, and writes the files in order. Writing ends at the first
// error, which names the file; the files before it are written. Backups are the absolute paths of
// the backups made.
func (o Options) Apply(ctx context.Context, files ...File) (outcome Outcome, backups []string, err error) {
	var todo []File
	for _, f := range files {
		if f.changed() {
			todo = append(todo, f)
		}
	}
	if len(todo) == 0 {
		return Unchanged, nil, nil
	}
	for _, f := range todo {
		if err := o.show(f); err != nil {
			return Unchanged, nil, err
		}
	}
	if o.DryRun {
		return Shown, nil, nil
	}
	if !o.Yes {
		if o.Ask == nil {
			return Shown, nil, ErrNobody
		}
		question := o.Question
		if question == "" {
			question = "Write this?"
		}
		if yes, err := o.Ask(ctx, question); err != nil || !yes {
			return Declined, nil, err
		}
	}
	for _, f := range todo {
		backup, err := f.write(ctx)
		if backup != "" {
			backups = append(backups, backup)
		}
		if err != nil {
			return Written, backups, fmt.Errorf("%s: cannot be written: %w", f.Path, err)
		}
	}
	return Written, backups, nil
}

// show writes the difference of a file.
func (o Options) show(f File) error {
	path, err := filepath.Abs(f.Path)
	if err != nil {
		path = f.Path
	}
	before := path
	if f.Before == nil {
		before = "(no file)"
	}
	text := Diff(before, f.Before, path, f.After)
	if text == "" { // a new empty file
		text = "+++ " + display.EscapeLine(path) + " (empty)\n"
	}
	if o.Mask != nil {
		text = o.Mask(text)
	}
	_, err = io.WriteString(o.Out, text)
	return err
}

// Diff returns a unified diff of two texts for people, "" if they are equal. Characters invisible
// in a terminal are escaped.
func Diff(beforeName string, before []byte, afterName string, after []byte) string {
	text := diff.Diff(beforeName, before, afterName, after)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the command line of a diff
	return display.Escape(string(text))
}

// lockRetry is the interval between attempts to take a lock held by another process.
const lockRetry = 20 * time.Millisecond

// maxBackups is the largest number of backups of a file.
const maxBackups = 99

// write writes the file, if the content is still Before, and returns the path of the backup, if
// any.
func (f *File) write(ctx context.Context) (backup string, err error) {
	if f.Write != nil {
		return "", f.Write(ctx, f.After)
	}
	if f.Before == nil {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			return "", err
		}
	}
	path, err := resolve(f.Path)
	if err != nil {
		return "", err
	}
	unlock, err := Lock(ctx, path)
	if err != nil {
		return "", err
	}
	defer unlock()
	now, err := regular.Read(ctx, path, math.MaxInt64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.Before != nil {
			return "", ErrChanged
		}
	case err != nil:
		return "", err
	case f.Before == nil, !bytes.Equal(now, f.Before):
		return "", ErrChanged
	}
	if f.Backup && f.Before != nil {
		if backup, err = f.backUp(path); err != nil {
			return "", err
		}
	}
	return backup, regular.Place{Name: path}.Replace(f.After, cmp.Or(f.Perm, 0o600))
}

// backUp writes the old content next to the file, with the file's mode.
func (f *File) backUp(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	name := path + ".bak"
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, regular.Write(name, f.Before, info.Mode().Perm())
		}
		if n > maxBackups {
			return "", fmt.Errorf("the folder has %d backups of the file already (remove some)", maxBackups)
		}
		name = fmt.Sprintf("%s.bak%d", path, n)
	}
}

// Lock takes the lock of a file, which keeps our other processes from changing the file. The lock
// is a file in the user's cache, since a folder of another program is no place for a lock; only
// without a cache is the lock next to the file. Links in path make no difference. The error is from
// ctx if ctx ends while another process has the lock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if path, err = resolve(path); err != nil {
		return nil, err
	}
	name := path + ".lock"
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "mcp-metatool", "locks")
		if os.MkdirAll(dir, 0o700) == nil {
			sum := sha256.Sum256([]byte(path))
			name = filepath.Join(dir, hex.EncodeToString(sum[:16]))
		}
	}
	l := regular.NewLock(name)
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { _ = l.Unlock() }, nil // nothing was written to the lock file
}

// resolve returns the absolute path of a file without links. The file need not exist.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path)), nil
	}
	return path, nil
}
