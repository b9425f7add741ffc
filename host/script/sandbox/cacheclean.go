package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

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
