// Package regular opens, reads and replaces regular files if other users may control their names or
// contents: scripts, check files, cassettes, locks, configurations, records, bundles, saved tools,
// journals, tokens. Begin with [Read] and [Write]; [Place] is a file named in another file,
// [KeyFile] a key made by the first process in need of the key.
//
// Everything except regular files is refused: opening a named pipe waits for a writer forever, a
// device has no end, and opening some devices has effects. No function here waits for another
// process, wherever a name leads. Tests keep product code from reading and replacing files in any
// other way.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrNotRegular is matched by errors.Is if a name leads to something other than a
// regular file. The error is a [*KindError] within a [*fs.PathError].
var ErrNotRegular = errors.New("not a regular file")

// KindError reports a file of another kind than a regular file.
type KindError struct{ Mode fs.FileMode }

func (e *KindError) Error() string {
	switch {
	case e.Mode.IsDir():
		return "is a directory"
	case e.Mode&fs.ModeNamedPipe != 0:
		return "is a named pipe, not a regular file (write what comes out of it into a file)"
	case e.Mode&fs.ModeSocket != 0:
		return "is a socket, not a regular file"
	case e.Mode&fs.ModeDevice != 0:
		return "is a device, not a regular file"
	case e.Mode&fs.ModeSymlink != 0:
		return "is a symbolic link, not a regular file"
	}
	return "is not a regular file"
}

// Is makes a KindError match ErrNotRegular.
func (e *KindError) Is(target error) bool { return target == ErrNotRegular }

// Open opens a regular file for reading. Symbolic links are followed. The caller closes the file.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// OpenFile is [os.OpenFile] for regular files only. OpenFile never waits. With os.O_CREATE, the
// file need not exist.
func OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	// Check before opening, because opening a device can have effects, and afterwards,
	// because the file may have been replaced in between.
	info, err := os.Stat(name)
	switch {
	case err == nil:
		err = checkKind("open", name, info)
	case flag&os.O_CREATE != 0 && errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return nil, asOpenError(name, err)
	}
	f, err := os.OpenFile(name, flag|noWait, perm)
	if err != nil {
		return nil, err
	}
	return requireRegular(f)
}

// OpenIn opens a regular file below a folder for reading. Symbolic links are followed as far as
// they stay below the folder. The caller closes the file.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	info, err := root.Stat(name)
	if err == nil {
		err = checkKind("open", name, info)
	}
	if err != nil {
		return nil, asOpenError(name, err)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	return requireRegular(f)
}

// OpenRoot is [os.OpenRoot], but does not wait for a named pipe in place of the folder.
func OpenRoot(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: errors.New("is not a directory")}
	}
	// A name with a final separator can only be a folder.
	root, err := os.OpenRoot(dir + string(filepath.Separator))
	if path := new(fs.PathError); errors.As(err, &path) {
		path.Path = dir
	}
	return root, err
}

// Names returns the sorted names in a folder below root. More than limit names are an error.
func Names(root *os.Root, folder string, limit int) ([]string, error) {
	sub, err := root.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	d, err := sub.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(limit + 1)
	if errors.Is(err, io.EOF) { // the folder is empty
		err = nil
	}
	if len(names) > limit {
		return nil, &fs.PathError{Op: "readdir", Path: folder, Err: fmt.Errorf("has more than %d files", limit)}
	}
	slices.Sort(names)
	return names, err
}

// Check returns an error if an open file is not regular.
func Check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return checkKind("open", f.Name(), info)
}

func requireRegular(f *os.File) (*os.File, error) {
	if err := Check(f); err != nil {
		f.Close() // nothing was written to the folder
		return nil, err
	}
	return f, nil
}

// asOpenError converts an error of examining a file into an error of opening the file, the caller's
// intention.
func asOpenError(name string, err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		return &fs.PathError{Op: "open", Path: name, Err: path.Err}
	}
	return err
}

func checkKind(op, name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: &KindError{info.Mode()}}
}

// SizeError reports a file or stream larger than the limit.
type SizeError struct{ Limit int64 } // in bytes

func (e *SizeError) Error() string { return fmt.Sprintf("is larger than %s", size(e.Limit)) }
