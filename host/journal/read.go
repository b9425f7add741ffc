package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
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

// LineError is the error of an unreadable line of a journal. The rest of the journal is readable.
type LineError struct {
	File   string // path of the file
	Offset int64  // of the line, in bytes
	Err    error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s: the line at byte %d is skipped: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// index holds the positions of the events of runs, without their content.
type index struct {
	dir  string
	read map[fileName]int64 // how many bytes of each file have been read
	runs map[string]*indexedRun
	// proxied holds the lines of proxied calls, in the order of the files, if
	// collectProxied is set.
	proxied        []proxiedPos
	collectProxied bool
	// onProxied, if not nil, is called with the position of each line of a proxied call.
	onProxied func(linePos)
	// onCheckpoint is the same for lines of checkpoints.
	onCheckpoint func(linePos)
	// touched has the ids of the runs with new events, unless touched is nil.
	touched map[string]bool

	room           Room  // nil: the memory of the index is not counted
	bytes, counted int64 // bytes of the index, and the part of them with memory from room
	held           []Memory
}

// Approximate bytes of an index for an event, a run, and a line of a proxied call. Slices grow to
// twice the size of their contents.
const (
	eventBytes   = 2 * 24
	runBytes     = 300
	proxiedBytes = 150
)

// indexChunk is the bytes for which an index takes memory at a time. The first are not counted,
// like small messages.
const indexChunk = 256 << 10

// count takes memory for the growth of the index. The error is a *RoomError.
func (x *index) count(ctx context.Context) error {
	for x.room != nil && x.bytes > x.counted+budget.Small {
		m, err := x.room(ctx, indexChunk)
		if err != nil {
			return &RoomError{Err: err}
		}
		x.held = append(x.held, m)
		x.counted += indexChunk
	}
	return nil
}

// close gives back the memory of the index.
func (x *index) close() {
	for _, m := range x.held {
		m.Close()
	}
	x.held = nil
}

// proxiedPos is the position of the line of a proxied call.
type proxiedPos struct {
	linePos
	id string
}

// indexedRun holds the positions of the events of a run. Events of a later day may come first.
type indexedRun struct {
	id        string
	parent    string // id of the calling run, "" for none
	continues string // id of the continued run, "" for none
	begun     bool
	events    []linePos
	children  []string
}

// linePos is the position of a line. linePos is small because lines are numerous.
type linePos struct {
	file *fileName
	at   int64
	size int
}

func newIndex(dir string) *index {
	return &index{dir: dir, read: map[fileName]int64{}, runs: map[string]*indexedRun{}}
}

func (x *index) run(id string) *indexedRun {
	r := x.runs[id]
	if r == nil {
		r = &indexedRun{id: id}
		x.runs[id] = r
		x.bytes += runBytes
	}
	return r
}

// add reads the new lines of a file. fault is called with a *LineError, or with the error of an
// unreadable file, and returns whether to continue. ended, which may be nil, is called with ended
// runs. When ctx ends, the last fault is the cause of ctx.
func (x *index) add(ctx context.Context, name fileName, fault func(error) bool, ended func(*indexedRun)) (goOn bool) {
	path := filepath.Join(x.dir, name.String())
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // removed since the listing
		return true
	}
	if err != nil {
		return fault(err)
	}
	defer f.Close()
	from := x.read[name]
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return fault(err)
	}
	n := 0
	for l, err := range readLines(f) {
		if n++; n%linesPerCheck == 1 && ctx.Err() != nil {
			fault(context.Cause(ctx))
			return false
		}
		if errors.Is(err, errTorn) && ended != nil {
			break // the line is being written
		}
		at := linePos{file: &name, at: from + l.from, size: len(l.text)}
		if err == nil {
			err = x.addLine(l.text, at, ended)
		}
		if err != nil && !fault(&LineError{path, at.at, err}) {
			return false
		}
		if err := x.count(ctx); err != nil {
			fault(err)
			return false
		}
		x.read[name] = from + l.to
	}
	return true
}

// linesPerCheck is how many lines are read before the next look whether anyone still wants
// them.
const linesPerCheck = 128

// addLine adds a line to the index.
func (x *index) addLine(text []byte, at linePos, ended func(*indexedRun)) error {
	h, err := readHead(text)
	if err != nil {
		return err
	}
	kind := string(h.kind)
	if kind == eventCheckpoint {
		if x.onCheckpoint != nil {
			x.onCheckpoint(at)
		}
		return nil
	}
	if kind == eventProxied {
		if x.onProxied != nil {
			x.onProxied(at)
		}
		if x.collectProxied {
			x.proxied = append(x.proxied, proxiedPos{at, string(h.run)})
			x.bytes += proxiedBytes
		}
		return nil
	}
	r := x.runs[string(h.run)]
	if r == nil {
		r = x.run(string(h.run))
	}
	if kind == eventBegin {
		r.begun, r.parent, r.continues = true, string(h.parent), string(h.continues)
		if r.parent != "" {
			p := x.run(r.parent)
			p.children = append(p.children, r.id)
		}
	}
	r.events = append(r.events, at)
	x.bytes += eventBytes
	if x.touched != nil {
		x.touched[r.id] = true
	}
	if kind == eventEnd && ended != nil {
		ended(r)
	}
	return nil
}

// forget drops a run with nested runs.
func (x *index) forget(id string) {
	r := x.runs[id]
	if r == nil {
		return
	}
	delete(x.runs, id)
	for _, child := range r.children {
		x.forget(child)
	}
}

// roots returns the runs that have begun without a calling run, newest first.
func (x *index) roots() []*indexedRun {
	var roots []*indexedRun
	for _, r := range x.runs {
		if r.begun && r.parent == "" {
			roots = append(roots, r)
		}
	}
	slices.SortFunc(roots, func(a, b *indexedRun) int { return cmp.Compare(b.id, a.id) })
	return roots
}

// rootOf returns the outermost run around a run, or the run itself; nil if the outermost run has
// not begun.
func (x *index) rootOf(id string) *indexedRun {
	for range maxDepth + 1 {
		r := x.runs[id]
		if r == nil || !r.begun {
			return nil
		}
		if r.parent == "" {
			return r
		}
		id = r.parent
	}
	return nil
}

// load reads a run with nested runs. faults are the unreadable lines. When ctx ends, load returns
// false.
func (x *index) load(ctx context.Context, r *indexedRun) (rec Record, ok bool, faults []error) {
	files := newOpenFiles(x.dir)
	defer files.close()
	d := newDecoder()
	x.collect(ctx, r, files, d, &faults, 1)
	if ctx.Err() != nil || d.runs[r.id] == nil {
		return Record{}, false, faults
	}
	rec, err := d.tree(r.id, 1)
	if err != nil {
		return Record{}, false, append(faults, fmt.Errorf("run %s: %w", r.id, err))
	}
	return rec, true, faults
}

func (x *index) collect(ctx context.Context, r *indexedRun, files *openFiles, d *decoder, faults *[]error, depth int) {
	slices.SortStableFunc(r.events, func(a, b linePos) int {
		return cmp.Or(compareNames(*a.file, *b.file), cmp.Compare(a.at, b.at))
	})
	for i, at := range r.events {
		if i%linesPerCheck == 0 && ctx.Err() != nil {
			return
		}
		text, err := files.read(at)
		if err == nil {
			err = d.add(text)
		}
		if err != nil {
			*faults = append(*faults, &LineError{files.path(*at.file), at.at, err})
		}
	}
	for _, child := range r.children {
		if c := x.runs[child]; c != nil && c.begun && depth <= maxDepth {
			x.collect(ctx, c, files, d, faults, depth+1)
		}
	}
}

// openFiles holds open files of a journal for random access.
type openFiles struct {
	dir  string
	open map[fileName]*os.File
}

func newOpenFiles(dir string) *openFiles { return &openFiles{dir, map[fileName]*os.File{}} }

func (o *openFiles) path(name fileName) string { return filepath.Join(o.dir, name.String()) }

func (o *openFiles) read(at linePos) ([]byte, error) {
	f := o.open[*at.file]
	if f == nil {
		var err error
		if f, err = regular.Open(o.path(*at.file)); err != nil {
			return nil, err
		}
		o.open[*at.file] = f
	}
	text := make([]byte, at.size)
	_, err := f.ReadAt(text, at.at)
	return text, err
}

func (o *openFiles) close() {
	for _, f := range o.open {
		f.Close()
	}
}
