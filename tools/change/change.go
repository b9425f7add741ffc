// Package change writes files of the user with consent: it shows the difference first and
// asks, unless it is told not to.
//
//	change.go  Options.Apply: show, ask, write
//	diff.go    Diff
//	write.go   writing one file: lock, comparison, backup, atomic replacement
//
// Every command that changes a configuration, ours or that of another program, uses it.
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

// File is a change of one file.
type File struct {
	// Path is the file. A symbolic link is followed: it stays.
	Path string
	// Before is what the change is based on; nil if there is no such file. It is an error if
	// the file has other contents when it is written.
	Before []byte
	// After is the new content.
	After []byte
	// Perm is the mode of a new file; one that exists keeps its mode. 0 means 0600.
	Perm fs.FileMode
	// Write writes After to where it belongs in place of the file, which is only for people
	// then. The error is ErrChanged if it is not Before there any more. Nil: the file is
	// written.
	Write func(ctx context.Context, after []byte) error
	// Backup keeps the old content beside the file, as PATH.bak, or PATH.bak2 and so on if
	// that exists already.
	Backup bool
}

// changed reports whether there is something to write.
func (f *File) changed() bool { return f.Before == nil || !bytes.Equal(f.Before, f.After) }

// Options says how to ask. The zero value refuses to write.
type Options struct {
	// Yes writes without asking. DryRun shows only what would be written.
	Yes, DryRun bool
	// Out gets the difference.
	Out io.Writer
	// Ask asks a person a question that is answered with yes or no; nil: there is nobody to
	// ask.
	Ask func(ctx context.Context, question string) (bool, error)
	// Mask replaces the secrets in a text that is shown; nil: there are none.
	Mask func(string) string
	// Question is what is asked; "" for "Write this?".
	Question string
}

// Outcome says what Apply has done.
type Outcome int

// The outcomes. After an error, it is the best of what is known.
const (
	Unchanged Outcome = iota // there was nothing to write
	Shown                    // a dry run
	Declined                 // the person said no
	Written
)

// ErrNobody is matched by errors.Is if there is nobody to ask and nothing said to write
// without asking.
var ErrNobody = errors.New("nothing was written: there is no terminal to ask on (--yes writes without asking, --dry-run only shows the difference)")

// ErrChanged is matched by errors.Is if a file has changed since it was read.
var ErrChanged = errors.New("it has changed since it was read (run the command again)")

// Apply shows the differences, asks once, and writes the files in order. Writing ends at the
// first error, which names the file; those before it are written. Backups are the absolute
// paths of those that were made.
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

// show writes the difference of one file.
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
