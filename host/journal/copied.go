package journal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

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
