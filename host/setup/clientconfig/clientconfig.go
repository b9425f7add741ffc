// Package clientconfig reads and edits the files in which MCP hosts such as Claude Code,
// Cursor and Codex list the servers that they start.
//
//	hosts.go      Host: the known hosts, their keys and variables
//	places.go     File: where their files are on each system, user and project scope
//	value.go      the tree that a file of either format becomes
//	jsonc.go      JSON with comments -> tree; its guard against hostile files
//	editjson.go   setting and removing a member, with comments and order kept
//	toml.go       TOML -> tree
//	edittoml.go   setting and removing a table, with comments and order kept
//	read.go       Read: a file -> its servers; entryread.go: one entry
//	server.go     Server: one server in the terms of our configuration
//	variables.go  ${env:X}, ${input:x}, ${workspaceFolder} and the like -> ${X}
//	self.go       recognizing mcp-metatool among the servers, also behind npx, docker or sh
//	secrets.go    secrets in plain text
//	mask.go       hiding secrets in what is shown of a file
//	compare.go    how two servers differ
//	ours.go       the servers of our own configuration
//	entry.go      Entry: what a host is told to start us; editing a file, links, commands
//	transient.go  files that package managers delete
//	launch.go     the environment and the folder in which a host starts servers
//
// Files come from other programs, from repositories and from the web, so they are hostile
// input: they are bounded in size and depth, values are never quoted in errors, and an
// edit only changes a text. Who writes it to the file is the caller.
//
// All functions are safe for concurrent use.
package clientconfig

import (
	"errors"
	"fmt"
)

// MaxFile is the largest file of a host that is read, in bytes. Claude Code keeps its
// history in the same file as its servers.
const MaxFile = 16 << 20

// maxDepth is the deepest nesting of a file of a host. Real files have less than twenty
// levels.
const maxDepth = 200

// ErrSyntax is matched by errors.Is if a text is not in the format of its file. The error
// is a [*SyntaxError].
var ErrSyntax = errors.New("invalid syntax")

// SyntaxError says that a text is not in its format. It quotes nothing of the text, which
// can contain secrets.
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

// ErrShape is matched by errors.Is if a text has its format, but something that is not an
// object where the servers are listed, or has the same key twice there.
var ErrShape = errors.New("unexpected content")

// shapeError says where a text is not as it has to be.
type shapeError struct{ text string }

func (e *shapeError) Error() string        { return e.text }
func (e *shapeError) Is(target error) bool { return target == ErrShape }
