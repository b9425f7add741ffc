package documents

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// holder is a file that a process keeps locked while calls wait in the process. At the end of the
// process, however abrupt, the lock is gone, and other processes see the end of the wait.
type holder struct {
	name string
	lock *flock.Flock
}

// Holder implements [Place]. The caller holds the lock of the folder, so no other process takes the
// file for the file of an ended process.
func (p *Folder) Holder() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder != nil {
		return p.holder.name, nil
	}
	name := rand.Text()
	lock := regular.NewLock(filepath.Join(p.dir, holderFolder, name))
	if _, err := lock.TryLock(); err != nil {
		return "", err
	}
	p.holder = &holder{name, lock}
	return name, nil
}

func (h *holder) release() {
	if h != nil {
		_ = h.lock.Close() // the end of the process does the same
	}
}

// Holds implements [Place].
func (p *Folder) Holds(name string) bool {
	if name == "" {
		return false
	}
	p.mu.Lock()
	own := p.holder != nil && p.holder.name == name
	p.mu.Unlock()
	if own {
		return true
	}
	path := filepath.Join(p.dir, holderFolder, filepath.Base(name))
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := regular.NewLock(path)
	defer lock.Close()
	free, err := lock.TryRLock() // a shared lock, so two processes that look do not take each other for the holder
	return err == nil && !free
}

// sweepHolders removes the files of ended processes. The caller holds the lock of the folder.
func (p *Folder) sweepHolders(f *files) {
	names, _ := regular.Names(f.root, holderFolder, Max)
	for _, name := range names {
		if !p.Holds(name) {
			_ = f.remove(filepath.Join(holderFolder, name)) // the next sweep tries again
		}
	}
}
