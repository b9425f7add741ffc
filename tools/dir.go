package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

const (
	lockFile  = ".lock"
	lockRetry = 5 * time.Millisecond
)

// lockWait is the time a writer waits for other writers, which hold the lock for the few
// milliseconds of a write. Tests set lockWait.
var lockWait = 15 * time.Second

// exclusive runs f as the only writer of the directory among all processes, with an updated cache,
// and makes the changes durable. The wait for other processes is at most wait. f runs with the lock
// file but without files, so that no reader waits for the disk.
func (s *Store) exclusive(wait time.Duration, f func(*os.Root) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	unlock, err := s.lock(wait)
	if err != nil {
		return err
	}
	defer unlock()
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return fmt.Errorf("tool store: %w", err)
	}
	defer root.Close()
	s.files.Lock()
	leftovers, err := s.scan(root)
	s.files.Unlock()
	if err != nil {
		return err
	}
	// Since every writer holds the lock, leftovers are from crashed writers.
	for _, file := range leftovers {
		if err := root.Remove(file); err != nil {
			s.log.Debug("leftover file is not removed", "file", file, "error", err)
		}
	}
	if err := f(root); err != nil {
		return err
	}
	if err := regular.SyncFolder(root, "."); err != nil {
		return fmt.Errorf("tool store: %w", err)
	}
	return nil
}

// lock locks the lock file. The file is opened each time, so that a recreated directory gets its
// own lock.
func (s *Store) lock(wait time.Duration) (unlock func(), err error) {
	path := filepath.Join(s.dir, lockFile)
	l := regular.NewLock(path)
	ok, err := acquire(l, wait)
	if errors.Is(err, fs.ErrNotExist) { // the directory was deleted
		if err = os.MkdirAll(s.dir, 0o700); err == nil {
			ok, err = acquire(l, wait)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tool store %s: cannot be written to: %w", s.dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("tool store %s: locked by another process for %v (end the process that holds %s)", s.dir, wait, path)
	}
	return func() {
		if err := l.Close(); err != nil {
			s.log.Warn("tool store: unlocking failed", "error", err)
		}
	}, nil
}

func acquire(l *flock.Flock, wait time.Duration) (bool, error) {
	if wait == 0 {
		return l.TryLock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	ok, err := l.TryLockContext(ctx, lockRetry)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return ok, err
}

// writeTool writes the tool's file and updates the cache entry. It subtracts the executions now on
// disk from the pending executions, and returns the same as Get. Shared tools are changed in Shared
// first.
func (s *Store) writeTool(root *os.Root, def *Definition, counted executions, c *sharing) (Definition, error) {
	data, err := def.File()
	if err != nil {
		return Definition{}, fmt.Errorf("tool %q: %w", def.Name, err)
	}
	temp, err := regular.WriteTemp(root, ".", data, 0o600)
	if err != nil {
		c.withdraw()
		return Definition{}, writeError(def.Name, err)
	}
	if err := c.publish(data); err != nil {
		return Definition{}, errors.Join(fmt.Errorf("tool %q: cannot be saved: %w", def.Name, err), temp.Remove())
	}
	// files is held, so that no reader sees the new count together with the pending count.
	s.files.Lock()
	defer s.files.Unlock()
	if err := temp.Rename(def.Name + extension); err != nil {
		if c != nil {
			return Definition{}, fmt.Errorf("tool %q: is saved in the fleet, but the copy in %s cannot be written: %w", def.Name, s.dir, err)
		}
		return Definition{}, writeError(def.Name, err)
	}
	s.deduct(def.Name, counted)
	if !s.load(root, def.Name) || s.cache[def.Name].problem != nil {
		return Definition{}, fmt.Errorf("tool %q: its file is not what was just written to it (is another program changing %s?)", def.Name, s.dir)
	}
	return s.withPending(s.cache[def.Name].def), nil
}

func writeError(name string, err error) error {
	return fmt.Errorf("tool %q: cannot be written: %w (what was saved before is unchanged)", name, err)
}

// ReadFile reads a regular file of at most limit bytes. Symbolic links are not followed, not even
// to a file in the same folder.
func ReadFile(root *os.Root, file string, limit int64) ([]byte, error) {
	info, err := root.Lstat(file)
	if err != nil {
		return nil, err
	}
	data, _, err := readRegular(root, file, info, limit)
	return data, err
}

// readTool reads a tool file, given the file's stat.
func readTool(root *os.Root, file string, info fs.FileInfo) ([]byte, fs.FileInfo, error) {
	data, opened, err := readRegular(root, file, info, MaxFileBytes)
	if err == nil {
		err = owner.CheckFile(opened)
	}
	return data, opened, err
}

// readRegular reads a regular file of at most limit bytes, given the file's stat.
func readRegular(root *os.Root, file string, info fs.FileInfo, limit int64) ([]byte, fs.FileInfo, error) {
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, info, errors.New("it is a symbolic link, which is not followed")
	}
	f, err := regular.OpenIn(root, file)
	if err != nil {
		return nil, info, reason(err)
	}
	defer f.Close()
	opened, err := f.Stat() // the file may have been replaced since the stat
	if err != nil {
		return nil, info, err
	}
	data, err := regular.ReadAll(context.Background(), f, limit)
	return data, opened, err
}

// reason returns an error of the file system without the path.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && errors.Is(err, regular.ErrNotRegular) {
		return path.Err
	}
	return err
}

func readNames(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}
