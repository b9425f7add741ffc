// Package clientconfig reads and edits the files in which MCP hosts such as Claude Code, Cursor and
// Codex list their servers. Begin with [Host] and [File], [Read] (a file -> its servers, as
// [Server]), and [Entry] (the entry that starts the proxy, and its editing).
//
// Files come from other programs, from repositories and from the web, and so are hostile input:
// size and depth are bounded, errors never quote values, and an edit only changes a text. The
// caller writes the text to the file. Concurrent use of all functions is safe.
package clientconfig

import (
	"errors"
	"fmt"
)

// MaxFile is the largest file of a host that is read, in bytes. Claude Code keeps its history in
// the same file as its servers.
const MaxFile = 16 << 20

// maxDepth is the deepest nesting of a file of a host. Real files have less than twenty
// levels.
const maxDepth = 200

// ErrSyntax is matched by errors.Is if a text is not in the format of its file. The error is a
// [*SyntaxError].
var ErrSyntax = errors.New("invalid syntax")

// SyntaxError is the error for a text in a wrong format. The error quotes nothing of the text,
// which can contain secrets.
type SyntaxError struct {
	Line, Column int // from 1; 0 if unknown
	Text         string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// Is makes a SyntaxError match ErrSyntax.
func (e *SyntaxError) Is(target error) bool { return target == ErrSyntax }

// ErrShape is matched by errors.Is if a text has its format, but not an object in the place of the
// list of servers, or the same key twice there.
var ErrShape = errors.New("unexpected content")

// shapeError names the wrong part of a text.
type shapeError struct{ text string }

func (e *shapeError) Error() string        { return e.text }
func (e *shapeError) Is(target error) bool { return target == ErrShape }
