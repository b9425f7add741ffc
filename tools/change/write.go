package change

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// lockRetry is the interval between attempts to take a lock held by another process.
const lockRetry = 20 * time.Millisecond

// maxBackups is the largest number of backups of a file.
const maxBackups = 99

// write writes the file, if the content is still Before, and returns the path of the backup, if
// any.
func (f *File) write(ctx context.Context) (backup string, err error) {
	if f.Write != nil {
		return "", f.Write(ctx, f.After)
	}
	if f.Before == nil {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			return "", err
		}
	}
	path, err := resolve(f.Path)
	if err != nil {
		return "", err
	}
	unlock, err := Lock(ctx, path)
	if err != nil {
		return "", err
	}
	defer unlock()
	now, err := regular.Read(ctx, path, math.MaxInt64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.Before != nil {
			return "", ErrChanged
		}
	case err != nil:
		return "", err
	case f.Before == nil, !bytes.Equal(now, f.Before):
		return "", ErrChanged
	}
	if f.Backup && f.Before != nil {
		if backup, err = f.backUp(path); err != nil {
			return "", err
		}
	}
	return backup, regular.Place{Name: path}.Replace(f.After, cmp.Or(f.Perm, 0o600))
}

// backUp writes the old content next to the file, with the file's mode.
func (f *File) backUp(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	name := path + ".bak"
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, regular.Write(name, f.Before, info.Mode().Perm())
		}
		if n > maxBackups {
			return "", fmt.Errorf("there are %d backups beside it already (remove some)", maxBackups)
		}
		name = fmt.Sprintf("%s.bak%d", path, n)
	}
}

// Lock takes the lock of a file, which keeps our other processes from changing the file. The lock
// is a file in the user's cache, since a folder of another program is no place for a lock; only
// without a cache is the lock next to the file. Links in path make no difference. The error is from
// ctx if ctx ends while another process has the lock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if path, err = resolve(path); err != nil {
		return nil, err
	}
	name := path + ".lock"
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "mcp-metatool", "locks")
		if os.MkdirAll(dir, 0o700) == nil {
			sum := sha256.Sum256([]byte(path))
			name = filepath.Join(dir, hex.EncodeToString(sum[:16]))
		}
	}
	l := regular.NewLock(name)
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { _ = l.Unlock() }, nil // nothing was written to the lock file
}

// resolve returns the absolute path of a file without links. The file need not exist.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path)), nil
	}
	return path, nil
}
