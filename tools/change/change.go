// Package change writes files of the user with consent: [Options.Apply] shows the difference, asks
// unless told not to, and writes each file with a lock, a comparison, a backup and an atomic
// replacement.
//
// Every command that changes a configuration, ours or another program's, uses this package.
package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
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
