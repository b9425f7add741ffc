package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Chain is a run and the runs that continue it, one after the other.
type Chain struct {
	Start time.Time // of the first run
	Runs  int       // how many there are
	Last  Record    // of the last run
	// Abandoned reports that the last run has no end and will not get one, because the
	// process that made it has ended. This process may still be at it.
	Abandoned bool
}

// Chain returns the run with that whole id, and those that continue it, whichever process
// made them. room, unless it is nil, is asked for memory. The error is ErrNotFound, a *RoomError,
// or a failure to read.
func (l *Log) Chain(id string, room Room) (Chain, error) {
	ctx := context.Background() // what becomes of a run is asked for by this program
	r := l.Reader()
	r.Room = room
	first, err := r.Find(ctx, id)
	if r.Others != nil && errors.Is(err, ErrNotFound) {
		return r.chainOfOthers(ctx, id, err)
	}
	if err != nil {
		return Chain{}, err
	}
	if first.ID != id {
		return Chain{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	c := Chain{Start: first.Start, Runs: 1, Last: first}
	if first.Done && !first.Unanswered() {
		return c, nil
	}
	elsewhere, runs, err := r.lastOf(ctx, id)
	if err != nil {
		return c, err
	}
	// All files are read, since any of the days may have what continues the run.
	x, end, err := r.indexSince(first.Start)
	defer end()
	if x == nil || err != nil {
		return c, err
	}
	next := map[string]string{}
	for _, r := range x.runs {
		if r.begun && r.continues != "" && r.parent == "" {
			next[r.continues] = max(next[r.continues], r.id)
		}
	}
	last := x.runs[id]
	seen := map[string]bool{id: true}
	for ; last != nil && next[last.id] != "" && !seen[next[last.id]]; c.Runs++ {
		last = x.runs[next[last.id]]
		seen[last.id] = true
	}
	if elsewhere != "" && !seen[elsewhere] { // what it continues is on another machine
		c.Last, err = r.Find(ctx, elsewhere)
		c.Runs = max(c.Runs, runs) + 1
		return c, err
	}
	if last != nil && last.id != id {
		rec, ok, faults := r.load(ctx, x, last)
		if !ok {
			return c, fmt.Errorf("run %s: it cannot be read: %w", last.id, errors.Join(faults...))
		}
		c.Last = rec
	}
	c.Abandoned = !c.Last.Done && last != nil && l.isAbandoned(last, &c.Last)
	return c, nil
}

// chainOfOthers returns the chain of a run whose record is lost, because it was on a machine
// that was lost. missing says that it is not there.
func (r Reader) chainOfOthers(ctx context.Context, first string, missing error) (Chain, error) {
	last, runs, err := r.lastOf(ctx, first)
	if err != nil {
		return Chain{}, err
	}
	if last == "" {
		return Chain{}, missing
	}
	c := Chain{Runs: runs + 1}
	c.Start, _ = TimeOf(first)
	c.Last, err = r.Find(ctx, last)
	return c, err
}

// lastOf is Others.LastOf.
func (r Reader) lastOf(ctx context.Context, first string) (string, int, error) {
	if r.Others == nil {
		return "", 0, nil
	}
	last, runs, err := r.Others.LastOf(ctx, first)
	if err != nil {
		return "", 0, &OthersError{err}
	}
	return last, runs, nil
}

// Rounds returns the runs of a dialogue with the client that rec is one of: the run that the
// client requested, and those that continue it, oldest first. What cannot be read is left
// out. The error is a failure to read the directory, or the cause of ctx.
func Rounds(ctx context.Context, dir string, rec Record) ([]Record, error) {
	return Reader{Dir: dir}.Rounds(ctx, rec)
}

// Rounds is [Rounds] for all that the Reader reads.
func (r Reader) Rounds(ctx context.Context, rec Record) ([]Record, error) {
	const most = 1000 // a damaged journal may have a circle
	rounds := []Record{rec}
	for first := rec; first.Continues != "" && len(rounds) < most; {
		before, err := r.Find(ctx, first.Continues)
		if errors.Is(err, ErrNotFound) {
			break // it was removed with its file
		}
		if err != nil {
			return nil, err
		}
		first, rounds = before, append([]Record{before}, rounds...)
	}
	if !rec.Outcome.Asks {
		return rounds, nil // nothing continues it
	}
	later := map[string]Record{}
	for other, err := range r.Scan(ctx, Filter{Since: rec.Start}) {
		var line *LineError
		switch {
		case err == nil && other.Continues != "":
			later[other.Continues] = other
		case err != nil && !errors.As(err, &line):
			return nil, err
		}
	}
	for next, ok := later[rec.ID]; ok && len(rounds) < most; next, ok = later[next.ID] {
		rounds = append(rounds, next)
	}
	return rounds, nil
}

// Unanswered reports whether the run or one of its nested runs has a question that the
// client has not answered.
func (r *Record) Unanswered() bool {
	return r.Any(func(r *Record) bool {
		for _, in := range r.Inputs {
			if in.Answer == nil {
				return true
			}
		}
		return false
	})
}

// indexSince returns an index of all events on this machine since a time; nil if there is none. end
// gives back its memory.
func (r Reader) indexSince(start time.Time) (all *index, end func(), failed error) {
	x := newIndex(r.Dir)
	for _, err := range (Reader{Dir: r.Dir, Room: r.Room}).read(context.Background(), x, Filter{Since: start}) {
		var line *LineError
		switch {
		case err == nil:
			all = x
		case !errors.As(err, &line):
			return nil, x.close, err
		}
	}
	return all, x.close, nil
}

// isAbandoned reports whether the process that wrote a run without an end has ended. It
// has if another process, or nobody, has its name as a writer, or if the time is over that
// the run may take.
func (l *Log) isAbandoned(r *indexedRun, rec *Record) bool {
	if l.opts.Now().Sub(rec.Start) > rec.Limits.Timeout+maxUndoTime {
		return true
	}
	writer := r.events[len(r.events)-1].file.writer
	l.mu.Lock()
	ours := l.files.lock != nil && l.files.writer == writer
	l.mu.Unlock()
	if ours {
		return true
	}
	number := 1
	if digits, ok := strings.CutPrefix(writer, "w"); ok {
		number, _ = strconv.Atoi(digits)
	} else if writer != "" { // a random one, which has no lock
		return false
	}
	lock := regular.NewLock(filepath.Join(l.dir, lockName(number)))
	free, err := lock.TryLock()
	if err == nil {
		_ = lock.Close()
	}
	return free && err == nil
}

// maxUndoTime is longer than a run can take to undo what it did, once its own time is
// over.
const maxUndoTime = 61 * time.Minute
