package files

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// notifier tells those who wait about changes in folders. One watch of the operating system is
// enough for all, since users may have few.
type notifier struct {
	log      *slog.Logger
	routines sync.WaitGroup

	mu      sync.Mutex               // a leaf
	watcher *fsnotify.Watcher        // nil before the first watch, and if there is none here
	tried   bool                     // to make a watcher
	closed  bool                     //
	changed map[string]chan struct{} // by folder; closed and replaced with each change
	added   map[string]bool          // folders that the operating system watches
}

func newNotifier(log *slog.Logger) *notifier {
	return &notifier{log: log, changed: map[string]chan struct{}{}, added: map[string]bool{}}
}

// watch returns a channel that is closed when something in a folder has changed. The folder
// need not exist.
func (n *notifier) watch(dir string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.tried && !n.closed {
		n.tried = true
		w, err := fsnotify.NewWatcher()
		if err != nil {
			n.log.Debug("no notifications of changed files: looking at them regularly instead", "err", err)
		} else {
			n.watcher = w
			n.routines.Go(func() { n.run(w) })
		}
	}
	if n.watcher != nil && !n.added[dir] {
		n.added[dir] = n.watcher.Add(dir) == nil // it may not be there yet
	}
	if n.changed[dir] == nil {
		n.changed[dir] = make(chan struct{})
	}
	return n.changed[dir]
}

func (n *notifier) run(w *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			n.tell(e)
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			n.tellAll() // events may have been lost
		}
	}
}

func (n *notifier) tell(e fsnotify.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dir := filepath.Dir(e.Name)
	for _, dir := range []string{dir, filepath.Dir(dir), e.Name} { // whoever watches a folder minds the folders in it
		if dir == e.Name && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)) {
			delete(n.added, dir) // the folder itself is gone
		}
		if c := n.changed[dir]; c != nil {
			close(c)
			delete(n.changed, dir)
		}
	}
}

func (n *notifier) tellAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for dir, c := range n.changed {
		close(c)
		delete(n.changed, dir)
	}
}

func (n *notifier) close() {
	n.mu.Lock()
	w := n.watcher
	n.watcher, n.closed = nil, true
	n.mu.Unlock()
	if w != nil {
		_ = w.Close()
	}
	n.routines.Wait()
}

// wait waits for a change, or until it is time to look. It returns false when ctx or the Store
// has ended.
func (s *Store) wait(ctx context.Context, changed <-chan struct{}) bool {
	timer := time.NewTimer(s.opts.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-s.ctx.Done():
		return false
	case <-changed:
	case <-timer.C:
	}
	return true
}
