package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Others copies records of other replicas of a fleet into the journal in a directory (package
// shared). An Others is safe for concurrent use.
type Others interface {
	// Days returns the days with records of other replicas, in any order, in the form used in file
	// names.
	Days(ctx context.Context) ([]string, error)
	// Day copies the runs and calls that began on the day.
	Day(ctx context.Context, day string) error
	// Run copies the run with the given whole id, if known, with the nested runs.
	Run(ctx context.Context, id string) error
	// LastOf returns the id of the last known run that continues a run, the first of a chain, and
	// the number of continuing runs; "" for none.
	LastOf(ctx context.Context, first string) (last string, runs int, err error)
}

// OthersError is the error of unreadable records of other replicas. Records on this machine are
// readable.
type OthersError struct{ Err error }

func (e *OthersError) Error() string {
	return fmt.Sprintf("the records of other replicas are missing: %v", e.Err)
}

// Unwrap returns the cause.
func (e *OthersError) Unwrap() error { return e.Err }

// Reader reads a journal, and records of other replicas.
type Reader struct {
	Dir    string
	Others Others // nil: no other replicas
	// Room, if not nil, is asked for memory for the index and for each record.
	Room Room
}

// Room waits for the given number of bytes of memory. Callers hold earlier memory from Room during
// the call, so Room must not wait forever.
type Room func(ctx context.Context, bytes int64) (Memory, error)

// Memory is memory given by a Room; a [budget.Hold].
type Memory interface {
	// Close gives the memory back.
	Close()
	// Attach gives the memory back when the garbage collector has freed b.
	Attach(b []byte)
}

// roomWait is how long a read waits for memory.
const roomWait = 10 * time.Second

// ErrNoRoom means that memory for a read was lacking for too long.
var ErrNoRoom = errors.New("too many bytes of other messages and records are being worked on (try again later)")

// RoomIn returns the Room in a budget for an owner; nil for a nil budget. The Room waits for ten
// seconds at most, and then returns ErrNoRoom.
func RoomIn(b *budget.Budget, owner any) Room {
	if b == nil {
		return nil
	}
	return func(ctx context.Context, bytes int64) (Memory, error) {
		hold := b.Open(owner)
		ctx, cancel := context.WithTimeoutCause(ctx, roomWait, ErrNoRoom)
		defer cancel()
		if err := hold.Acquire(ctx, bytes); err != nil {
			hold.Close()
			return nil, err
		}
		return hold, nil
	}
}

// RoomError is the error of a read without memory.
type RoomError struct {
	Run string // of which the record is to be read; "" for the index of the journal
	Err error
}

func (e *RoomError) Error() string {
	if e.Run == "" {
		return fmt.Sprintf("the index of the journal: %v", e.Err)
	}
	return fmt.Sprintf("run %s: %v", e.Run, e.Err)
}

// Unwrap returns the cause.
func (e *RoomError) Unwrap() error { return e.Err }

// recordCopies is the number of bytes of a record for each byte of its lines: the line, and the
// decoded form.
const recordCopies = 3

// noMemory is the Memory of a Reader without a Room.
type noMemory struct{}

// Close implements Memory.
func (noMemory) Close() {}

// Attach implements Memory.
func (noMemory) Attach([]byte) {}

// room waits for memory for a run of x with nested runs. The error is a *RoomError.
func (r Reader) room(ctx context.Context, x *index, run *indexedRun) (Memory, error) {
	if r.Room == nil {
		return noMemory{}, nil
	}
	m, err := r.Room(ctx, recordCopies*x.size(run, 1))
	if err != nil {
		return nil, &RoomError{run.id, err}
	}
	return m, nil
}

// memoryToken is the size of a value that a record refers to while in use. The size is large enough
// for the garbage collector to free the value separately.
const memoryToken = 64

// load is index.load with memory held as long as the record is in use.
func (r Reader) load(ctx context.Context, x *index, run *indexedRun) (rec Record, ok bool, faults []error) {
	m, err := r.room(ctx, x, run)
	if err != nil {
		return Record{}, false, []error{err}
	}
	if rec, ok, faults = x.load(ctx, run); !ok {
		m.Close()
		return rec, ok, faults
	}
	if r.Room != nil {
		rec.memory = make([]byte, memoryToken)
		m.Attach(rec.memory)
	}
	return rec, ok, faults
}

// size returns the bytes of the lines of a run and of the nested runs.
func (x *index) size(r *indexedRun, depth int) (bytes int64) {
	for _, at := range r.events {
		bytes += int64(at.size)
	}
	for _, child := range r.children {
		if c := x.runs[child]; c != nil && depth <= maxDepth {
			bytes += x.size(c, depth+1)
		}
	}
	return bytes
}

// Reader returns the Reader of the journal of l.
func (l *Log) Reader() Reader {
	if l == nil {
		return Reader{}
	}
	r := Reader{Dir: l.dir}
	if fleet := l.options().Fleet; fleet != nil {
		r.Others = fleet
	}
	return r
}

// Fetch copies records of other replicas for a period; a zero time does not bound the period.
func (r Reader) Fetch(ctx context.Context, since, until time.Time) error {
	if r.Others == nil {
		return nil
	}
	first, last := (&Filter{Since: since, Until: until}).days()
	days, err := r.Others.Days(ctx)
	if err != nil {
		return &OthersError{err}
	}
	for _, day := range days {
		if day >= first && day <= last {
			if err := r.Others.Day(ctx, day); err != nil {
				return &OthersError{err}
			}
		}
	}
	return nil
}

// idLength is the length of a whole id.
const idLength = 36

// days yields the days of a journal that can contain a match for f, newest first, each with the
// files of the day. An error means that records of other replicas are missing.
func (r Reader) days(ctx context.Context, f Filter) iter.Seq2[[]fileName, error] {
	return func(yield func([]fileName, error) bool) {
		first, last := f.days()
		remote := map[string]bool{}
		if r.Others != nil {
			var err error
			var days []string
			if len(f.ID) == idLength {
				err = r.Others.Run(ctx, f.ID)
			} else {
				days, err = r.Others.Days(ctx)
			}
			if err != nil && !yield(nil, &OthersError{err}) {
				return
			}
			for _, day := range days {
				remote[day] = true
			}
		}
		files, err := listFiles(r.Dir)
		if err != nil {
			yield(nil, err)
			return
		}
		all := map[string][]fileName{}
		for _, name := range files {
			all[name.day] = append(all[name.day], name)
		}
		for day := range remote {
			all[day] = append(all[day], fileName{day: day, writer: copiedWriter})
		}
		var days []string
		for day := range all {
			if day >= first && day <= last {
				days = append(days, day)
			}
		}
		slices.SortFunc(days, func(a, b string) int { return cmp.Compare(b, a) })
		for _, day := range days {
			if remote[day] {
				if err := r.Others.Day(ctx, day); err != nil {
					clear(remote) // the records of other replicas for these days are missing, too
					if !yield(nil, &OthersError{err}) {
						return
					}
				}
			}
			names := all[day]
			slices.SortFunc(names, compareNames)
			if !yield(slices.Compact(names), nil) {
				return
			}
		}
	}
}

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
