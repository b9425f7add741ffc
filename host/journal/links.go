package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// link adds links, which follow at, to the lines at ends, and returns the last link. The lines are
// copied unless only the last line has a link.
func link(lines []byte, ends []ending, at seal.Link) ([]byte, seal.Link) {
	if len(ends) == 0 || at.Chain == "" {
		return lines, at
	}
	if len(ends) == 1 && ends[0].at == len(lines)-len("}\n") {
		at = at.Next(ends[0].head, ends[0].seal)
		return append(seal.AppendLink(lines[:ends[0].at], at), "}\n"...), at
	}
	linked := make([]byte, 0, len(lines)+len(ends)*seal.MaxLink)
	from := 0
	for _, e := range ends {
		at = at.Next(e.head, e.seal)
		linked = seal.AppendLink(append(linked, lines[from:e.at]...), at)
		from = e.at
	}
	return append(linked, lines[from:]...), at
}

// goneFile is a file removed because of the file's age or the size of the journal.
type goneFile struct {
	name fileName
	last seal.Link // the last link in the file
}

// opened is called when a file was opened.
func (f *files) opened(now time.Time) {
	f.unmarked, f.old = true, f.oldFiles(now)
	if f.undigested {
		return
	}
	if f.chain.Chain == "" {
		var sealed bool
		f.chain, sealed = f.findChain()
		f.signed, f.marked = f.chain.Number, now // the next write may be signed
		if !sealed && f.chain.Number > 0 {
			// The earlier process was killed. Its unsigned links are signed with the next write.
			f.signed, f.marked = f.chain.Number-1, time.Time{}
		}
	}
	for _, name := range f.old {
		g := goneFile{name: name}
		if name.writer != copiedWriter {
			g.last = lastLink(filepath.Join(f.dir, name.String()))
		}
		f.gone = append(f.gone, g)
	}
}

// checkpoint returns the checkpoint for an opened file, with its link: the checkpoint has the last
// earlier link, the last links of other writers, and the removed files.
func (f *files) checkpoint(now time.Time) ([]byte, seal.Link) {
	l := line{}
	l.checkpoint(now, f.name.String())
	if f.chain.Number > 0 {
		l.plain("last", f.chain.String())
	}
	if others := f.otherChains(); len(others) > 0 {
		l.open("others", '[')
		for _, at := range others {
			l.plain("", at.String())
		}
		l.close(']')
	}
	if len(f.gone) > 0 {
		l.open("removed", '[')
		for _, g := range f.gone {
			l.open("", '{')
			l.plain("file", g.name.String())
			l.text("last", g.last.String())
			l.close('}')
		}
		l.close(']')
	}
	l.finish()
	l.ended(seal.Event(l.b[:len(l.b)-1]), nil)
	return link(l.b, l.ends, f.chain)
}

// checkpoint begins a checkpoint.
func (l *line) checkpoint(now time.Time, file string) (id string) {
	id = NewID(now)
	l.start(eventCheckpoint, id)
	l.number("v", version)
	l.time("time", now)
	l.plain("file", file)
	return id
}

// findChain returns the last link of this writer, perhaps from an earlier process, and whether the
// link is signed; or the beginning of a new chain.
func (f *files) findChain() (at seal.Link, sealed bool) {
	all, _ := listFiles(f.dir) // the coming write fails too
	for _, name := range slices.Backward(all) {
		if name.writer != f.writer {
			continue
		}
		if at, sealed := lastEnd(filepath.Join(f.dir, name.String())); at.Number > 0 {
			return at, sealed
		}
	}
	return seal.NewChain(), false
}

// otherChains returns the last links of other writers.
func (f *files) otherChains() (others []seal.Link) {
	all, _ := listFiles(f.dir)
	seen := map[string]bool{f.writer: true, copiedWriter: true}
	for _, name := range slices.Backward(all) {
		if seen[name.writer] {
			continue
		}
		if at := lastLink(filepath.Join(f.dir, name.String())); at.Number > 0 {
			seen[name.writer] = true
			others = append(others, at)
		}
	}
	slices.SortFunc(others, func(a, b seal.Link) int { return bytes.Compare([]byte(a.Chain), []byte(b.Chain)) })
	return others
}

// How much of a file is read in search of the last link: at a time, and altogether.
const (
	tailPiece = 64 << 10
	tailMost  = 64 << 20
)

// lastLink returns the last link in a file; the zero value for a file without a link, or an
// unreadable file.
func lastLink(path string) seal.Link {
	at, _ := lastEnd(path)
	return at
}

// lastEnd is lastLink, and returns whether the line with the link has a seal.
func lastEnd(path string) (at seal.Link, sealed bool) {
	file, err := regular.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return seal.Link{}, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return seal.Link{}, false
	}
	piece := make([]byte, tailPiece)
	for end := info.Size(); end > 0 && info.Size()-end < tailMost; {
		from := max(0, end-tailPiece)
		b := piece[:end-from]
		if _, err := file.ReadAt(b, from); err != nil {
			return seal.Link{}, false
		}
		for i := len(b); i > 0; {
			newline := bytes.LastIndexByte(b[:i], '\n')
			if newline < 0 {
				break
			}
			if at, ok := seal.LastLink(b[:newline]); ok {
				return at, coversAll(at, b[:newline])
			}
			i = newline
		}
		if from == 0 {
			break
		}
		end = from + min(int64(len(b)-1), int64(seal.MaxLink)+2) // a link may be in two pieces
	}
	return seal.Link{}, false
}

// coversAll reports whether the seal of a line with a link covers everything before the link. Only
// the end of the line is needed.
func coversAll(at seal.Link, tail []byte) bool {
	p, err := seal.Cut(tail)
	return err == nil && p.Seal != nil && p.Seal.After.Number == at.Number-1
}

// The size of unsigned writes, and the time, until a checkpoint signs them.
const (
	maxUnsigned = 1000
	signEvery   = time.Minute
)

// checkpointSoon begins to write a checkpoint if one is due and no other is being written.
func (l *Log) checkpointSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.files
	unsigned := f.chain.Number - f.signed
	every := cmp.Or(l.opts.signEvery, signEvery)
	passed := l.opts.Now().Sub(f.marked)
	due := unsigned >= maxUnsigned || unsigned > 0 && passed >= every
	if l.closing || l.marking || l.opts.Signer == nil || f.chain.Chain == "" || f.chain.Number == f.sealed || f.chain.Number == f.whole {
		return
	}
	if !due {
		if unsigned > 0 && l.later == nil { // perhaps nothing more is written
			l.later = time.AfterFunc(min(every, max(0, every-passed)), l.checkpointLater)
		}
		return
	}
	f.marked = l.opts.Now()
	l.marking = true
	l.marks.Go(func() {
		l.checkpoint(signTime)
		l.mu.Lock()
		l.marking = false
		l.mu.Unlock()
		l.checkpointSoon() // later, after a failure
	})
}

// checkpointLater is checkpointSoon for the last write.
func (l *Log) checkpointLater() {
	l.mu.Lock()
	l.later = nil
	l.mu.Unlock()
	l.checkpointSoon()
}

// checkpoint writes a signed checkpoint, and reports success.
func (l *Log) checkpoint(limit time.Duration) bool {
	l.mu.Lock()
	opts, file := l.opts, l.files.name.String()
	l.mu.Unlock()
	line := line{}
	id := line.checkpoint(opts.Now(), file)
	line.finish()
	head := seal.Event(line.b[:len(line.b)-1])
	made, err := l.sign(&opts, limit, seal.Statement{Run: id, Head: head, Events: 1, Outcome: seal.Checkpoint})
	if err != nil {
		opts.Log.Error("the journal is not signed", "dir", l.dir, "err", err)
		return false
	}
	line.seal(made)
	line.ended(head, made)
	if _, err := l.writeAt(line.b, line.ends, nil); err != nil {
		if !errors.Is(err, ErrClosed) {
			opts.Log.Debug("a checkpoint was not written", "dir", l.dir, "err", err)
		}
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if made.After.Number == l.files.chain.Number-1 { // the checkpoint is the last link, and all earlier links are signed
		l.files.sealed = l.files.chain.Number
	}
	return true
}

// closeTime is how long the last checkpoint may take.
const closeTime = 2 * time.Second

// checkpointLast writes a last checkpoint, unless everything is signed.
func (l *Log) checkpointLast() {
	l.mu.Lock()
	again := l.closing
	l.closing = true
	if l.later != nil {
		l.later.Stop()
		l.later = nil
	}
	l.mu.Unlock()
	l.marks.Wait()
	end := l.opts.Now().Add(closeTime)
	for range 2 { // the first checkpoint may have begun a file
		l.mu.Lock()
		f := &l.files
		due := !again && l.opts.Signer != nil && l.broken == nil && f.chain.Number > f.signed && f.chain.Number != f.sealed
		l.mu.Unlock()
		left := end.Sub(l.opts.Now())
		if !due || left <= 0 || !l.checkpoint(left) {
			return
		}
	}
}

// File is a file of a journal.
type File struct {
	Name string
	Day  string // as in the name
	// Copied is set for a file with lines of other journals.
	Copied bool
}

// Files returns the files of the journal in a directory, oldest first; none for a missing
// directory.
func Files(dir string) ([]File, error) {
	names, err := listFiles(dir)
	files := make([]File, len(names))
	for i, n := range names {
		files[i] = File{n.String(), n.day, n.writer == copiedWriter}
	}
	return files, err
}

// LastLink returns the last link in a file; the zero value for a file without a link, or an
// unreadable file.
func (f File) LastLink(dir string) seal.Link { return lastLink(filepath.Join(dir, f.Name)) }

// Each yields the lines of a file, without newlines, valid until the next line. The error is a
// [*LineError] for a line without an end, a failure to read, or the cause of ctx as the last error.
func (f File) Each(ctx context.Context, dir string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		path := filepath.Join(dir, f.Name)
		file, err := regular.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer file.Close()
		n := 0
		for l, err := range readLines(file) {
			if n++; n%linesPerCheck == 1 && ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			if err != nil {
				err = &LineError{path, l.from, err}
			}
			if !yield(l.text, err) {
				return
			}
		}
	}
}

// IsCheckpoint reports whether a line is a checkpoint.
func IsCheckpoint(line []byte) bool {
	h, err := readHead(line)
	return err == nil && string(h.kind) == eventCheckpoint
}

// Checkpoints returns the ids of the checkpoints of a period in the journal in a directory.
// Unreadable lines are left out. The error is the cause of ctx.
func Checkpoints(ctx context.Context, dir string, since, until time.Time) (map[string]bool, error) {
	ids := map[string]bool{}
	files, _ := Files(dir)
	first, last := (&Filter{Since: since, Until: until}).days()
	for _, file := range files {
		if file.Day < first || file.Day > last {
			continue
		}
		for line, err := range file.Each(ctx, dir) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err == nil && IsCheckpoint(line) {
				id, _ := RunOf(line)
				ids[id] = true
			}
		}
	}
	return ids, nil
}
