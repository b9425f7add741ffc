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
