package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// The cache has the native code of a guest under wazero's name for the guest's skeleton (package
// rewrite). So a start with a cache only decodes and validates the skeleton, and the code of the
// guest takes memory only once, as native code.
//
// Native code of a skeleton itself must never get into the cache: the code traps at once. Therefore
// wazero never writes to the cache. wazero works in temporary folders, with links to the files in
// the cache.

const (
	skeletonName = "skeleton.wasm"
	maxSkeleton  = 64 << 20
	// tempPrefix begins the names of temporary folders next to the caches.
	tempPrefix = "compiling-"
	// lockName is the name of a file next to the caches. A process that compiles a guest for them
	// holds the file's lock.
	lockName = "compiling.lock"
	// lockRetry is the time between attempts to get the lock from another process.
	lockRetry = 50 * time.Millisecond
)

// errNotCached says that the cache has no native code for this system.
var errNotCached = errors.New("the cache has no native code for this system")

// load returns the program with the native code in the cache. Without native code, the error wraps
// errNotCached.
func (c *compileCache) load(ctx context.Context) (p *program, err error) {
	files, err := c.codeFiles()
	if err != nil {
		return nil, err
	}
	skeleton, err := regular.Read(ctx, filepath.Join(c.dir, skeletonName), maxSkeleton)
	if len(files) == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil, errNotCached
	} else if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(c.dir), tempPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	for _, name := range files {
		if err := link(filepath.Join(c.dir, name), filepath.Join(tmp, name)); err != nil {
			return nil, err
		}
	}
	own, err := wazero.NewCompilationCacheWithDir(tmp)
	if err != nil {
		return nil, err
	}
	if p, err = compileWith(ctx, skeleton, own); err != nil {
		return nil, err
	}
	if err := c.compare(tmp, files); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.cache = c
	return p, nil
}

// codeFiles returns the files with native code, relative to the cache. wazero has a file for each
// version of wazero, system and set of CPU features.
func (c *compileCache) codeFiles() (names []string, err error) {
	err = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == c.dir || unfinished(d.Name()) || strings.HasSuffix(path, sumSuffix) {
			return err
		}
		name, err := filepath.Rel(c.dir, path)
		names = append(names, name)
		return err
	})
	return names, err
}

// link makes a link to a file.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	err := os.Link(from, to)
	if err != nil { // some file systems have no hard links
		err = os.Symlink(from, to)
	}
	return err
}

// compare checks that wazero has found native code among the files: otherwise wazero has compiled
// the skeleton, and written a file.
func (c *compileCache) compare(tmp string, files []string) error {
	written, err := (&compileCache{dir: tmp}).codeFiles()
	if err != nil {
		return err
	}
	if len(written) != len(files) {
		return errNotCached
	}
	for _, name := range files {
		theirs, err := os.Stat(filepath.Join(c.dir, name))
		if err != nil {
			return err
		}
		ours, err := os.Stat(filepath.Join(tmp, name))
		if err != nil || !os.SameFile(ours, theirs) {
			return errors.Join(errNotCached, err)
		}
	}
	return nil
}

// fill compiles the guest and writes the native code to the cache, unless the code is in the cache
// once no other process is compiling.
func (c *compileCache) fill(ctx context.Context, guest []byte) error {
	parent := filepath.Dir(c.dir)
	lock := regular.NewLock(filepath.Join(parent, lockName))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("waiting for another process that compiles: %w", err)
	}
	defer lock.Unlock()
	if p, err := c.load(ctx); err == nil {
		return p.close()
	}
	skeleton, err := rewrite.Skeleton(guest)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, tempPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	name, _, err := compileFile(ctx, skeleton, filepath.Join(tmp, "skeleton"))
	if err != nil {
		return err
	}
	_, code, err := compileFile(ctx, guest, filepath.Join(tmp, "guest"))
	if err != nil {
		return err
	}
	return c.publish(name, code, skeleton)
}

// compileFile compiles a module and returns the file that wazero writes: the name in dir, and the
// path.
func compileFile(ctx context.Context, wasm []byte, dir string) (name, path string, err error) {
	own, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return "", "", err
	}
	p, err := compileWith(ctx, wasm, own)
	if err != nil {
		return "", "", err
	}
	if err := p.close(); err != nil {
		return "", "", err
	}
	files, err := (&compileCache{dir: dir}).codeFiles()
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("wazero has written %d files with native code instead of one: %q", len(files), files)
	}
	if err != nil {
		return "", "", err
	}
	return files[0], filepath.Join(dir, files[0]), nil
}

// publish moves the file with native code into the cache under a name, and writes the
// skeleton and the checksums.
func (c *compileCache) publish(name, code string, skeleton []byte) error {
	path := filepath.Join(c.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.Rename(code, path)
	}
	if err == nil {
		err = c.seal(path)
	}
	if err != nil {
		return err
	}
	path = filepath.Join(c.dir, skeletonName)
	if err := regular.Write(path, skeleton, 0o600); err != nil {
		return err
	}
	return c.seal(path)
}

// CachedGuests returns the names of the folders in a cache directory that [CleanCache] can remove:
// native code of guests, of this version and of others, and folders of killed processes. A missing
// directory has none.
func CachedGuests(dir string) ([]string, error) {
	root, err := regular.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.IsDir() {
			continue // a process has just removed the folder
		}
		// A younger temporary folder belongs to a process that is starting.
		if isGuest(entry.Name()) || strings.HasPrefix(entry.Name(), tempPrefix) && time.Since(info.ModTime()) > staleAfter {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// isGuest reports whether a folder of the cache has the native code of a guest.
func isGuest(name string) bool { return strings.HasPrefix(name, guestPrefix) }

// CleanCache removes folders that [CachedGuests] has returned. CleanCache waits for a process that
// compiles a guest, until ctx ends. Running processes keep their code. A process that starts at
// this moment finds a folder whole, or not at all, and then compiles the guest again; so does the
// next process. The lock of the cache stays.
func CleanCache(ctx context.Context, dir string, names []string) error {
	if err := owner.CheckStrictly(dir); err != nil {
		return fmt.Errorf("%w (remove the folder yourself)", err)
	}
	root, err := regular.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	lock := regular.NewLock(filepath.Join(dir, lockName))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("waiting for another process that compiles: %w", err)
	}
	defer lock.Unlock() // nothing was written to lock
	var failed []error
	for _, name := range names {
		if !isGuest(name) && !strings.HasPrefix(name, tempPrefix) || filepath.Base(name) != name {
			return fmt.Errorf("%s: not the name of a folder of the cache", name)
		}
		gone := name
		if isGuest(name) {
			gone = tempPrefix + rand.Text() // prune removes the folder if an error prevents the removal here
			if err := root.Rename(name, gone); errors.Is(err, fs.ErrNotExist) {
				continue // another process was faster
			} else if err != nil {
				failed = append(failed, err)
				continue
			}
		}
		if err := root.RemoveAll(gone); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
