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
	// gatherTime is how long the events of a change are collected.
	gatherTime = 25 * time.Millisecond
	// pollBlind is the polling interval without notifications from the system, and pollSure the
	// interval with notifications. Polling is needed even then, since some file systems (NFS) only
	// report changes by the same machine.
	pollBlind = 2 * time.Second
	pollSure  = 30 * time.Second
)

// watcher calls OnChange. Only one goroutine uses a watcher.
type watcher struct {
	store   *Store
	notify  *fsnotify.Watcher // watches the directory; nil without notifications
	watched fs.FileInfo       // the directory watched by notify
	warned  bool              // a warning about the unwatchable directory was logged
	seen    map[string]Definition
}

// newWatcher starts watching and remembers the state visible to the caller of OpenStore.
func (s *Store) newWatcher() *watcher {
	w := &watcher{store: s}
	w.attach()
	w.seen = s.visible()
	return w
}

// attach makes the system's watch follow the name of the directory: a directory deleted and created
// again is a new directory.
func (w *watcher) attach() {
	info, err := os.Stat(w.store.dir)
	if err == nil && w.notify != nil && os.SameFile(info, w.watched) {
		return
	}
	w.detach()
	if err != nil {
		return // the directory does not exist: the next check tries again
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

// detach ends the system's watch. On Windows the watch has the directory open, so the name cannot
// be reused before detach. fsnotify.Watcher.Remove would not do: on Windows the call fails if the
// directory has been deleted, and can block while events are pending.
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

// channels returns the reports of the system's watch; both are nil without a watch.
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

// isRelevant is false for the temporary files of writes.
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
