package journal

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"github.com/fsnotify/fsnotify"
)

// FollowOptions are the options of Follow.
type FollowOptions struct {
	// Tick makes Follow look for new events, in addition to the notifications of
	// the file system, which some file systems lack. Nil means every two seconds.
	Tick <-chan time.Time
	// Started, if set, is called once Follow has skipped what is in the journal
	// already. Runs that end after that are yielded.
	Started func()
	Now     func() time.Time // nil is time.Now
	// Unfinished yields runs that have not ended too, each as often as it got new
	// events.
	Unfinished bool
	// Pause is the least time between two looks for new events, so that a consumer of
	// Unfinished is not called for each event; 0 means none.
	Pause time.Duration
}

// Follow yields the runs that clients request, with their nested runs, as they end,
// whichever process they run in, until ctx ends. It does not yield runs that have
// ended before. The directory need not exist yet. An error says what cannot be read;
// Follow continues after it.
func Follow(ctx context.Context, dir string, opts FollowOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f := follower{index: newIndex(dir), yield: yield, now: opts.Now}
		if f.now == nil {
			f.now = time.Now
		}
		if opts.Unfinished {
			f.touched = map[string]bool{}
		}
		tick := opts.Tick
		if tick == nil {
			ticker := time.NewTicker(2 * time.Second)
			defer ticker.Stop()
			tick = ticker.C
		}
		watcher, err := fsnotify.NewWatcher()
		if err != nil { // not available here: rely on ticks
			watcher = &fsnotify.Watcher{}
		} else {
			defer watcher.Close()
		}
		f.watch(watcher)
		if !f.poll(true) {
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
			if !f.poll(false) {
				return
			}
			if opts.Pause > 0 {
				select {
				case <-ctx.Done():
					return
				case <-time.After(opts.Pause):
				}
			}
		}
	}
}

// follower polls a journal for new events.
type follower struct {
	*index
	yield    func(Record, error) bool
	watching bool
	now      func() time.Time
}

// watch subscribes to changes of the directory once it exists.
func (f *follower) watch(w *fsnotify.Watcher) {
	if !f.watching && w.Events != nil {
		f.watching = w.Add(f.dir) == nil
	}
}

// poll reads new events and yields the runs that have ended, unless skip is set. It
// returns false when the consumer has stopped.
func (f *follower) poll(skip bool) bool {
	files, err := listFiles(f.dir)
	if err != nil {
		return f.yield(Record{}, err)
	}
	fault := func(err error) bool {
		var line *LineError
		if skip && errors.As(err, &line) || errors.Is(err, fs.ErrNotExist) {
			return true
		}
		return f.yield(Record{}, err)
	}
	first := dayOf(f.now().Add(-maxRunTime))
	for _, name := range files {
		if name.day < first { // the runs of that day are over
			continue
		}
		var ended []*indexedRun
		if !f.add(name, fault, func(r *indexedRun) { ended = append(ended, r) }) {
			return false
		}
		for _, r := range ended {
			if !f.end(r, skip) {
				return false
			}
		}
	}
	if !f.unfinished(skip) {
		return false
	}
	for name := range f.read {
		if name.day < first {
			delete(f.read, name)
		}
	}
	return true
}

// end handles a run that has ended. Nested runs are kept until their root ends.
func (f *follower) end(r *indexedRun, skip bool) bool {
	if !r.begun || r.parent != "" {
		return true
	}
	defer f.forget(r.id)
	if skip {
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

// unfinished yields the runs that got events and have not ended, unless skip is set.
func (f *follower) unfinished(skip bool) bool {
	roots := map[*indexedRun]bool{}
	for id := range f.touched {
		if r := f.rootOf(id); r != nil {
			roots[r] = true
		}
	}
	clear(f.touched)
	if skip {
		return true
	}
	for r := range roots {
		rec, ok, faults := f.load(r)
		for _, err := range faults {
			if !f.yield(Record{}, err) {
				return false
			}
		}
		if ok && !f.yield(rec, nil) {
			return false
		}
	}
	return true
}
