package journal

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"github.com/fsnotify/fsnotify"
)

// FollowOptions of Follow.
type FollowOptions struct {
	// Tick makes Follow look for what is new, beside the notices of the file
	// system: some have none. Nil is once in two seconds.
	Tick <-chan time.Time
	// Started, when set, is called once all that is in the journal already has
	// been passed over: runs that end from then on are yielded.
	Started func()
	Now     func() time.Time // nil is time.Now
}

// Follow yields runs that clients have asked for as they end, whichever process
// they run in, with the runs below them, until ctx ends. Runs that have ended
// before are not yielded. The directory need not exist yet. An error says what
// cannot be read; it goes on after that.
func Follow(ctx context.Context, dir string, opts FollowOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f := follower{index: newIndex(dir), yield: yield, now: opts.Now}
		if f.now == nil {
			f.now = time.Now
		}
		tick := opts.Tick
		if tick == nil {
			ticker := time.NewTicker(2 * time.Second)
			defer ticker.Stop()
			tick = ticker.C
		}
		watcher, err := fsnotify.NewWatcher()
		if err != nil { // none can be had: ticks will do
			watcher = &fsnotify.Watcher{}
		} else {
			defer watcher.Close()
		}
		f.watch(watcher)
		if !f.look(true) {
			return
		}
		if opts.Started != nil {
			opts.Started()
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-watcher.Events:
			case <-watcher.Errors:
			case <-tick:
				f.watch(watcher)
			}
			if !f.look(false) {
				return
			}
		}
	}
}

// follower looks again and again for what is new in a journal.
type follower struct {
	*index
	yield    func(Record, error) bool
	watching bool
	now      func() time.Time
}

// watch asks for notices of the directory, once it is there.
func (f *follower) watch(w *fsnotify.Watcher) {
	if !f.watching && w.Events != nil {
		f.watching = w.Add(f.dir) == nil
	}
}

// look reads what is new, and yields the runs that have ended, unless that is to
// be passed over. It returns false when nobody wants more.
func (f *follower) look(pass bool) bool {
	files, err := listFiles(f.dir)
	if err != nil {
		return f.yield(Record{}, err)
	}
	fault := func(err error) bool {
		var line *LineError
		if pass && errors.As(err, &line) || errors.Is(err, fs.ErrNotExist) {
			return true
		}
		return f.yield(Record{}, err)
	}
	first := dayOf(f.now().Add(-longest))
	for _, name := range files {
		if name.day < first { // runs of then are over
			continue
		}
		var ended []*located
		if !f.add(name, fault, func(r *located) { ended = append(ended, r) }) {
			return false
		}
		for _, r := range ended {
			if !f.end(r, pass) {
				return false
			}
		}
	}
	for name := range f.read {
		if name.day < first {
			delete(f.read, name)
		}
	}
	return true
}

// end takes a run that has ended. Those below another stay until that one ends.
func (f *follower) end(r *located, pass bool) bool {
	if !r.begun || r.parent != "" {
		return true
	}
	defer f.forget(r.id)
	if pass {
		return true
	}
	rec, ok, faults := f.load(r)
	for _, err := range faults {
		if !f.yield(Record{}, err) {
			return false
		}
	}
	return !ok || f.yield(rec, nil)
}
