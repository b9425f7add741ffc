package tools

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// gather is how long the events of one change are collected.
	gather = 25 * time.Millisecond
	// pollBlind is the interval of looking without notifications from the
	// system, pollSure with them: some file systems (NFS) tell only of what
	// their own machine did.
	pollBlind = 2 * time.Second
	pollSure  = 30 * time.Second
)

// watcher calls OnChange. It belongs to one goroutine.
type watcher struct {
	store   *Store
	notify  *fsnotify.Watcher // nil where the system has none
	watched fs.FileInfo       // the directory that notify watches, nil if none
	told    map[string]Definition
}

// newWatcher starts watching and remembers the state that the caller of
// OpenStore can see.
func (s *Store) newWatcher() *watcher {
	w := &watcher{store: s}
	var err error
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		w.notify = nil
		s.log.Warn("no notifications of changed tools: looking at the directory regularly instead",
			"dir", s.dir, "interval", pollBlind, "error", err)
	} else {
		w.attach()
	}
	w.told = s.visible()
	return w
}

// attach makes the system's watch follow the directory's name: one that was
// deleted and created again is another directory.
func (w *watcher) attach() {
	if w.notify == nil {
		return
	}
	info, err := os.Stat(w.store.dir)
	if err == nil && w.watched != nil && os.SameFile(info, w.watched) {
		return
	}
	w.detach()
	if err != nil {
		return // not there: the next look tries again
	}
	if err := w.notify.Add(w.store.dir); err != nil {
		w.store.log.Warn("tools directory is not watched: looking at it regularly instead",
			"dir", w.store.dir, "interval", pollBlind, "error", err)
		return
	}
	w.watched = info
}

func (w *watcher) detach() {
	if w.watched != nil {
		// An error means that the watch is gone already, as it should be.
		_ = w.notify.Remove(w.store.dir)
		w.watched = nil
	}
}

func (w *watcher) interval() time.Duration {
	if w.watched == nil {
		return pollBlind
	}
	return pollSure
}

// run looks at the directory when there is a reason to, until Close.
func (w *watcher) run() {
	var events chan fsnotify.Event
	var errs chan error
	if w.notify != nil {
		events, errs = w.notify.Events, w.notify.Errors
		defer func() {
			if err := w.notify.Close(); err != nil {
				w.store.log.Debug("closing the watch of the tools directory", "error", err)
			}
		}()
	}
	poll := time.NewTimer(w.interval())
	defer poll.Stop()
	var gathered <-chan time.Time
	for {
		select {
		case <-w.store.done:
			return
		case ev := <-events:
			if ev.Name == w.store.dir && (ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)) {
				w.detach() // one made again may even have the same inode
			}
			if gathered == nil && w.matters(ev) {
				gathered = time.After(gather)
			}
			continue
		case err := <-errs: // events may have been lost
			w.store.log.Debug("watching the tools directory", "error", err)
		case <-w.store.changed:
		case <-gathered:
			gathered = nil
		case <-poll.C:
		}
		w.look()
		poll.Reset(w.interval())
	}
}

// matters is false for the files that every write makes beside the tool's.
func (w *watcher) matters(ev fsnotify.Event) bool {
	return ev.Name == w.store.dir || !strings.HasPrefix(filepath.Base(ev.Name), ".")
}

// look calls OnChange if agents can see a difference since the last time.
func (w *watcher) look() {
	w.attach()
	now := w.store.visible()
	if sameTools(w.told, now) {
		return
	}
	w.told = now
	w.store.onChange()
}

// visible is what agents can see, by name.
func (s *Store) visible() map[string]Definition {
	out := map[string]Definition{}
	for _, d := range s.List() {
		out[d.Name] = d
	}
	return out
}

func sameTools(a, b map[string]Definition) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		y, ok := b[name]
		if !ok || !x.sameToAgents(&y) {
			return false
		}
	}
	return true
}
