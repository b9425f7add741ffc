package seal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// KeyFile is the name of the file with the key of a folder.
const KeyFile = "journal-key.pem"

// lockFile is what a process locks while it makes the key, for lockTimeout at most.
const (
	lockFile    = ".journal-key.lock"
	lockTimeout = 5 * time.Second
)

// maxKeyFile bounds the file of a key, in bytes.
const maxKeyFile = 64 << 10

// ReadKey reads a private key from a file. The error is fs.ErrNotExist if there is none, or names
// the file and says what to do.
func ReadKey(ctx context.Context, path string) (PrivateKey, error) {
	text, err := regular.Read(ctx, path, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return PrivateKey{}, err
	}
	if err != nil {
		return PrivateKey{}, fmt.Errorf("%s: cannot read the key that signs runs: %w", path, err)
	}
	key, err := ParsePrivate(text)
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// LoadKey returns the key of a folder, and makes it, and the folder, if there is none. All
// processes that use the folder get the same one. The file is readable for its owner only.
func LoadKey(ctx context.Context, dir string) (PrivateKey, error) {
	path := filepath.Join(dir, KeyFile)
	key, err := ReadKey(ctx, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return key, fmt.Errorf("%s: cannot make the folder for the key that signs runs: %w", path, err)
	}
	lock := regular.NewLock(filepath.Join(dir, lockFile))
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return key, fmt.Errorf("%s: cannot lock the folder to make the key that signs runs: %w", path, err)
	}
	if key, err = ReadKey(ctx, path); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = NewPrivate()
	if err := regular.Write(path, key.PEM(), 0o600); err != nil {
		return key, fmt.Errorf("%s: cannot write the key that signs runs: %w", path, err)
	}
	return key, nil
}
