package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

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
