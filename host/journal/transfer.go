package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// RunLines has the lines of a run in a journal, without nested runs.
type RunLines struct {
	Run   string   // id
	Ended bool     // with the last event
	Lines [][]byte // in their order, without newlines
}

// ReadLines yields the runs in a directory, newest first, including nested runs. Of the filter,
// only ID, Since and Until count. Errors are as for Scan.
func ReadLines(ctx context.Context, dir string, f Filter) iter.Seq2[RunLines, error] {
	return func(yield func(RunLines, error) bool) {
		for x, err := range (Reader{Dir: dir}).indexes(ctx, f, false) {
			if err != nil {
				if !yield(RunLines{}, err) {
					return
				}
				continue
			}
			var begun []*indexedRun
			for _, r := range x.runs {
				if r.begun {
					begun = append(begun, r)
				}
			}
			slices.SortFunc(begun, func(a, b *indexedRun) int { return cmp.Compare(b.id, a.id) })
			for _, r := range begun {
				delete(x.runs, r.id)
				if !f.mayMatch(r.id) {
					continue
				}
				if ctx.Err() != nil {
					yield(RunLines{}, context.Cause(ctx))
					return
				}
				l, err := x.lines(r)
				if !yield(l, err) {
					return
				}
			}
		}
	}
}

// lines reads the lines of a run.
func (x *index) lines(r *indexedRun) (RunLines, error) {
	slices.SortStableFunc(r.events, func(a, b linePos) int {
		return cmp.Or(compareNames(*a.file, *b.file), cmp.Compare(a.at, b.at))
	})
	files := newOpenFiles(x.dir)
	defer files.close()
	l := RunLines{Run: r.id}
	for _, at := range r.events {
		text, err := files.read(at)
		if err != nil {
			return RunLines{}, &LineError{files.path(*at.file), at.at, err}
		}
		l.Lines = append(l.Lines, text)
		l.Ended = l.Ended || IsEnd(text)
	}
	return l, nil
}

// IsEnd reports whether a line is the last event of a run.
func IsEnd(line []byte) bool {
	h, err := readHead(line)
	return err == nil && string(h.kind) == eventEnd
}

// copiedWriter is the writer name of lines from other journals.
const copiedWriter = "copied"

// text returns the lines in the form of a file, and checks that all are events of the run.
func (l *RunLines) text() ([]byte, error) {
	if _, ok := TimeOf(l.Run); !ok || !isID([]byte(l.Run)) {
		return nil, fmt.Errorf("run %q: the id has no time", l.Run)
	}
	var text bytes.Buffer
	for i, line := range l.Lines {
		if len(line) == 0 {
			return nil, fmt.Errorf("run %s: line %d is empty", l.Run, i+1)
		}
		h, err := readHead(line)
		if err != nil || string(h.run) != l.Run || bytes.ContainsAny(line, "\r\n") {
			return nil, fmt.Errorf("run %s: line %d is not an event of the run", l.Run, i+1)
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	return text.Bytes(), nil
}

// copiedFile returns the name of the file for a run, or call, of another journal.
func copiedFile(id string) string {
	start, _ := TimeOf(id)
	return fileName{day: dayOf(start), writer: copiedWriter}.String()
}

// lockCopied makes this process the only process to add lines of other journals to a directory,
// which is created if missing. The error is a *WriteError.
func lockCopied(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &WriteError{dir, err}
	}
	lock := regular.NewLock(filepath.Join(dir, ".copied.lock"))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, &WriteError{dir, errors.Join(err, lock.Close())}
	}
	return func() { _ = lock.Close() }, nil
}

// appendTo writes lines at the end of a file, and syncs the file. After an error, nothing was
// written.
func appendTo(path string, lines []byte) error {
	f, err := regular.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	size, err := endLine(f)
	if err == nil {
		if _, err = f.Write(lines); err == nil {
			err = f.Sync()
		}
		if err != nil {
			err = errors.Join(err, f.Truncate(size))
		}
	}
	return errors.Join(err, f.Close())
}

// Lines returns a run and the nested runs with their lines in the journal, the run itself last. id
// is a whole id. The error is ErrNotFound, or a failure to read.
func (r Reader) Lines(ctx context.Context, id string) (all []RunLines, err error) {
	x := newIndex(r.Dir)
	var faults []error
	for next, err := range r.indexes(ctx, Filter{ID: id}, false) {
		if err != nil {
			faults = append(faults, err)
			continue
		}
		x = next
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	root := x.runs[id]
	if root == nil || !root.begun {
		return nil, errors.Join(append([]error{fmt.Errorf("run %q: %w", id, ErrNotFound)}, faults...)...)
	}
	var add func(r *indexedRun, depth int) error
	add = func(r *indexedRun, depth int) error {
		for _, child := range r.children {
			if c := x.runs[child]; c != nil && c.begun && depth <= maxDepth {
				if err := add(c, depth+1); err != nil {
					return err
				}
			}
		}
		l, err := x.lines(r)
		all = append(all, l)
		return err
	}
	return all, add(root, 1)
}
