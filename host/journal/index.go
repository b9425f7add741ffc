package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// LineError says that a line of a journal cannot be read. What else is in the
// journal can.
type LineError struct {
	File   string // its path
	Offset int64  // of the line, in bytes
	Err    error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s: the line at byte %d is skipped: %v", e.File, e.Offset, e.Err)
}

// Unwrap is why.
func (e *LineError) Unwrap() error { return e.Err }

// index knows where the events of runs are. It keeps no content.
type index struct {
	dir  string
	read map[fileName]int64 // how far, in bytes
	runs map[string]*located
	// proxied are the lines of proxied calls, in the order of the files.
	proxied []proxiedPlace
	wanted  bool // collect them
}

// proxiedPlace is where the line of a proxied call is.
type proxiedPlace struct {
	place
	id string
}

// located are the events of one run, those of a later day first perhaps.
type located struct {
	id     string
	parent string // id of the run that called it, "" for none
	begun  bool
	events []place
	below  []string
}

// place is where a line is. There are very many.
type place struct {
	file *fileName
	at   int64
	size int
}

func newIndex(dir string) *index {
	return &index{dir: dir, read: map[fileName]int64{}, runs: map[string]*located{}}
}

func (x *index) run(id string) *located {
	r := x.runs[id]
	if r == nil {
		r = &located{id: id}
		x.runs[id] = r
	}
	return r
}

// add reads what is new in a file. fault is called with what cannot be read, a
// *LineError or why the file cannot be read; it says whether to go on. ended,
// which may be nil, gets the runs whose end was found.
func (x *index) add(name fileName, fault func(error) bool, ended func(*located)) (goOn bool) {
	path := filepath.Join(x.dir, name.String())
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // removed since it was listed
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
	for l, err := range readLines(f) {
		if errors.Is(err, errTorn) && ended != nil {
			break // it is being written
		}
		at := place{file: &name, at: from + l.from, size: len(l.text)}
		if err == nil {
			err = x.note(l.text, at, ended)
		}
		if err != nil && !fault(&LineError{path, at.at, err}) {
			return false
		}
		x.read[name] = from + l.to
	}
	return true
}

// note takes one line.
func (x *index) note(text []byte, at place, ended func(*located)) error {
	h, err := readHead(text)
	if err != nil {
		return err
	}
	kind := string(h.kind)
	if kind == eventProxied {
		if x.wanted {
			x.proxied = append(x.proxied, proxiedPlace{at, string(h.run)})
		}
		return nil
	}
	r := x.runs[string(h.run)]
	if r == nil {
		r = x.run(string(h.run))
	}
	if kind == eventBegin {
		r.begun, r.parent = true, string(h.parent)
		if r.parent != "" {
			p := x.run(r.parent)
			p.below = append(p.below, r.id)
		}
	}
	r.events = append(r.events, at)
	if kind == eventEnd && ended != nil {
		ended(r)
	}
	return nil
}

// forget drops a run and those below it.
func (x *index) forget(id string) {
	r := x.runs[id]
	if r == nil {
		return
	}
	delete(x.runs, id)
	for _, child := range r.below {
		x.forget(child)
	}
}

// roots are the runs that have begun and that no other has called, the newest
// first.
func (x *index) roots() []*located {
	var roots []*located
	for _, r := range x.runs {
		if r.begun && r.parent == "" {
			roots = append(roots, r)
		}
	}
	slices.SortFunc(roots, func(a, b *located) int { return cmp.Compare(b.id, a.id) })
	return roots
}

// load reads a run with those below it. faults are lines that cannot be read.
func (x *index) load(r *located) (rec Record, ok bool, faults []error) {
	files := newOpenFiles(x.dir)
	defer files.close()
	d := newDecoding()
	x.collect(r, files, d, &faults, 1)
	if d.runs[r.id] == nil {
		return Record{}, false, faults
	}
	rec, err := d.tree(r.id, 1)
	if err != nil {
		return Record{}, false, append(faults, fmt.Errorf("run %s: %w", r.id, err))
	}
	return rec, true, faults
}

func (x *index) collect(r *located, files *openFiles, d *decoding, faults *[]error, depth int) {
	slices.SortStableFunc(r.events, func(a, b place) int {
		return cmp.Or(compareNames(*a.file, *b.file), cmp.Compare(a.at, b.at))
	})
	for _, at := range r.events {
		text, err := files.read(at)
		if err == nil {
			err = d.add(text)
		}
		if err != nil {
			*faults = append(*faults, &LineError{files.path(*at.file), at.at, err})
		}
	}
	for _, child := range r.below {
		if c := x.runs[child]; c != nil && c.begun && depth <= maxDepth {
			x.collect(c, files, d, faults, depth+1)
		}
	}
}

// openFiles are files of a journal that are being read here and there.
type openFiles struct {
	dir  string
	open map[fileName]*os.File
}

func newOpenFiles(dir string) *openFiles { return &openFiles{dir, map[fileName]*os.File{}} }

func (o *openFiles) path(name fileName) string { return filepath.Join(o.dir, name.String()) }

func (o *openFiles) read(at place) ([]byte, error) {
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
