package regular

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Place is the location of a file named in another file. The zero value is no place.
type Place struct {
	// Folder is the folder above the file, even through links; "" allows any file.
	Folder string
	// Name is relative to Folder; without a folder Name is a path.
	Name string
}

// String returns the path, for messages.
func (p Place) String() string { return filepath.Join(p.Folder, p.Name) }

// Read is [Read] for the file at the place.
func (p Place) Read(ctx context.Context, limit int64) ([]byte, error) {
	if p.Folder == "" {
		return Read(ctx, p.Name, limit)
	}
	root, err := OpenRoot(p.Folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := ReadIn(ctx, root, p.Name, limit)
	return data, p.outside(err)
}

// ErrOutside reports a link out of a Place's folder.
var ErrOutside = errors.New("leads out of the folder")

// outside returns err, or ErrOutside in an [*fs.PathError] if a link leads out of the folder.
func (p Place) outside(err error) error {
	if err == nil || p.Folder == "" {
		return err
	}
	folder, failed := filepath.EvalSymlinks(p.Folder)
	path, bad := filepath.EvalSymlinks(p.String())
	if failed != nil || bad != nil {
		return err
	}
	if name, bad := filepath.Rel(folder, path); bad == nil && filepath.IsLocal(name) {
		return err
	}
	return &fs.PathError{Op: "open", Path: p.String(), Err: ErrOutside}
}

// Replace writes the file at the place as [Write] does, but an existing file keeps its mode (a new
// one gets perm), and anything other than a regular file is an error. Without a folder, a link is
// followed: the link stays, and the target is replaced.
func (p Place) Replace(data []byte, perm fs.FileMode) error {
	folder, name := p.Folder, p.Name
	if folder == "" {
		path := p.Name
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		folder, name = filepath.Split(path)
		if folder == "" {
			folder = "."
		}
	}
	root, err := OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return p.outside(replaceIn(root, name, data, perm))
}

// replaceIn is [Place.Replace] for a file below a folder.
func replaceIn(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	info, err := root.Lstat(name)
	switch {
	case err == nil:
		if err := checkKind("replace", name, info); err != nil {
			return err
		}
		perm = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return WriteIn(root, name, data, perm)
}
