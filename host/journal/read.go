package journal

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter chooses records; what is zero chooses all.
type Filter struct {
	ID      string // the beginning of it
	Tool    string // name
	Outcome string // see OutcomeName
	Session string // of the client
	// Since and Until bound the start, Until excluded.
	Since, Until time.Time
	Limit        int // how many at most
}

// The names of outcomes beside the classes of errors.
const (
	OK         = "ok"
	Unfinished = "unfinished" // still running, or the process ended before the run did
)

// OutcomeName is how the run ended: OK, the class of its error, or Unfinished.
func (r *Record) OutcomeName() string {
	switch {
	case !r.Done:
		return Unfinished
	case r.Outcome.Error == "":
		return OK
	}
	return string(r.Outcome.Error)
}

// ErrNotFound is what errors.Is finds when there is no such run.
var ErrNotFound = errors.New("no such run")

// AmbiguousError says that the beginning of an id is that of several runs.
type AmbiguousError struct {
	Prefix string
	IDs    []string
}

func (e *AmbiguousError) Error() string {
	const shown = 5
	ids, more := e.IDs, ""
	if len(ids) > shown {
		ids, more = ids[:shown], fmt.Sprintf(" and %d others", len(ids)-shown)
	}
	return fmt.Sprintf("run %s: the beginning of several ids: %s%s (give more of it)", e.Prefix, strings.Join(ids, ", "), more)
}

// Scan yields the runs that clients have asked for and that are in the journal
// in dir, the newest first, each with the runs below it; an error for what
// cannot be read, after which it goes on where it can. Of a line that is skipped
// that is a *LineError: the last one of a file is torn when its process was
// ended, or the machine was, while it wrote. A directory that is not there is a
// journal without runs.
//
// The content of runs is read when it is their turn, so that those who stop
// early are served fast.
func Scan(dir string, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		left := f.Limit
		for x, err := range days(dir, f, false) {
			if err != nil {
				if !yield(Record{}, err) {
					return
				}
				continue
			}
			for _, r := range x.roots() {
				if f.mayChoose(r.id) {
					rec, ok, faults := x.load(r)
					for _, err := range faults {
						if !yield(Record{}, err) {
							return
						}
					}
					if ok && f.chooses(&rec) {
						if !yield(rec, nil) {
							return
						}
						if left--; left == 0 {
							return
						}
					}
				}
				x.forget(r.id)
			}
		}
	}
}

// Find is the run with that id, or the only one whose id begins so; the error is
// ErrNotFound or an *AmbiguousError, or that reading failed. A run that another
// one has called is found by its whole id.
func Find(dir, id string) (Record, error) {
	id = strings.ToLower(id)
	if id == "" || !isID([]byte(id)) {
		return Record{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	var found []Record
	var faults []error
	for x, err := range days(dir, Filter{ID: id}, false) {
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, r := range x.runs {
			if !r.begun || r.id != id && (r.parent != "" || !strings.HasPrefix(r.id, id)) {
				continue
			}
			rec, ok, errs := x.load(r)
			if faults = append(faults, errs...); ok {
				found = append(found, rec)
			}
		}
		for _, r := range x.roots() {
			x.forget(r.id)
		}
	}
	switch {
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
	return Record{}, errors.Join(append([]error{fmt.Errorf("run %q: %w", id, ErrNotFound)}, faults...)...)
}

// mayChoose judges by the id alone, which has the time in it.
func (f *Filter) mayChoose(id string) bool {
	if !strings.HasPrefix(id, strings.ToLower(f.ID)) {
		return false
	}
	start, ok := timeOf(id)
	return !ok || (f.Since.IsZero() || start.Add(time.Millisecond).After(f.Since)) && (f.Until.IsZero() || start.Before(f.Until))
}

func (f *Filter) chooses(r *Record) bool {
	return (f.Tool == "" || r.Definition.Name == f.Tool) &&
		(f.Outcome == "" || r.OutcomeName() == f.Outcome) &&
		(f.Session == "" || r.Client.Session == f.Session) &&
		(f.Since.IsZero() || !r.Start.Before(f.Since)) && (f.Until.IsZero() || r.Start.Before(f.Until))
}

// timeDigits is how much of an id says when the run started, to the millisecond:
// "019b7ca9-906f".
const timeDigits = 13

// timeOf is the millisecond in which the run began, if the id begins with it.
func timeOf(id string) (time.Time, bool) {
	if len(id) < timeDigits {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(strings.Replace(id[:timeDigits], "-", "", 1), 16, 64)
	return time.UnixMilli(ms).UTC(), err == nil
}

// longest is more than a run can take: events of it are in files of that time
// after its beginning.
const longest = 49 * time.Hour

// clockStep is how far a clock may be set back while a run is under way, for its
// events to be found: they are then in the files of the day before.
const clockStep = time.Hour

// days yields an index for each day that has files, the newest first: each has
// the runs that began on that day, with all their events, beside such as were not
// forgotten. It leaves out days in which nothing can be that f chooses.
func days(dir string, f Filter, proxied bool) iter.Seq2[*index, error] {
	return func(yield func(*index, error) bool) {
		files, err := listFiles(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		first, last := f.days()
		x := newIndex(dir)
		x.wanted = proxied
		for i := len(files); i > 0; {
			day := files[i-1].day
			from := i
			for from > 0 && files[from-1].day == day {
				from--
			}
			if day < first {
				return
			}
			if day <= last {
				for _, name := range files[from:i] {
					if !x.add(name, func(err error) bool { return yield(nil, err) }, nil) {
						return
					}
				}
				if !yield(x, nil) {
					return
				}
			}
			i = from
		}
	}
}

// days are the first and the last day whose files can have something in them
// that f chooses.
func (f *Filter) days() (first, last string) {
	since, until := f.Since, f.Until
	if start, ok := timeOf(f.ID); ok {
		since, until = start, start.Add(time.Millisecond)
	}
	first, last = "", "9999-99-99"
	if !since.IsZero() {
		first = dayOf(since.Add(-clockStep))
	}
	if !until.IsZero() {
		last = dayOf(until.Add(longest))
	}
	return first, last
}
