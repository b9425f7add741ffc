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
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
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

// chunk is the number of bytes read between two checks of the context.
const chunk = 1 << 20

// Read reads a regular file of at most limit bytes, even if the file grows during the read.
// Symbolic links are followed. Errors are from the file system, [ErrNotRegular], a [*SizeError],
// each in a [*fs.PathError], or the cause of ctx.
func Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	return readFile(ctx, f, limit)
}

// ReadIn is [Read] for a file below a folder. Links cannot lead out of the folder.
func ReadIn(ctx context.Context, root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	return readFile(ctx, f, limit)
}

// readFile reads a file from Open, and closes the file.
func readFile(ctx context.Context, f *os.File, limit int64) ([]byte, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	tooLarge := &fs.PathError{Op: "read", Path: f.Name(), Err: &SizeError{limit}}
	if info.Size() > limit {
		return nil, tooLarge
	}
	data, err := readAll(ctx, f, limit, info.Size())
	if sized := new(SizeError); errors.As(err, &sized) {
		return nil, tooLarge
	}
	return data, err
}

// ReadAll reads a stream of at most limit bytes; the error for a longer stream is a [*SizeError].
// ctx does not interrupt a blocked r; only closing r does.
func ReadAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	return readAll(ctx, r, limit, 0)
}

// readAll reads at most limit bytes from r; expected is a guess at their number.
func readAll(ctx context.Context, r io.Reader, limit, expected int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(expected, limit)) + bytes.MinRead)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		more := int64(chunk)
		if left := limit - int64(b.Len()); left < more {
			more = left + 1 // another byte, to detect a longer stream
		}
		n, err := b.ReadFrom(io.LimitReader(r, more))
		switch {
		case err != nil:
			return nil, err
		case int64(b.Len()) > limit:
			return nil, &SizeError{limit}
		case n == 0:
			return b.Bytes(), nil
		}
	}
}

func size(n int64) string { return units.FormatSize(uint64(n)) }

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

// KeyFile describes the file of a key: its name, reading and creation.
type KeyFile[Key any] struct {
	Name  string                         // of the file in the folder
	Lock  string                         // of the file locked while a process makes the key
	What  string                         // the key, in errors: "the key that signs runs"
	Limit int64                          // of the file, in bytes
	Hint  string                         // the remedy for a file without a key, in errors; "" says nothing
	Parse func(text []byte) (Key, error) // the error says why a text is no key
	New   func() (key Key, text []byte)
}

// lockTimeout is the longest wait of Load for another process making the key.
const lockTimeout = 5 * time.Second

// Read reads a key from a regular file. The error is fs.ErrNotExist without a file, or names the
// file.
func (f *KeyFile[Key]) Read(ctx context.Context, path string) (key Key, err error) {
	text, err := Read(ctx, path, f.Limit)
	if errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err != nil {
		return key, fmt.Errorf("%s: cannot read %s: %w%s", path, f.What, err, f.Hint)
	}
	if key, err = f.Parse(text); err != nil {
		return key, fmt.Errorf("%s: %w%s", path, err, f.Hint)
	}
	return key, nil
}

// Load returns the key of a folder, and makes a missing key and a missing folder. All processes
// with the same folder get the same key. The file is readable for its owner only. The error names
// the file.
func (f *KeyFile[Key]) Load(ctx context.Context, dir string) (Key, error) {
	path := filepath.Join(dir, f.Name)
	key, err := f.Read(ctx, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return key, fmt.Errorf("%s: cannot make the folder for %s: %w", path, f.What, err)
	}
	lock := NewLock(filepath.Join(dir, f.Lock))
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return key, fmt.Errorf("%s: cannot lock the folder to make %s: %w", path, f.What, err)
	}
	if key, err = f.Read(ctx, path); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key, text := f.New()
	if err := Write(path, text, 0o600); err != nil {
		return key, fmt.Errorf("%s: cannot write %s: %w", path, f.What, err)
	}
	return key, nil
}

// NewLock returns a lock file (0600), not locked yet. Opening never waits for another process,
// wherever the name leads; locking may.
func NewLock(path string) *flock.Flock {
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|noWait))
}

// Usage returns the number of regular files below a folder, and their size in bytes. path can also
// be a file. Links below path are not followed; unreadable parts count as nothing. Usage stops
// after most files.
func Usage(path string, most int) (files int, bytes int64) { return new(Counter).Usage(path, most) }

// Counter counts a file with several names once, at the first name. The zero value has counted no
// file. A Counter is not safe for concurrent use.
type Counter struct{ counted map[look][]fs.FileInfo }

// look is the information shared by all names of a file on every system.
type look struct {
	size    int64
	changed time.Time
}

// Usage is like the function Usage, without the files counted by c.
func (c *Counter) Usage(path string, most int) (files int, bytes int64) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	// The function returns no other error to stop the walk.
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a removed file takes no space
		}
		if files == most {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil && c.first(info) {
			files++
			bytes += info.Size()
		}
		return nil
	})
	return files, bytes
}

// first reports whether a file has not been counted yet.
func (c *Counter) first(info fs.FileInfo) bool {
	if info.Size() == 0 {
		return true
	}
	alike := look{info.Size(), info.ModTime()}
	if slices.ContainsFunc(c.counted[alike], func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
		return false
	}
	if c.counted == nil {
		c.counted = map[look][]fs.FileInfo{}
	}
	c.counted[alike] = append(c.counted[alike], info)
	return true
}
