package regular

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// KeyFile says what the file of a key is called, and how it is read and made.
type KeyFile[Key any] struct {
	Name  string                         // of the file in its folder
	Lock  string                         // of the file that a process locks while it makes the key
	What  string                         // the key, in errors: "the key that signs runs"
	Limit int64                          // of the file, in bytes
	Hint  string                         // what to do if the file has no key, in errors; "" says nothing
	Parse func(text []byte) (Key, error) // the error says why a text is no key
	New   func() (key Key, text []byte)
}

// lockTimeout is how long Load waits for another process that makes the key.
const lockTimeout = 5 * time.Second

// Read reads a key from a regular file. The error is fs.ErrNotExist if there is none, or names the file.
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

// Load returns the key of a folder, and makes it, and the folder, if there is none. All processes that
// use the folder get the same one. The file is readable for its owner only. The error names the file.
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
