package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
)

// compileCache is the folder of one guest's native code, below the cache
// folder of the options. wazero keeps one file in it per version of wazero,
// system and set of CPU features.
type compileCache struct {
	dir string
	wazero.CompilationCache
}

// openCache makes sure that nobody but the user can write what will be
// executed.
func openCache(parent string, guest []byte) (*compileCache, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(parent) // the user may have made it a link
	if err == nil {
		err = checkPrivate(parent, info)
	}
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(guest)
	dir := filepath.Join(parent, "guest-"+hex.EncodeToString(digest[:8]))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if info, err = os.Lstat(dir); err == nil {
		err = checkPrivate(dir, info)
	}
	if err != nil {
		return nil, err
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, err
	}
	return &compileCache{dir, cache}, nil
}

// checkPrivate wants a folder of the user's own that others cannot read or
// write, as far as the system can tell.
func checkPrivate(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fmt.Errorf("%s: not a directory", dir)
	}
	return checkOwner(dir, info)
}

// discard removes what is in the cache: it did not load.
func (c *compileCache) discard() error { return os.RemoveAll(c.dir) }
