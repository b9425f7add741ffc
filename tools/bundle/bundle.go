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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
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

// FileStore keeps the files next to tools, in a folder called FilesDir. Callers must not write the
// same file concurrently.
type FileStore struct{ dir string }

// NewFileStore returns a FileStore in dir, which is usually the directory of the tool store.
// The folder need not exist.
func NewFileStore(dir string) FileStore { return FileStore{dir} }

// Files returns the files of a tool, sorted by name; none if the folder does not exist. An
// irregular file and invalid UTF-8 are errors.
func (s FileStore) Files(tool string) ([]File, error) {
	root, err := regular.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	left := int64(MaxBytes)
	return filesOf(root, tool, &left)
}

// filesOf reads the files of a tool from the folder FilesDir, until left bytes are read.
func filesOf(root *os.Root, tool string, left *int64) ([]File, error) {
	names, err := namesIn(root, FilesDir)
	if err != nil {
		return nil, err
	}
	var out []File
	for _, name := range names {
		if !Owns(tool, name) {
			continue
		}
		content, err := readText(root, FilesDir+"/"+name, left)
		if err != nil {
			return nil, err
		}
		out = append(out, File{name, content})
	}
	return out, nil
}

// namesIn returns the sorted names in a folder, none if the folder does not exist.
func namesIn(root *os.Root, folder string) ([]string, error) {
	names, err := regular.Names(root, folder, MaxFiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// readText reads a text file and subtracts the size from left.
func readText(root *os.Root, name string, left *int64) (string, error) {
	data, err := tools.ReadFile(root, name, *left)
	switch {
	case err != nil:
	case !utf8.Valid(data):
		err = errors.New("it is not valid UTF-8")
	}
	if err != nil {
		return "", &Error{File: name, Text: "cannot be used: " + err.Error(), Err: err}
	}
	*left -= int64(len(data))
	return string(data), nil
}

// Put writes each file atomically, and creates the folder if needed.
func (s FileStore) Put(files []File) error {
	if len(files) == 0 {
		return nil
	}
	return s.write(FilesDir, files)
}

// write writes files to a folder in dir. Links cannot lead out of dir.
func (s FileStore) write(folder string, files []File) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	top, err := regular.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer top.Close()
	if err := top.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	root, err := top.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if strings.ContainsAny(f.Name, `/\`) { // a mistake of the caller
			return fmt.Errorf("%q is not the name of a file", f.Name)
		}
		if err := regular.WriteIn(root, f.Name, []byte(f.Content), 0o600); err != nil {
			return fmt.Errorf("%s: cannot be written: %w", filepath.Join(s.dir, folder, f.Name), err)
		}
	}
	return nil
}
