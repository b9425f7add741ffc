package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

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
