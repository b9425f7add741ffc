// Package bundle has the form in which saved tools travel: between machines,
// and through reviews. A bundle is TOML, to be read by people:
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
// Schemas and limits are JSON text, so that no number or order of keys changes
// on the way; all texts come back byte for byte. A bundle can also be a folder:
// NAME.toml as above for each tool, but with code_file = "NAME.star" in place of
// code, that script, and the tool's other files in smoke/.
//
// Those other files, see [Owns], are a tool's smoke tests and what they record.
// They lie in the folder "smoke" under the store's directory (beside the folder
// "tools"), see [Shelf].
//
// A bundle may be hostile: nothing outside of its folder is read, symbolic links
// are not followed, sizes are bounded, and what is wrong is an [*Error] that says
// where. Scripts are not parsed here.
//
// Files: quote.go and write.go (writing), read.go and folder.go
// (reading), shelf.go (the files beside a tool).
package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Format is what a bundle says of itself.
const Format = "mcp-metatool tools 1"

// Limits on what is read.
const (
	// MaxBytes is the size of a bundle, or of all files of a folder.
	MaxBytes = 64 << 20
	// MaxFiles is how many files a folder may have.
	MaxFiles = 4096
)

// FilesDir is the folder of the files beside tools.
const FilesDir = "smoke"

const (
	tomlSuffix   = ".toml"
	scriptSuffix = ".star"
)

// recordings are the suffixes of what smoke tests record: cassettes, and what
// servers offer.
var recordings = []string{".cassette.toml", ".lock.toml"}

// IsRecording reports whether a file beside a tool was recorded, not written.
func IsRecording(file string) bool {
	return slices.ContainsFunc(recordings, func(suffix string) bool { return strings.HasSuffix(file, suffix) })
}

// Tool is a definition without metadata, and what lies beside it.
type Tool struct {
	tools.Definition
	Files []File // sorted by name
}

// File is a text file beside a tool. Its name is one that the tool Owns.
type File struct{ Name, Content string }

// Owns reports whether a file beside tools is that of the tool: its smoke tests
// are in NAME.toml, its cassettes in NAME.cassette.toml or
// NAME.ANYTHING.cassette.toml, where ANYTHING is of A-Z a-z 0-9 _ - and "."; its
// locks likewise in *.lock.toml. Names of tools have no ".", so each file has one
// owner at most.
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

// Error is something wrong with a bundle, and where.
type Error struct {
	File         string
	Line, Column int // from 1; 0 when not known
	Text         string
	Err          error // what Text is about, may be nil
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}

func (e *Error) Unwrap() error { return e.Err }
