package approval

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// holder is a file that a process keeps locked while calls wait in it. When the process
// ends, however it does, the lock is gone, and others see that nobody waits any more.
type holder struct {
	name string
	lock *flock.Flock
}

// held returns the name of this process as a holder. The caller holds the lock of the folder,
// so that nobody takes the file for one of a process that has ended.
func (q *Queue) held() (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holder != nil {
		return q.holder.name, nil
	}
	name := rand.Text()
	lock := regular.NewLock(filepath.Join(q.dir, holderFolder, name))
	if _, err := lock.TryLock(); err != nil {
		return "", err
	}
	q.holder = &holder{name, lock}
	return name, nil
}

func (h *holder) release() {
	if h != nil {
		_ = h.lock.Close() // the end of the process does the same
	}
}

// isHeld reports whether the process still runs in which the call of an entry waits.
func (q *Queue) isHeld(name string) bool {
	if name == "" {
		return false
	}
	q.mu.Lock()
	own := q.holder != nil && q.holder.name == name
	q.mu.Unlock()
	if own {
		return true
	}
	path := filepath.Join(q.dir, holderFolder, filepath.Base(name))
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := regular.NewLock(path)
	defer lock.Close()
	free, err := lock.TryRLock() // shared, so that two that look do not take each other for the holder
	return err == nil && !free
}

// sweepHolders removes the files of processes that have ended. The caller holds the lock of
// the folder.
func (q *Queue) sweepHolders(f *files) {
	names, _ := regular.Names(f.root, holderFolder, maxFiles)
	for _, name := range names {
		if !q.isHeld(name) {
			_ = f.remove(filepath.Join(holderFolder, name)) // the next sweep removes it
		}
	}
}
