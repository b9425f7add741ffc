// Package bundle reads and writes bundles: the format in which saved tools are exported,
// imported and reviewed. A bundle is TOML that people can read:
//
//	format = "mcp-metatool tools 1"
//
//	[tool.greet]
//	description = "Greets somebody."
//	inputSchema = '''
//	{
//	  "type": "object"
//	}
//	'''
//	limits = '{"calls":3}'
//	permissions = [
//	  "github.get_issue",
//	]
//	code = '''
//	return "hello"
//	'''
//
//	[tool.greet.files]
//	"greet.toml" = '''
//	[[check]]
//	...
//	'''
//
// Schemas and limits are JSON text, so that numbers and the order of keys are preserved;
// all texts are restored byte for byte. The permissions are those that the tool had; bounds
// are those of its author, if there are any. A bundle can also be a folder: NAME.toml as above
// for each tool, but with code_file = "NAME.star" in place of code, that script, and the
// tool's other files in smoke/.
//
// The other files of a tool, see [Owns], are its smoke tests and what they record. They are
// in the folder "smoke" in the store's directory (beside the folder "tools"), see [FileStore].
//
// A bundle may be hostile: nothing outside of its folder is read, symbolic links are not
// followed, sizes are limited, and errors are an [*Error] with a position. Scripts are not
// parsed here.
//
// Files: write.go (writing), read.go and folder.go (reading), filestore.go (the
// files beside a tool).
package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Format is the value of a bundle's "format" key.
const Format = "mcp-metatool tools 1"

// Limits of what is read.
const (
	// MaxBytes is the size of a bundle, or of all files in a folder.
	MaxBytes = 64 << 20
	// MaxFiles is the number of files that a folder may have.
	MaxFiles = 4096
)

// FilesDir is the name of the folder of the files beside tools.
const FilesDir = "smoke"

const (
	tomlSuffix   = ".toml"
	scriptSuffix = ".star"
)

// recordings are the suffixes of files that smoke tests record: cassettes, and locks.
var recordings = []string{".cassette.toml", ".lock.toml"}

// IsRecording reports whether a file beside a tool was recorded, not written.
func IsRecording(file string) bool {
	return slices.ContainsFunc(recordings, func(suffix string) bool { return strings.HasSuffix(file, suffix) })
}

// Tool is a definition without metadata, and the files beside it.
type Tool struct {
	tools.Definition
	Files []File // sorted by name
}

// File is a text file beside a tool. Its name is one that the tool Owns.
type File struct{ Name, Content string }

// Owns reports whether a file beside tools belongs to the tool. Its smoke tests are in
// NAME.toml and its cassettes in NAME.cassette.toml or NAME.ANYTHING.cassette.toml, where
// ANYTHING consists of A-Z a-z 0-9 _ - and "."; its locks are likewise in *.lock.toml.
// Names of tools have no ".", so each file belongs to at most one tool.
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

// Error describes an error in a bundle, with its position.
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
