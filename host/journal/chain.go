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

// Chain is a run and the runs that continue the run, one after the other.
type Chain struct {
	Start time.Time // of the first run
	Runs  int       // number of runs
	Last  Record    // of the last run
	// Abandoned is set if the last run will stay without an end, because the run's process has
	// ended. This process may still be working on the run.
	Abandoned bool
}

// Chain returns the run with the given whole id, and the runs of all processes that continue the
// run. room, unless nil, is asked for memory. The error is ErrNotFound, a *RoomError, or a failure
// to read.
func (l *Log) Chain(id string, room Room) (Chain, error) {
	ctx := context.Background() // this program asks for the state of the run
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
	// All files are read, since any day may have a run that continues this run.
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
	if elsewhere != "" && !seen[elsewhere] { // the continuing run is on another machine
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

// chainOfOthers returns the chain of a run with a record lost together with a machine. missing is
// the error for a missing record.
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

// Rounds returns the runs of the dialogue with the client to which rec belongs: the run requested
// by the client, and the runs that continue the first run, oldest first. Unreadable runs are left
// out. The error is a failure to read the directory, or the cause of ctx.
func Rounds(ctx context.Context, dir string, rec Record) ([]Record, error) {
	return Reader{Dir: dir}.Rounds(ctx, rec)
}

// Rounds is [Rounds] for all journals of the Reader.
func (r Reader) Rounds(ctx context.Context, rec Record) ([]Record, error) {
	const most = 1000 // a damaged journal may have a circle
	rounds := []Record{rec}
	for first := rec; first.Continues != "" && len(rounds) < most; {
		before, err := r.Find(ctx, first.Continues)
		if errors.Is(err, ErrNotFound) {
			break // the run was removed with the file
		}
		if err != nil {
			return nil, err
		}
		first, rounds = before, append([]Record{before}, rounds...)
	}
	if !rec.Outcome.Asks {
		return rounds, nil // no run continues the last
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

// Unanswered reports whether the run or one of its nested runs has a question unanswered by the
// client.
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

// indexSince returns an index of all events on this machine since a time; nil for no events. end
// gives back the memory of the index.
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

// isAbandoned reports whether the process of a run without an end has ended: this process or no
// process has the run's writer name, or the longest time of the run is over.
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
	} else if writer != "" { // a random name, which has no lock
		return false
	}
	lock := regular.NewLock(filepath.Join(l.dir, lockName(number)))
	free, err := lock.TryLock()
	if err == nil {
		_ = lock.Close()
	}
	return free && err == nil
}

// maxUndoTime is longer than a run can take to undo calls, after the end of the run's own time.
const maxUndoTime = 61 * time.Minute
