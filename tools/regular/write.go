package regular

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TempPrefix is the beginning of the names of temporary files. Only a crashed process leaves
// temporary files behind.
const TempPrefix = ".tmp-"

// Write creates or replaces the file at path with mode perm. The write is atomic and durable: if
// the process or the machine stops, the file has the old content or all of data. A symbolic link at
// path is replaced, not followed.
func Write(path string, data []byte, perm fs.FileMode) error {
	folder, name := filepath.Split(path)
	if folder == "" {
		folder = "."
	}
	root, err := OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return WriteIn(root, name, data, perm)
}

// WriteIn is [Write] for a file below a folder.
func WriteIn(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	folder := filepath.Dir(name)
	temp, err := WriteTemp(root, folder, data, perm)
	if err != nil {
		return err
	}
	if err := temp.Rename(name); err != nil {
		return err
	}
	return SyncFolder(root, folder)
}

// Temp is a complete and synced file under a temporary name. Most callers need only [Write] or
// [WriteIn]; Temp is for callers that rename under a lock. Exactly one of Rename and Remove must be
// called.
type Temp struct {
	root *os.Root
	name string
}

// WriteTemp writes and syncs a temporary file with mode perm in a folder below
// root. On an error nothing is left behind.
func WriteTemp(root *os.Root, folder string, data []byte, perm fs.FileMode) (*Temp, error) {
	t := &Temp{root, filepath.Join(folder, TempPrefix+rand.Text())}
	f, err := root.OpenFile(t.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err == nil && perm != 0o600 {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync() // before the rename, so the name never refers to an incomplete file
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, t.Remove())
	}
	return t, nil
}

// Rename gives the file a name below root and replaces an existing file. A failure removes the
// temporary file. The new name is durable after [SyncFolder].
func (t *Temp) Rename(name string) error {
	if err := Rename(t.root, t.name, name); err != nil {
		return errors.Join(err, t.Remove())
	}
	return nil
}

// Remove removes the temporary file.
func (t *Temp) Remove() error { return t.root.Remove(t.name) }
