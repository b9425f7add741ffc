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
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
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

// Server is a server of a file, in the terms of the product's configuration: texts have the
// product's variables, and characters that only look like variables are escaped.
type Server struct {
	// Name is the name that the product's configuration allows; Original the name in the file.
	Name, Original string
	// Transport is the transport; "" if unknown, and then Problem is set.
	Transport config.Transport
	// Command, Args, Env and Dir are for config.Stdio. Command is as in the file, but a relative
	// path is made absolute.
	Command string
	Args    []string
	Env     []Setting
	Dir     string
	// URL and Headers are for the other transports.
	URL     string
	Headers []Setting
	// Expose and Hide are tools that the host shows exclusively, or not at all; nil: all are shown.
	Expose, Hide []string
	// Timeout of a call; 0: the default.
	Timeout time.Duration
	// Disabled servers are listed but not started.
	Disabled bool

	// References are variables that get their values from the host, with the expression in the
	// host's file: GITHUB_TOKEN and ${env:GITHUB_TOKEN}, for example.
	References []Setting

	// Self means that the server is mcp-metatool itself.
	Self bool
	// Problem is why the server cannot be imported; "" if possible.
	Problem string
	// Notes describe omissions and changes, in a sentence each.
	Notes []string
}

// Setting is a named text: an environment variable or a header.
type Setting struct{ Name, Value string }

// Listing is the result of Read for a place.
type Listing struct {
	File File
	// Exists reports whether the file exists.
	Exists bool
	// Data is the text of the file.
	Data []byte
	// Servers in the order of the file.
	Servers []Server
}

// Foreign returns how many of the servers are not mcp-metatool.
func (l *Listing) Foreign() int {
	n := 0
	for i := range l.Servers {
		if !l.Servers[i].Self {
			n++
		}
	}
	return n
}

// Self returns the entry of mcp-metatool, nil for none.
func (l *Listing) Self() *Server {
	for i := range l.Servers {
		if l.Servers[i].Self {
			return &l.Servers[i]
		}
	}
	return nil
}

// Clone returns an independent copy.
func (s *Server) Clone() *Server {
	c := *s
	c.Args, c.Env, c.Headers = slices.Clone(s.Args), slices.Clone(s.Env), slices.Clone(s.Headers)
	c.References = slices.Clone(s.References)
	c.Expose, c.Hide, c.Notes = slices.Clone(s.Expose), slices.Clone(s.Hide), slices.Clone(s.Notes)
	return &c
}
