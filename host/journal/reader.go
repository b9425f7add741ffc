package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// Others brings what other replicas of a fleet have recorded into the journal in a directory
// (package shared). It is safe for concurrent use.
type Others interface {
	// Days returns the days for which others have recorded something, in any order, as they
	// are in the names of files.
	Days(ctx context.Context) ([]string, error)
	// Day brings in what began on that day.
	Day(ctx context.Context, day string) error
	// Run brings in the run with that whole id, with those that it called, if there is one.
	Run(ctx context.Context, id string) error
	// LastOf returns the id of the last run that is known to continue a run, which is the
	// first of its chain, and how many do; "" for none.
	LastOf(ctx context.Context, first string) (last string, runs int, err error)
}

// OthersError says that what other replicas have recorded cannot be read. What is on this
// machine can.
type OthersError struct{ Err error }

func (e *OthersError) Error() string {
	return fmt.Sprintf("what other replicas have recorded is missing: %v", e.Err)
}

// Unwrap returns the cause.
func (e *OthersError) Unwrap() error { return e.Err }

// Reader reads a journal, and what others have recorded.
type Reader struct {
	Dir    string
	Others Others // nil: there are none
	// Room, if it is not nil, is asked for memory for the index and for each record.
	Room Room
}

// Room waits until there is memory for so many bytes. It is called while other memory from it is
// held, so it must not wait forever.
type Room func(ctx context.Context, bytes int64) (Memory, error)

// Memory is what a Room has given; a [budget.Hold].
type Memory interface {
	// Close gives it back.
	Close()
	// Attach gives it back when the garbage collector has freed b.
	Attach(b []byte)
}

// roomWait is how long a read waits for memory.
const roomWait = 10 * time.Second

// ErrNoRoom says that there was no memory for a read for too long.
var ErrNoRoom = errors.New("too many bytes of other messages and records are being worked on (try again later)")

// RoomIn returns the Room in a budget for an owner; nil if the budget is nil. It waits for ten
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

// RoomError says that there is no memory for a read.
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

// recordCopies is how many bytes a record takes for each byte of its lines: the line, and
// what it is decoded to.
const recordCopies = 3

// noMemory is the Memory of a Reader without a Room.
type noMemory struct{}

// Close implements Memory.
func (noMemory) Close() {}

// Attach implements Memory.
func (noMemory) Attach([]byte) {}

// room waits for memory for a run of x with its nested runs. The error is a *RoomError.
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

// memoryToken is the size of what a record refers to as long as it is in use. It is so large
// that the garbage collector frees it by itself.
const memoryToken = 64

// load is index.load with memory that is held as long as the record is in use.
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

// size returns the bytes of the lines of a run and of its nested runs.
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

// Reader returns the Reader of the journal that l writes.
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

// Fetch brings in what others have recorded of a period; a time that is zero does not bound it.
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

// days yields the days of a journal that can contain a match for f, the newest first, each with
// its files. An error says that what others have recorded is missing.
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
					clear(remote) // the others of these days are missing, too
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
