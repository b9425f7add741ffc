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

// Copied are lines of other journals to add to the journal in a directory.
type Copied struct {
	Runs  []RunLines
	Calls [][]byte // lines of calls without a script, and of checkpoints, without newlines
}

// HasCopied reports whether a journal has lines of other journals for a day.
func HasCopied(dir, day string) bool {
	_, err := os.Lstat(filepath.Join(dir, fileName{day: day, writer: copiedWriter}.String()))
	return err == nil
}

// AddCopied adds lines of other journals to the journal in a directory, except for runs and calls
// with copied lines already. Each run or call is added to the file of the first event's day. Lines
// that are not events of their run, or not calls, are left out. The error is a failure to read, or
// a [*WriteError].
func AddCopied(ctx context.Context, dir string, c Copied) (leftOut int, err error) {
	type addition struct {
		id   string
		text []byte
	}
	days := map[string][]addition{}
	for i := range c.Runs {
		text, err := c.Runs[i].text()
		if err != nil {
			leftOut++
			continue
		}
		file := copiedFile(c.Runs[i].Run)
		days[file] = append(days[file], addition{c.Runs[i].Run, text})
	}
	for _, line := range c.Calls {
		h, err := readHead(line)
		if err != nil || string(h.kind) != eventProxied && string(h.kind) != eventCheckpoint || bytes.ContainsAny(line, "\r\n") {
			leftOut++
			continue
		}
		if _, ok := TimeOf(string(h.run)); !ok {
			leftOut++
			continue
		}
		file := copiedFile(string(h.run))
		days[file] = append(days[file], addition{string(h.run), append(bytes.Clone(line), '\n')})
	}
	if len(days) == 0 {
		return leftOut, nil
	}
	unlock, err := lockCopied(ctx, dir)
	if err != nil {
		return leftOut, err
	}
	defer unlock()
	for file, all := range days {
		there, err := idsIn(ctx, filepath.Join(dir, file))
		if err != nil {
			return leftOut, err
		}
		var text []byte
		for _, a := range all {
			if !there[a.id] {
				there[a.id] = true
				text = append(text, a.text...)
			}
		}
		if len(text) == 0 {
			continue
		}
		if err := appendTo(filepath.Join(dir, file), text); err != nil {
			return leftOut, &WriteError{dir, err}
		}
	}
	return leftOut, nil
}

// CopiedIDs returns the ids of the runs and calls copied from other journals to a journal for a
// day.
func CopiedIDs(ctx context.Context, dir, day string) (map[string]bool, error) {
	return idsIn(ctx, filepath.Join(dir, fileName{day: day, writer: copiedWriter}.String()))
}

// idsIn returns the ids of the runs and calls in a file, which need not exist.
func idsIn(ctx context.Context, path string) (map[string]bool, error) {
	ids := map[string]bool{}
	f, err := regular.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return ids, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := 0
	for l, err := range readLines(f) {
		if n++; n%linesPerCheck == 1 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			continue
		}
		if h, err := readHead(l.text); err == nil {
			ids[string(h.run)] = true
		}
	}
	return ids, nil
}

// RunOf returns the id of the run of an event line.
func RunOf(line []byte) (string, error) {
	if len(line) == 0 {
		return "", errNoEvent
	}
	h, err := readHead(line)
	return string(h.run), err
}
