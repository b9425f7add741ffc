package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// gatherTime is how long the events of one change are collected.
	gatherTime = 25 * time.Millisecond
	// pollBlind is the polling interval without notifications from the system, and pollSure
	// that with them. Polling is still needed then, since some file systems (NFS) only
	// report changes by the same machine.
	pollBlind = 2 * time.Second
	pollSure  = 30 * time.Second
)

// watcher calls OnChange. It is used by one goroutine.
type watcher struct {
	store   *Store
	notify  *fsnotify.Watcher // watches the directory; nil if there is no notification
	watched fs.FileInfo       // the directory that notify watches
	warned  bool              // a warning was logged that the directory cannot be watched
	seen    map[string]Definition
}

// newWatcher starts watching and remembers the state that the caller of OpenStore can see.
func (s *Store) newWatcher() *watcher {
	w := &watcher{store: s}
	w.attach()
	w.seen = s.visible()
	return w
}

// attach makes the system's watch follow the name of the directory: if it was deleted and
// created again, it is another directory.
func (w *watcher) attach() {
	info, err := os.Stat(w.store.dir)
	if err == nil && w.notify != nil && os.SameFile(info, w.watched) {
		return
	}
	w.detach()
	if err != nil {
		return // it does not exist: the next check tries again
	}
	notify, err := watchDirectory(w.store.dir)
	switch {
	case err == nil:
		w.notify, w.watched = notify, info
	case !w.warned:
		w.warned = true
		w.store.log.Warn("no notifications of changed tools: looking at the directory regularly instead",
			"dir", w.store.dir, "interval", pollBlind, "error", err)
	}
}

// watchDirectory makes an fsnotify.Watcher of one directory.
func watchDirectory(dir string) (*fsnotify.Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := notify.Add(dir); err != nil {
		return nil, errors.Join(err, notify.Close())
	}
	return notify, nil
}

// detach ends the system's watch. On Windows the watch has the directory open, so its
// name cannot be used again before that. fsnotify.Watcher.Remove would not do: there it
// fails if the directory has been deleted, and can block while events are pending.
func (w *watcher) detach() {
	if w.notify == nil {
		return
	}
	if err := w.notify.Close(); err != nil {
		w.store.log.Debug("closing the watch of the tools directory", "error", err)
	}
	w.notify, w.watched = nil, nil
}

func (w *watcher) interval() time.Duration {
	if w.notify == nil {
		return pollBlind
	}
	return pollSure
}

// channels returns what the system's watch reports; both are nil without one.
func (w *watcher) channels() (events <-chan fsnotify.Event, errs <-chan error) {
	if w.notify == nil {
		return nil, nil
	}
	return w.notify.Events, w.notify.Errors
}

// run looks for changes when notified, and at intervals, until Close.
func (w *watcher) run() {
	defer w.detach()
	poll := time.NewTimer(w.interval())
	defer poll.Stop()
	var gathered <-chan time.Time
	for {
		events, errs := w.channels()
		select {
		case <-w.store.done:
			return
		case ev := <-events:
			if ev.Name == w.store.dir && (ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)) {
				w.detach() // a new directory may even have the same inode
			}
			if gathered == nil && w.isRelevant(ev) {
				gathered = time.After(gatherTime)
			}
			continue
		case err := <-errs: // events may have been lost
			w.store.log.Debug("watching the tools directory", "error", err)
		case <-w.store.changed:
		case <-gathered:
			gathered = nil
		case <-poll.C:
		}
		w.check()
		poll.Reset(w.interval())
	}
}

// isRelevant is false for the temporary files that every write creates.
func (w *watcher) isRelevant(ev fsnotify.Event) bool {
	return ev.Name == w.store.dir || !strings.HasPrefix(filepath.Base(ev.Name), ".")
}

// check calls OnChange if agents can see a difference since the last time.
func (w *watcher) check() {
	w.attach()
	now := w.store.visible()
	if sameTools(w.seen, now) {
		return
	}
	w.seen = now
	w.store.onChange()
}

// visible returns the tools as agents see them, by name.
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
