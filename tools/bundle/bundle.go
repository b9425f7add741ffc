// Package bundle reads and writes bundles: the TOML format in which saved tools are exported,
// imported and reviewed. Begin with [Read], [Text] and [WriteFolder].
//
// A bundle is a file, or a folder with NAME.toml and NAME.star for each tool, and code_file =
// "NAME.star" in place of code. The other files of a tool, see [Owns], are smoke tests and
// recordings in smoke/, see [FileStore]. Texts are restored byte for byte.
//
// A bundle may be hostile: nothing outside of the bundle's folder is read, symbolic links are not
// followed, sizes are limited, and errors are an [*Error] with a position. No script is parsed.
package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Format is the value of a bundle's "format" key.
const Format = "mcp-metatool tools 1"

// Limits of reading.
const (
	// MaxBytes is the size of a bundle, or of all files in a folder.
	MaxBytes = 64 << 20
	// MaxFiles is the largest number of files in a folder.
	MaxFiles = 4096
)

// FilesDir is the name of the folder of the files next to tools.
const FilesDir = "smoke"

const (
	tomlSuffix   = ".toml"
	scriptSuffix = ".star"
)

// recordings are the suffixes of files recorded by smoke tests: cassettes, and locks.
var recordings = []string{".cassette.toml", ".lock.toml"}

// IsRecording reports whether a file next to a tool was recorded, not written.
func IsRecording(file string) bool {
	return slices.ContainsFunc(recordings, func(suffix string) bool { return strings.HasSuffix(file, suffix) })
}

// Tool is a definition without metadata, and the files next to the tool.
type Tool struct {
	tools.Definition
	Files []File // sorted by name
}

// File is a text file next to a tool, with a name that the tool Owns.
type File struct{ Name, Content string }

// Owns reports whether a file next to tools belongs to the tool. Smoke tests are in NAME.toml and
// cassettes in NAME.cassette.toml or NAME.ANYTHING.cassette.toml, where ANYTHING consists of A-Z
// a-z 0-9 _ - and "."; locks are likewise in *.lock.toml. Names of tools have no ".", so each file
// belongs to at most one tool.
func Owns(tool, file string) bool {
	rest, ok := strings.CutPrefix(file, tool)
	if !ok || len(file) > 200 {
		return false
	}
	if rest == tomlSuffix {
		return true
	}
	for _, suffix := range recordings {
		middle, ok := strings.CutSuffix(rest, suffix)
		if ok && (middle == "" || len(middle) > 1 && middle[0] == '.' && strings.Trim(middle, allowed) == "") {
			return true
		}
	}
	return false
}

const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."

// Error describes an error in a bundle, with a position.
type Error struct {
	File         string
	Line, Column int // from 1; 0 if unknown
	Text         string
	Err          error // the cause; may be nil
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}

func (e *Error) Unwrap() error { return e.Err }
