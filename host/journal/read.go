package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter selects records. A zero field selects all records.
type Filter struct {
	ID      string // prefix of the id
	Tool    string // name
	Outcome string // see OutcomeName
	Session string // of the client
	Token   string // name of the token of the client
	// Since and Until bound the start; Until is exclusive.
	Since, Until time.Time
	Limit        int // maximum number of records
}

// The names of outcomes, in addition to the classes of errors.
const (
	OK         = "ok"
	Unfinished = "unfinished" // still running, or the process ended before the run did
	Asks       = "asks"       // the run waits for answers of the client, or another run continues the run
)

// OutcomeName returns the outcome of the run: OK, Asks, the class of the error, or Unfinished.
func (r *Record) OutcomeName() string {
	switch {
	case !r.Done:
		return Unfinished
	case r.Outcome.Asks:
		return Asks
	case r.Outcome.Error == "":
		return OK
	}
	return string(r.Outcome.Error)
}

// ErrNotFound means that the journal has no run with the given id.
var ErrNotFound = errors.New("no such run")

// AmbiguousError means that several ids begin with a prefix.
type AmbiguousError struct {
	Prefix string
	IDs    []string
}

func (e *AmbiguousError) Error() string {
	const listed = 5
	ids, more := e.IDs, ""
	if len(ids) > listed {
		ids, more = ids[:listed], fmt.Sprintf(" and %d others", len(ids)-listed)
	}
	return fmt.Sprintf("run %s: several ids begin with this: %s%s (give more of the id)", e.Prefix, strings.Join(ids, ", "), more)
}

// Scan yields the runs that clients have requested from the journal in dir, newest first, each with
// its nested runs. For unreadable data, Scan yields an error and continues if possible. The error
// of a skipped line is a *LineError: the last line of a file is incomplete if the process or the
// machine stopped during the write. A missing directory has no runs.
//
// The content of a run is read only before the yield, so an early stop is cheap. When ctx ends, the
// last yielded error is the cause of ctx.
func Scan(ctx context.Context, dir string, f Filter) iter.Seq2[Record, error] {
	return Reader{Dir: dir}.Scan(ctx, f)
}

// Scan is [Scan] for all journals of the Reader. Among the errors can be an [*OthersError].
func (r Reader) Scan(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		left := f.Limit
		for x, err := range r.indexes(ctx, f, false) {
			if err != nil {
				if !yield(Record{}, err) {
					return
				}
				continue
			}
			for _, run := range x.roots() {
				if f.mayMatch(run.id) && !r.scan(ctx, x, run, f, &left, yield) {
					return
				}
				x.forget(run.id)
			}
		}
	}
}

// scan yields a run if the run matches. It returns false to end the scan.
func (r Reader) scan(ctx context.Context, x *index, run *indexedRun, f Filter, left *int, yield func(Record, error) bool) bool {
	memory, err := r.room(ctx, x, run)
	if err != nil && ctx.Err() == nil {
		return yield(Record{}, err)
	}
	var rec Record
	var ok bool
	var faults []error
	if err == nil {
		defer memory.Close()
		rec, ok, faults = x.load(ctx, run)
	}
	if ctx.Err() != nil {
		yield(Record{}, context.Cause(ctx))
		return false
	}
	for _, err := range faults {
		if !yield(Record{}, err) {
			return false
		}
	}
	if !ok || !f.matches(&rec) {
		return true
	}
	*left--
	return yield(rec, nil) && *left != 0
}

// Find returns the run with the given id, or the only run with the given prefix. The error is
// ErrNotFound, an *AmbiguousError, a failure to read, or the cause of ctx. A nested run is found
// only by the whole id.
func Find(ctx context.Context, dir, id string) (Record, error) {
	return Reader{Dir: dir}.Find(ctx, id)
}

// Find is [Find] for all journals of the Reader. The other replicas are asked unless this journal
// has an ended run with the given whole id.
func (r Reader) Find(ctx context.Context, id string) (Record, error) {
	rec, err := Reader{Dir: r.Dir, Room: r.Room}.find(ctx, id)
	if r.Others == nil || err == nil && rec.Done && rec.ID == strings.ToLower(id) || ctx.Err() != nil {
		return rec, err
	}
	return r.find(ctx, id)
}

func (r Reader) find(ctx context.Context, id string) (Record, error) {
	id = strings.ToLower(id)
	if id == "" || !isID([]byte(id)) {
		return Record{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	var found []Record
	var faults []error
	for x, err := range r.indexes(ctx, Filter{ID: id}, false) {
		if ctx.Err() != nil {
			return Record{}, context.Cause(ctx)
		}
		var full *RoomError
		if errors.As(err, &full) {
			return Record{}, err
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, run := range x.runs {
			if !run.begun || run.id != id && (run.parent != "" || !strings.HasPrefix(run.id, id)) {
				continue
			}
			rec, ok, errs := r.load(ctx, x, run)
			if len(errs) == 1 && errors.As(errs[0], &full) {
				return Record{}, full
			}
			if faults = append(faults, errs...); ok {
				found = append(found, rec)
			}
		}
		for _, r := range x.roots() {
			x.forget(r.id)
		}
	}
	switch {
	case ctx.Err() != nil:
		return Record{}, context.Cause(ctx)
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		ids := make([]string, len(found))
		for i, rec := range found {
			ids[i] = rec.ID
		}
		slices.Sort(ids)
		return Record{}, &AmbiguousError{id, slices.Compact(ids)}
	}
	for _, err := range faults {
		if others := (*OthersError)(nil); errors.As(err, &others) {
			return Record{}, fmt.Errorf("run %q: not on this machine, and %w", id, err)
		}
	}
	return Record{}, errors.Join(append([]error{fmt.Errorf("run %q: %w", id, ErrNotFound)}, faults...)...)
}

// mayMatch reports whether a run with the given id, which contains the time, can match.
func (f *Filter) mayMatch(id string) bool {
	if !strings.HasPrefix(id, strings.ToLower(f.ID)) {
		return false
	}
	start, ok := TimeOf(id)
	return !ok || (f.Since.IsZero() || start.Add(time.Millisecond).After(f.Since)) && (f.Until.IsZero() || start.Before(f.Until))
}

func (f *Filter) matches(r *Record) bool {
	return (f.Tool == "" || r.Definition.Name == f.Tool) &&
		(f.Outcome == "" || r.OutcomeName() == f.Outcome) &&
		(f.Session == "" || r.Client.Session == f.Session) && (f.Token == "" || r.Client.Token == f.Token) &&
		(f.Since.IsZero() || !r.Start.Before(f.Since)) && (f.Until.IsZero() || r.Start.Before(f.Until))
}

// timeDigits is the length of the part of an id with the start of the run in milliseconds:
// "019b7ca9-906f".
const timeDigits = 13

// TimeOf returns the millisecond of the run's beginning, if the id contains the time.
func TimeOf(id string) (time.Time, bool) {
	if len(id) < timeDigits {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(strings.Replace(id[:timeDigits], "-", "", 1), 16, 64)
	return time.UnixMilli(ms).UTC(), err == nil
}

// maxRunTime is longer than any run can take. All events of a run are in files of this time after
// the start.
const maxRunTime = 49 * time.Hour

// maxClockStep is how far the clock may be set back during a run. The events can then be in files
// of the day before.
const maxClockStep = time.Hour

// indexes yields an index for each day with files, newest first. Each index has the runs that began
// on the day, with all their events, and earlier runs that were not forgotten. Days without a
// possible match for f are left out. When ctx ends, the last error is the cause of ctx; a
// *RoomError is the last error, too. The memory of the index is given back in the end.
func (r Reader) indexes(ctx context.Context, f Filter, proxied bool) iter.Seq2[*index, error] {
	return func(yield func(*index, error) bool) {
		x := newIndex(r.Dir)
		x.collectProxied = proxied
		defer x.close()
		r.read(ctx, x, f)(yield)
	}
}

// read is indexes with an index that the caller has made and must close.
func (r Reader) read(ctx context.Context, x *index, f Filter) iter.Seq2[*index, error] {
	return func(yield func(*index, error) bool) {
		x.room = r.Room
		for files, err := range r.days(ctx, f) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			for _, name := range files {
				if !x.add(ctx, name, func(err error) bool { return yield(nil, err) }, nil) {
					return
				}
			}
			if !yield(x, nil) {
				return
			}
		}
	}
}

// days returns the first and the last day with files that can contain a match.
func (f *Filter) days() (first, last string) {
	since, until := f.Since, f.Until
	if start, ok := TimeOf(f.ID); ok {
		since, until = start, start.Add(time.Millisecond)
	}
	first, last = "", "9999-99-99"
	if !since.IsZero() {
		first = dayOf(since.Add(-maxClockStep))
	}
	if !until.IsZero() {
		last = dayOf(until.Add(maxRunTime))
	}
	return first, last
}
