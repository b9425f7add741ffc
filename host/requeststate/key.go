package requeststate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// keyFile is the name of the key's file, and lockFile the one that a process locks while
// it makes the key.
const (
	keyFile  = "request-state.key"
	lockFile = ".request-state.lock"
)

// lockTimeout is how long LoadKey waits for another process that makes the key.
const lockTimeout = 5 * time.Second

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// LoadKey returns the key of a folder, and makes it, and the folder, if there is none. All processes that
// use the folder get the same one. The file is readable for its owner only. The error
// names the file and says what to do.
func LoadKey(ctx context.Context, dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	key, err := readKey(ctx, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: cannot make the folder for the key: %w", path, err)
	}
	lock := regular.NewLock(filepath.Join(dir, lockFile))
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("%s: cannot lock the folder to make the key: %w", path, err)
	}
	if key, err = readKey(ctx, path); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = NewKey()
	if err := regular.Write(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("%s: cannot write the key: %w", path, err)
	}
	return key, nil
}

func readKey(ctx context.Context, path string) ([]byte, error) {
	key, err := regular.Read(ctx, path, KeySize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: cannot read the key: %w (remove the file to make a new key)", path, err)
	case len(key) != KeySize:
		return nil, fmt.Errorf("%s: the key has %d bytes, not %d (remove the file to make a new key)", path, len(key), KeySize)
	}
	return key, nil
}
