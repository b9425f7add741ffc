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

// Shelf is the folder that has the files beside tools, in a folder FilesDir.
// Writers of one file at a time see to it themselves that nobody else writes it.
type Shelf struct{ dir string }

// NewShelf is the shelf in a directory, such as that of the store. The folder
// need not be there.
func NewShelf(dir string) Shelf { return Shelf{dir} }

// Files are the files of a tool, sorted by name, none if the folder is not
// there. What is not a regular file of valid UTF-8 is an error.
func (s Shelf) Files(tool string) ([]File, error) {
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

// filesOf reads the files of a tool out of the folder FilesDir, as long as there
// are bytes left to be read.
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

// namesIn are the sorted names in a folder, none if it is not there.
func namesIn(root *os.Root, folder string) ([]string, error) {
	names, err := regular.Names(root, folder, MaxFiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// readText reads a text file and takes its size off what is left.
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

// Put writes files, each of them all or nothing, and makes the folder if it is
// needed.
func (s Shelf) Put(files []File) error {
	if len(files) == 0 {
		return nil
	}
	return s.write(FilesDir, files)
}

// write makes files in a folder that is in the shelf's directory, wherever
// somebody's link would lead.
func (s Shelf) write(folder string, files []File) error {
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
		if strings.ContainsAny(f.Name, `/\`) { // who made it should have known
			return fmt.Errorf("%q is not the name of a file", f.Name)
		}
		if err := regular.WriteIn(root, f.Name, []byte(f.Content), 0o600); err != nil {
			return fmt.Errorf("%s: cannot be written: %w", filepath.Join(s.dir, folder, f.Name), err)
		}
	}
	return nil
}
