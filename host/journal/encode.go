package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Encode writes a record with its nested runs in the format of the journal: one event per line, the
// beginning of each run first. The result can be copied to another machine. Encode redacts nothing.
// The events have no digests and no signatures, since they are not the signed lines; [Reader.Lines]
// returns the signed lines.
func Encode(w io.Writer, r Record) error {
	l := &line{}
	if err := encode(w, l, &r); err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return nil
}

func encode(w io.Writer, l *line, r *Record) error {
	flush := func() error {
		_, err := w.Write(l.b)
		l.b = l.b[:0]
		return err
	}
	l.begin(r.ID, r.Start, &r.Begin, gaps{r.Redacted, r.Incomplete})
	for i := range r.Calls {
		c := &r.Calls[i]
		l.call(r.ID, c)
		if err := flush(); err != nil {
			return err
		}
		if c.Answer.Run != nil {
			if err := encode(w, l, c.Answer.Run); err != nil {
				return err
			}
		}
		if c.Done {
			l.answer(r.ID, c)
		}
	}
	for i := range r.Undos {
		l.undo(r.ID, &r.Undos[i])
	}
	for i := range r.Inputs {
		l.input(r.ID, &r.Inputs[i])
	}
	for i := range r.Flow {
		l.flow(r.ID, &r.Flow[i])
	}
	if len(r.Logs) > 0 {
		l.start(eventLog, r.ID)
		l.open("entries", '[')
		for i := range r.Logs {
			l.entry(&r.Logs[i])
		}
		l.close(']')
		l.finish()
	}
	if r.Done {
		l.end(r.ID, r.Duration, &r.Outcome, false)
	}
	return flush()
}

// Decode reads the output of Encode, or the lines of a run copied from a journal, with or without
// the lines of nested runs. Another program may have rewritten the lines, with spaces or another
// order of members. The error names the unreadable line.
func Decode(r io.Reader) (Record, error) {
	d := newDecoder()
	n := 0
	for l, err := range readLines(io.LimitReader(r, maxRecord+1)) {
		n++
		if l.to > maxRecord {
			return Record{}, &BoundError{"bytes", maxRecord}
		}
		if err == nil || errors.Is(err, errTorn) && readable(l.text) {
			err = d.add(bytes.Clone(l.text)) // the record keeps parts of the line
		}
		if err != nil {
			return Record{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	var roots []string
	for id, rec := range d.runs {
		if rec.Parent == nil || d.runs[rec.Parent.Run] == nil {
			roots = append(roots, id)
		}
	}
	switch len(roots) {
	case 0:
		return Record{}, errors.New("it contains no run (want the lines of one run from a journal)")
	case 1:
		return d.tree(roots[0], 1)
	}
	slices.Sort(roots)
	return Record{}, fmt.Errorf("it contains %d runs, want one (%s and %s, for instance)", len(roots), roots[0], roots[1])
}

// readable reports whether a line without a newline is complete. A person who copies
// lines may leave out the last newline.
func readable(text []byte) bool {
	_, err := readFields(text)
	return err == nil
}

// head is the beginning of a line, as slices of the line; see line.start.
type head struct {
	kind, run []byte
	parent    []byte // only for eventBegin
	continues []byte // only for eventBegin of a run without a parent
}

var errNoEvent = errors.New("not a line of a journal")

func readHead(text []byte) (head, error) {
	var h head
	rest, ok := bytes.CutPrefix(text, []byte(`{"t":"`))
	if !ok || text[len(text)-1] != '}' {
		return h, errNoEvent
	}
	kind, rest, ok := bytes.Cut(rest[:min(len(rest), 256)], []byte(`","run":"`))
	if !ok {
		return h, errNoEvent
	}
	run, rest, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || !isID(run) {
		return h, errNoEvent
	}
	h.kind, h.run = kind, run
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"parent":{"run":"`)); ok {
		h.parent, _, _ = bytes.Cut(rest, []byte(`"`))
	} else if rest, ok = bytes.CutPrefix(rest, []byte(`,"continues":"`)); ok {
		h.continues, _, _ = bytes.Cut(rest, []byte(`"`))
	}
	return h, nil
}

// isID reports whether text can be an id: without characters that need escapes.
func isID(text []byte) bool {
	for _, c := range text {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 64
}

// maxLine bounds a line, in bytes. A line can contain an answer twice, and escaped.
const maxLine = maxRecord

// lineAt is a line without the newline, with the position.
type lineAt struct {
	text     []byte // valid until the next line is read
	from, to int64  // to is after the newline
}

var errTorn = errors.New("it is incomplete: the end is missing")

// readLines yields the lines of r, and errTorn with a last line without a newline. Empty lines are
// skipped, and an error of r ends the iteration.
func readLines(r io.Reader) func(func(lineAt, error) bool) {
	return func(yield func(lineAt, error) bool) {
		b := bufio.NewReaderSize(r, 64<<10)
		var at lineAt
		var long []byte
		for {
			piece, err := b.ReadSlice('\n')
			at.to += int64(len(piece))
			if errors.Is(err, bufio.ErrBufferFull) {
				if len(long) > maxLine {
					yield(at, fmt.Errorf("a line of more than %d bytes", maxLine))
					return
				}
				long = append(long, piece...)
				continue
			}
			at.text = piece
			if len(long) > 0 {
				long = append(long, piece...)
				at.text = long
			}
			whole := len(at.text) > 0 && at.text[len(at.text)-1] == '\n'
			at.text = bytes.TrimSuffix(at.text, []byte{'\n'})
			switch {
			case err != nil && !errors.Is(err, io.EOF):
				yield(at, err)
				return
			case len(at.text) > 0 && !whole:
				yield(at, errTorn)
				return
			case len(at.text) > 0 && !yield(at, nil):
				return
			}
			if err != nil {
				return
			}
			at.from, long = at.to, long[:0]
		}
	}
}
