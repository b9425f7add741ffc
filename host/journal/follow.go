package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
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

// Marks say up to which byte each file of a journal was dealt with.
type Marks map[string]int64

// Ended is an ended run, a call without a script, or a checkpoint.
type Ended struct {
	ID string
	// Runs are the run and the nested runs, the run itself last; nil for a call.
	Runs []RunLines
	// First is the id of the first continued run, and Continues the id of the last; "" for none.
	First, Continues string
	Call             []byte // the line of a call or a checkpoint, without a newline; nil for a run
	// End is the end of the last line.
	End Place
}

// Size is the length of the lines, in bytes.
func (e *Ended) Size() (n int) {
	for _, r := range e.Runs {
		for _, line := range r.Lines {
			n += len(line) + 1
		}
	}
	return n + len(e.Call)
}

// Tail finds ended runs and calls in the journal in a directory, for copies elsewhere: the runs
// requested by clients, and calls without a script, of all processes that use the directory, in the
// write order of each process. Copies from other journals are left out. A Tail is not safe for
// concurrent use.
type Tail struct {
	x       *index
	marks   Marks
	waiting []waitingEnd
	lost    int
}

// waitingEnd is an ended run or call that was not taken yet.
type waitingEnd struct {
	run  *indexedRun // nil for a call
	call linePos
	end  Place
}

// NewTail returns a Tail without the runs and calls before the marks.
func NewTail(dir string, marks Marks) *Tail {
	t := &Tail{x: newIndex(dir), marks: Marks{}}
	for name, at := range marks {
		t.marks[name] = at
	}
	return t
}

// Look looks for newly ended runs and calls. It returns the number of waiting ones. The error is a
// failure to read the directory, or the cause of ctx; unreadable parts of a file are left out and
// reported to fault.
func (t *Tail) Look(ctx context.Context, now time.Time, fault func(error)) (int, error) {
	files, err := listFiles(t.x.dir)
	if err != nil {
		return 0, err
	}
	there := map[string]bool{}
	for _, name := range files {
		there[name.String()] = true
		if name.writer == copiedWriter || t.isOver(name, now) {
			continue
		}
		t.read(ctx, name, fault)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	for name := range t.marks {
		if !there[name] {
			delete(t.marks, name)
		}
	}
	for name := range t.x.read {
		if !there[name.String()] {
			delete(t.x.read, name)
		}
	}
	return len(t.waiting), nil
}

// isOver reports whether a file has no new events, and no events needed by a run of another file.
func (t *Tail) isOver(name fileName, now time.Time) bool {
	if name.day >= dayOf(now.Add(-maxRunTime)) {
		return false
	}
	info, err := os.Stat(filepath.Join(t.x.dir, name.String()))
	return err != nil || info.Size() <= t.marks[name.String()]
}

// read reads the new lines of a file.
func (t *Tail) read(ctx context.Context, name fileName, fault func(error)) {
	file := name.String()
	add := func(r *indexedRun, at linePos) {
		end := Place{file, at.at + int64(at.size) + 1}
		if end.Offset <= t.marks[file] {
			if r != nil {
				t.x.forget(r.id)
			}
			return
		}
		t.waiting = append(t.waiting, waitingEnd{r, at, end})
	}
	t.x.onProxied = func(at linePos) { add(nil, at) }
	t.x.onCheckpoint = t.x.onProxied
	t.x.add(ctx, name, func(err error) bool {
		if ctx.Err() == nil {
			fault(err)
		}
		return ctx.Err() == nil
	}, func(r *indexedRun) {
		if r.begun && r.parent == "" {
			add(r, r.events[len(r.events)-1])
		}
	})
}

// Take returns the next ended runs and calls: at least one unless none waits, at most count, and no
// more than needed to reach a size in bytes. Take reads the events now. Runs removed in the
// meantime are left out.
func (t *Tail) Take(count, size int, fault func(error)) (all []Ended) {
	files := newOpenFiles(t.x.dir)
	defer files.close()
	n := 0
	for ; n < len(t.waiting) && len(all) < count && size > 0; n++ {
		w := &t.waiting[n]
		e, err := t.load(w, files)
		if w.run != nil {
			t.x.forget(w.run.id)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			t.lost++
			fault(fmt.Errorf("the file of the journal was removed before: %w", err))
		case err != nil:
			fault(err)
		default:
			all = append(all, e)
			size -= e.Size()
		}
	}
	t.waiting = t.waiting[n:]
	if len(t.waiting) == 0 {
		t.waiting = nil
	}
	return all
}

// Waiting returns how many things wait to be taken, and when the first of them began.
func (t *Tail) Waiting() (n int, oldest time.Time) {
	if len(t.waiting) > 0 {
		w := t.waiting[0]
		if w.run != nil {
			oldest, _ = TimeOf(w.run.id)
		}
	}
	return len(t.waiting), oldest
}

// Lost returns how many things were removed, because of their age or the size of the journal,
// before they were taken.
func (t *Tail) Lost() int { return t.lost }

// Done sets the marks behind the taken runs and calls, and returns a copy of the marks.
func (t *Tail) Done(taken []Ended) Marks {
	for i := range taken {
		at := taken[i].End
		t.marks[at.File] = max(t.marks[at.File], at.Offset)
	}
	if len(t.waiting) == 0 {
		for name, at := range t.x.read { // the rest has not ended
			t.marks[name.String()] = max(t.marks[name.String()], at)
		}
	}
	marks := Marks{}
	for name, at := range t.marks {
		marks[name] = at
	}
	return marks
}

// load reads an ended run or call.
func (t *Tail) load(w *waitingEnd, files *openFiles) (Ended, error) {
	e := Ended{End: w.end}
	if w.run == nil {
		text, err := files.read(w.call)
		if err != nil {
			return e, err
		}
		h, err := readHead(text)
		if err != nil {
			return e, &LineError{files.path(*w.call.file), w.call.at, err}
		}
		e.ID, e.Call = string(h.run), text
		return e, nil
	}
	e.ID, e.Continues = w.run.id, w.run.continues
	if err := t.loadRun(&e, w.run, files, 1); err != nil {
		return e, err
	}
	if f, err := readFields(e.Runs[len(e.Runs)-1].Lines[0]); err == nil {
		e.First = cmp.Or(f.text("first"), e.Continues)
	}
	return e, nil
}

// loadRun adds a run, behind the nested runs.
func (t *Tail) loadRun(e *Ended, r *indexedRun, files *openFiles, depth int) error {
	for _, child := range r.children {
		if c := t.x.runs[child]; c != nil && c.begun && depth <= maxDepth {
			if err := t.loadRun(e, c, files, depth+1); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(r.events, func(a, b linePos) int {
		return cmp.Or(compareNames(*a.file, *b.file), cmp.Compare(a.at, b.at))
	})
	l := RunLines{Run: r.id}
	for _, at := range r.events {
		text, err := files.read(at)
		if err != nil {
			return err
		}
		l.Lines = append(l.Lines, text)
		l.Ended = l.Ended || IsEnd(text)
	}
	e.Runs = append(e.Runs, l)
	return nil
}
