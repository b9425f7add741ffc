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
