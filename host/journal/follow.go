package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// FollowOptions are the options of Follow.
type FollowOptions struct {
	// Tick makes Follow look for new events, in addition to the notifications of
	// the file system, which some file systems lack. Nil means every two seconds.
	Tick <-chan time.Time
	// Started, if set, is called after Follow has skipped the existing events of the journal. Runs
	// that end afterwards are yielded.
	Started func()
	Now     func() time.Time // nil is time.Now
	// Unfinished also yields unfinished runs, each run as often as new events arrive. Only the new
	// events are read, not the whole run, and a record is valid only until the next record.
	Unfinished bool
	// Pause is the least time between two looks for new events, to spare a consumer of Unfinished a
	// call for each event; 0 means no pause.
	Pause time.Duration
}

// Follow yields the runs requested by clients, with their nested runs, at the end of each run, from
// all processes, until ctx ends. Runs that ended earlier are not yielded. The directory need not
// exist yet. An error describes unreadable data; Follow continues after the error.
func Follow(ctx context.Context, dir string, opts FollowOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f := follower{index: newIndex(dir), yield: yield, now: opts.Now, partial: map[string]*partialTree{}}
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
		if !f.poll(ctx, true) {
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
			if !f.poll(ctx, false) {
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
	// partial has the read part of the unfinished runs, by the id of their root, and order their
	// ids, with the last active run at the end.
	partial map[string]*partialTree
	order   []string
}

// maxPartial is the number of unfinished runs kept in memory. Further unfinished runs are read from
// their beginning at each new event.
const maxPartial = 32

// partialTree is an unfinished run with nested runs.
type partialTree struct {
	*decoder
	taken map[string]int // how many events of each run were decoded
}

// watch subscribes to changes of the directory as soon as the directory exists.
func (f *follower) watch(w *fsnotify.Watcher) {
	if !f.watching && w.Events != nil {
		f.watching = w.Add(f.dir) == nil
	}
}

// poll reads new events and yields the ended runs, unless skip is set. It returns false when the
// consumer has stopped, or ctx has ended.
func (f *follower) poll(ctx context.Context, skip bool) bool {
	files, err := listFiles(f.dir)
	if err != nil {
		return f.yield(Record{}, err)
	}
	fault := func(err error) bool {
		var line *LineError
		if ctx.Err() != nil {
			return false
		}
		if skip && errors.As(err, &line) || errors.Is(err, fs.ErrNotExist) {
			return true
		}
		return f.yield(Record{}, err)
	}
	first := dayOf(f.now().Add(-maxRunTime))
	for _, name := range files {
		if name.day < first { // the runs of the day are over
			continue
		}
		var ended []*indexedRun
		if !f.add(ctx, name, fault, func(r *indexedRun) { ended = append(ended, r) }) {
			return false
		}
		for _, r := range ended {
			if !f.end(ctx, r, skip) {
				return false
			}
		}
	}
	if !f.unfinished(ctx, skip) {
		return false
	}
	for name := range f.read {
		if name.day < first {
			delete(f.read, name)
		}
	}
	return true
}

// end handles an ended run. Nested runs are kept until their root ends.
func (f *follower) end(ctx context.Context, r *indexedRun, skip bool) bool {
	if !r.begun || r.parent != "" {
		return true
	}
	defer f.drop(r.id)
	return skip || f.yieldTree(ctx, r)
}

// drop forgets a run with nested runs.
func (f *follower) drop(id string) {
	f.forget(id)
	delete(f.partial, id)
	f.order = slices.DeleteFunc(f.order, func(other string) bool { return other == id })
}

// yieldTree reads the new events of a run and of the nested runs, and yields the run.
func (f *follower) yieldTree(ctx context.Context, r *indexedRun) bool {
	t := f.partial[r.id]
	if t == nil {
		t = &partialTree{newDecoder(), map[string]int{}}
		f.partial[r.id] = t
	}
	f.order = append(slices.DeleteFunc(f.order, func(id string) bool { return id == r.id }), r.id)
	for len(f.order) > maxPartial {
		delete(f.partial, f.order[0])
		f.order = f.order[1:]
	}
	files := newOpenFiles(f.dir)
	defer files.close()
	var faults []error
	t.take(ctx, f.index, r, files, &faults, 1)
	var rec Record
	if t.runs[r.id] != nil {
		var err error
		if rec, err = t.tree(r.id, 1); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", r.id, err))
		}
	}
	if ctx.Err() != nil {
		return false
	}
	for _, err := range faults {
		if !f.yield(Record{}, err) {
			return false
		}
	}
	return rec.ID == "" || f.yield(rec, nil)
}

// take decodes the new events of a run and of the nested runs.
func (t *partialTree) take(ctx context.Context, x *index, r *indexedRun, files *openFiles, faults *[]error, depth int) {
	for n, at := range r.events[t.taken[r.id]:] {
		if n%linesPerCheck == 0 && ctx.Err() != nil {
			return
		}
		text, err := files.read(at)
		if err == nil {
			err = t.add(text)
		}
		if err != nil {
			*faults = append(*faults, &LineError{files.path(*at.file), at.at, err})
		}
	}
	t.taken[r.id] = len(r.events)
	for _, child := range r.children {
		if c := x.runs[child]; c != nil && c.begun && depth <= maxDepth {
			t.take(ctx, x, c, files, faults, depth+1)
		}
	}
}

// unfinished yields the unfinished runs with new events, unless skip is set.
func (f *follower) unfinished(ctx context.Context, skip bool) bool {
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
		if !f.yieldTree(ctx, r) {
			return false
		}
	}
	return true
}
