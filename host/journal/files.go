package journal

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// files manages the files of a Log. Log.mu guards files.
type files struct {
	dir               string
	maxSize, maxTotal int64
	maxAge            time.Duration
	durable           bool // sync files before closing them
	log               *slog.Logger

	writer string       // part of the file names; "" for the first writer
	lock   *flock.Flock // held while this process is the writer; nil: no name claimed, or a random name
	file   *os.File     // nil: none is open
	name   fileName
	size   int64
	number int // of files opened so far

	undigested bool // LogOptions.undigested

	chain  seal.Link // the last link of this writer; see links.go
	signed uint64    // a signature covers everything up to this Number
	marked time.Time // when the last checkpoint was made
	sealed uint64    // the Number of a last checkpoint that signs all earlier links
	whole  uint64    // the same for the signed end of a run
	// unmarked is set if the file was opened without a checkpoint since then. old are files to be
	// removed, gone the removed files to list in the next checkpoint.
	unmarked bool
	old      []fileName
	gone     []goneFile
}

// position is a position in the output of a Log.
type position struct {
	number int   // of the file, counting the files opened by the Log
	size   int64 // offset in the file, in bytes
}

func (p position) before(o position) bool {
	return p.number < o.number || p.number == o.number && p.size < o.size
}

func (f *files) position() position { return position{f.number, f.size} }

// append writes lines at the end of the day's file, which is created if needed. The lines at ends
// get links. before, which may be nil, is called with the future place of the lines.
func (f *files) append(lines []byte, ends []ending, now time.Time, before func(Place) error) (position, error) {
	if err := f.ensureOpen(dayOf(now), int64(len(lines)+len(ends)*seal.MaxLink), now); err != nil {
		return position{}, err
	}
	defer f.removeOld() // even if the lines do not fit
	chain, first := f.chain, []byte(nil)
	if f.unmarked && !f.undigested && len(ends)+len(f.gone) > 0 {
		first, chain = f.checkpoint(now)
	}
	lines, chain = link(lines, ends, chain)
	if before != nil {
		if err := before(Place{f.name.String(), f.size + int64(len(first))}); err != nil {
			return position{}, &refusedError{err}
		}
	}
	if len(first) > 0 {
		lines = append(first, lines...)
	}
	if err := f.write(lines); err != nil {
		return position{}, err
	}
	if len(first) > 0 {
		f.unmarked, f.gone = false, nil
	}
	f.chain = chain
	if n := len(ends); n > 0 && ends[n-1].seal != nil && ends[n-1].seal.After.Number == chain.Number-1 {
		f.whole = chain.Number
	}
	return f.position(), nil
}

// write writes lines to the file. After an error, the file is closed.
func (f *files) write(lines []byte) error {
	n, err := f.file.Write(lines)
	if err == nil {
		f.size += int64(n)
		return nil
	}
	// A partial line cannot be read. If the removal fails, the next process to open the file ends
	// the line.
	if n > 0 {
		err = errors.Join(err, f.file.Truncate(f.size))
	}
	return errors.Join(err, f.closeFile(false))
}

// ensureOpen opens a file of the day with room for more bytes, if necessary.
func (f *files) ensureOpen(day string, more int64, now time.Time) error {
	if f.file != nil && f.name.day == day && (f.size == 0 || f.size+more <= f.maxSize) {
		return nil
	}
	next := fileName{day: day}
	if f.file != nil {
		if f.name.day == day {
			next.part = f.name.part + 1
		}
		if err := f.closeFile(f.durable); err != nil {
			return err
		}
	}
	if err := f.claim(); err != nil {
		return err
	}
	next.writer = f.writer
	if next.part == 0 {
		next.part = f.lastPart(day)
	}
	for {
		if err := f.open(next); err != nil {
			return err
		}
		if f.size == 0 || f.size+more <= f.maxSize {
			break
		}
		if err := f.closeFile(false); err != nil {
			return err
		}
		next.part++
	}
	f.opened(now)
	return nil
}

// lastPart returns the number of the writer's last part for a day.
func (f *files) lastPart(day string) int {
	part := 0
	all, _ := listFiles(f.dir) // opening the file will fail too
	for _, n := range all {
		if n.day == day && n.writer == f.writer {
			part = max(part, n.part)
		}
	}
	return part
}

// maxWriters is how many processes can have a numbered writer name at a time. Numbered
// names are reused.
const maxWriters = 64

// lockName returns the name of the lock file of the writer with the given number, from 1.
func lockName(number int) string { return fmt.Sprintf(".writer-%d.lock", number) }

// claim takes the first unused writer name. So a day has one file unless several processes run at
// the same time.
func (f *files) claim() error {
	if f.lock != nil || f.writer != "" {
		return nil
	}
	doubts, err := owner.Check(f.dir)
	if err != nil {
		return err
	}
	for _, d := range doubts {
		f.log.Warn("other users may be able to read or change the journal", "why", d.Error())
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	for i := 1; i <= maxWriters; i++ {
		name := ""
		if i > 1 {
			name = "w" + strconv.Itoa(i)
		}
		lock := regular.NewLock(filepath.Join(f.dir, lockName(i)))
		switch ok, err := lock.TryLock(); {
		case err != nil:
			if bad := f.probe(); bad != nil {
				return bad
			}
			return f.useRandomWriterName()
		case ok:
			f.lock, f.writer = lock, name
			return nil
		}
	}
	return f.useRandomWriterName()
}

// probe reports why files cannot be created in the directory, nil if they can.
func (f *files) probe() error {
	root, err := regular.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	temp, err := regular.WriteTemp(root, ".", nil, 0o600)
	if err != nil {
		return err
	}
	return temp.Remove()
}

// useRandomWriterName takes a random writer name, for file systems without locks and
// for very many processes.
func (f *files) useRandomWriterName() error {
	var b [6]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	f.writer = "x" + hex.EncodeToString(b[:])
	return nil
}

// open opens a file for appending.
func (f *files) open(name fileName) error {
	path := filepath.Join(f.dir, name.String())
	file, err := regular.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	size, err := endLine(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.name, f.size = file, name, size
	f.number++
	return nil
}

// endLine adds a newline if the last line is unfinished because a process died.
func endLine(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	size = info.Size()
	var last [1]byte
	if _, err := file.ReadAt(last[:], size-1); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if last[0] == '\n' {
		return size, nil
	}
	n, err := file.Write([]byte{'\n'})
	return size + int64(n), err
}

// closeFile closes the current file, after a sync if durable is set.
func (f *files) closeFile(durable bool) error {
	file := f.file
	f.file = nil
	if durable {
		return errors.Join(file.Sync(), file.Close())
	}
	return file.Close()
}

func (f *files) sync() error {
	if f.file == nil {
		return nil
	}
	return f.file.Sync()
}

// close closes the file and releases the writer name.
func (f *files) close() error {
	var err error
	if f.file != nil {
		err = f.closeFile(false)
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
		f.lock, f.writer = nil, ""
	}
	return err
}

// oldFiles returns the files above the age limit, then the oldest files while the total size
// exceeds the limit. The last file of each writer is left out, because another process may be
// writing to the file.
func (f *files) oldFiles(now time.Time) (old []fileName) {
	all, err := listFiles(f.dir)
	if err != nil {
		f.log.Warn("old journal files cannot be removed", "dir", f.dir, "err", err)
		return nil
	}
	last := map[string]fileName{}
	sizes := make([]int64, len(all))
	var total int64
	for i, n := range all {
		if info, err := os.Stat(filepath.Join(f.dir, n.String())); err == nil {
			sizes[i] = info.Size()
		}
		total += sizes[i]
		last[n.writer] = n
	}
	oldest := dayOf(now.Add(-f.maxAge))
	today := dayOf(now)
	for i, n := range all {
		tooOld := n.day < oldest
		inUse := n == f.name || n == last[n.writer] && n.day >= dayOf(now.Add(-maxRunTime)) && n.day <= today
		if !inUse && (tooOld || total > f.maxTotal) {
			old = append(old, n)
			total -= sizes[i]
		}
	}
	return old
}

// removeOld removes old files.
func (f *files) removeOld() {
	old := f.old
	f.old = nil
	for _, n := range old {
		if err := os.Remove(filepath.Join(f.dir, n.String())); err != nil {
			f.log.Warn("an old journal file cannot be removed", "dir", f.dir, "file", n.String(), "err", err)
			continue
		}
		f.log.Debug("removed an old journal file", "file", n.String())
	}
}

// fileName is the parsed name of a journal file. The files of the first writer are
// named journal-2026-11-21.jsonl, journal-2026-11-21.1.jsonl and so on. Other writers,
// which write at the same time, add their name after the day:
// journal-2026-11-21-w2.jsonl.
type fileName struct {
	day    string // in UTC
	writer string // "" for the first
	part   int    // 0, 1, ...
}

var fileNames = lazyregexp.New(`^journal-(\d{4}-\d{2}-\d{2})(?:-([a-z0-9]+))?(?:\.(\d{1,9}))?\.jsonl$`)

func (n fileName) String() string {
	s := "journal-" + n.day
	if n.writer != "" {
		s += "-" + n.writer
	}
	if n.part > 0 {
		s += "." + strconv.Itoa(n.part)
	}
	return s + ".jsonl"
}

func parseName(name string) (fileName, bool) {
	m := fileNames.FindStringSubmatch(name)
	if m == nil {
		return fileName{}, false
	}
	part, _ := strconv.Atoi(m[3]) // "" is 0
	return fileName{m[1], m[2], part}, true
}

// compareNames orders names by age, the oldest first.
func compareNames(a, b fileName) int {
	return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.writer, b.writer), cmp.Compare(a.part, b.part))
}

// dayOf returns the day in the name of the file with events of time t.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// listFiles returns the journal files in a directory, oldest first. A missing directory has none.
func listFiles(dir string) ([]fileName, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var files []fileName
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok && !e.IsDir() {
			files = append(files, n)
		}
	}
	slices.SortFunc(files, compareNames)
	return files, nil
}

// claimsDir is the subfolder of the journal with an empty file for each run continued by another
// run.
const claimsDir = "continued"

// claimAge is the shortest lifetime of a claim. Clients cannot answer as late.
const claimAge = 24 * time.Hour

// claimsCleared is how often old claims are removed.
const claimsCleared = 10 * time.Minute

// ErrClaimed means that a run was claimed before.
var ErrClaimed = errors.New("another run continues this run already")

// Claim takes the right to continue a run. Among all processes that share the directory, the first
// caller gets the right, later callers get ErrClaimed. A nil Log grants everything.
func (l *Log) Claim(id string) error {
	if l == nil {
		return nil
	}
	path, err := l.claimPath(id)
	if err != nil {
		return err
	}
	l.clearClaims()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return &WriteError{l.dir, err}
	}
	file, err := regular.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrClaimed
	case err != nil:
		return &WriteError{l.dir, err}
	}
	return file.Close()
}

// Release gives a claim back. The run can be continued again.
func (l *Log) Release(id string) error {
	if l == nil {
		return nil
	}
	path, err := l.claimPath(id)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

func (l *Log) claimPath(id string) (string, error) {
	if !isID([]byte(id)) {
		return "", fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	return filepath.Join(l.dir, claimsDir, id), nil
}

// clearClaims removes old claims. Claims that cannot be removed now are removed later.
func (l *Log) clearClaims() {
	l.mu.Lock()
	now := l.opts.Now()
	due := now.Sub(l.cleared) >= claimsCleared
	if due {
		l.cleared = now
	}
	l.mu.Unlock()
	if !due {
		return
	}
	dir := filepath.Join(l.dir, claimsDir)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > claimAge {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
