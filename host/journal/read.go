package journal

import (
	"errors"
	"fmt"
	"iter"
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
	return fmt.Sprintf("run %s: the beginning of several ids: %s (give more of it)", e.Prefix, strings.Join(e.IDs, ", "))
}

// Scan yields the runs that clients have asked for and that are in the journal
// in dir, the newest first, each with the runs below it; an error for what
// cannot be read, after which it goes on where it can.
func Scan(dir string, f Filter) iter.Seq2[Record, error] {
	return func(func(Record, error) bool) {}
}

// Find is the run with that id, or the only one whose id begins so; the error is
// ErrNotFound or an *AmbiguousError, or that reading failed.
func Find(dir, id string) (Record, error) {
	return Record{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
}
