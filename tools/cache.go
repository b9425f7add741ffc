package tools

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

const extension = ".json"

// settledAge is the least age, when it was read, of a file whose modification time can prove that
// the file is unchanged. File systems count time in steps of up to two seconds (FAT), so two writes
// within one step can look the same.
const settledAge = 2 * time.Second

// A file system that reports a time which is not a multiple of coarseStep counts in smaller steps,
// so the file is settled sooner.
const (
	coarseStep     = 10 * time.Millisecond
	settledAgeFine = 100 * time.Millisecond
)

// settled reports whether a file modified at one time and examined at another gets a new
// modification time from a later change.
func settled(modified, then time.Time) bool {
	age := settledAge
	if isFine(modified) {
		age = settledAgeFine
	}
	return then.Sub(modified) > age
}

// isFine reports whether a file system with this time counts in small steps.
func isFine(t time.Time) bool { return t.Nanosecond()%int(coarseStep) != 0 }

// entry is the cached state of one file NAME.json.
type entry struct {
	info    fs.FileInfo
	readAt  time.Time
	sum     [sha256.Size]byte // of the content
	def     Definition        // valid if problem is nil
	problem error
}

// current reports whether info certainly describes the file as it was read.
func (e *entry) current(info fs.FileInfo) bool {
	return os.SameFile(e.info, info) && e.info.ModTime().Equal(info.ModTime()) && e.info.Size() == info.Size() &&
		e.info.Mode() == info.Mode() && settled(info.ModTime(), e.readAt)
}

// Listing is the state of the directory when the tools were listed. The zero value stands for no
// directory.
type Listing struct {
	info    fs.FileInfo
	at      time.Time
	changes uint64 // 0 if the directory could not be read
}

// Same reports whether both Listings of one Store have the same tools.
func (l Listing) Same(other Listing) bool { return l.changes != 0 && l.changes == other.changes }

// Current reports whether certainly no tool was added, deleted or replaced since the listing. It
// does not detect a file changed in place; Get does. The cost is one stat. File systems that count
// in large steps may not change the time of a directory with the directory's content (FAT), so
// Current returns false there.
func (s *Store) Current(l Listing) bool {
	info, err := os.Stat(s.dir)
	return err == nil && l.info != nil && os.SameFile(l.info, info) && l.info.ModTime().Equal(info.ModTime()) &&
		l.info.Mode() == info.Mode() && isFine(info.ModTime()) && settled(info.ModTime(), l.at)
}

// refresh updates the cache from the directory: one listing, one stat for each file, and one read
// for each file that may have changed. The caller holds files.
//
// The directory is opened each time, so a directory that was deleted and created again is noticed.
func (s *Store) refresh() error {
	root, err := regular.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		for name := range s.cache {
			s.drop(name)
		}
		s.counts = countFile{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("tool store: %w", err)
	}
	defer root.Close()
	_, err = s.scan(root)
	return err
}

func (s *Store) refreshOrWarn() {
	if err := s.refresh(); err != nil {
		s.log.Warn("tools are shown as last known", "error", err)
	}
}

// scan updates the cache from an open directory. The result lists leftover temporary files.
func (s *Store) scan(root *os.Root) (leftovers []string, err error) {
	names, err := readNames(root)
	if err != nil {
		return nil, fmt.Errorf("tool store: %w", err)
	}
	s.readCounts(root)
	present := make(map[string]bool, len(names))
	for _, file := range names {
		if strings.HasPrefix(file, regular.TempPrefix) {
			leftovers = append(leftovers, file)
		}
		name, ok := strings.CutSuffix(file, extension)
		if !ok || strings.HasPrefix(file, ".") {
			continue
		}
		present[name] = true
	}
	for name := range s.cache { // first, to make room for other tools
		if !present[name] {
			s.drop(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		if !s.load(root, name) {
			s.drop(name)
		}
	}
	for name := range s.cache {
		if !present[name] {
			s.drop(name)
		}
	}
	return leftovers, nil
}

// refreshOne updates the cache for one tool only. A name outside the cache needs the listing: on a
// case-insensitive file system, a stat would find the file of another tool.
func (s *Store) refreshOne(name string) error {
	if s.cache[name] == nil {
		return s.refresh()
	}
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return s.refresh()
	}
	defer root.Close()
	if !s.load(root, name) {
		s.drop(name)
	}
	return nil
}

// drop forgets a tool. The caller holds files.
func (s *Store) drop(name string) {
	if s.cache[name] != nil {
		s.changes++
	}
	delete(s.cache, name)
	s.room.free(name)
}

// load updates one entry from the file, and reports whether the file exists.
func (s *Store) load(root *os.Root, name string) bool {
	old := s.cache[name]
	info, err := root.Lstat(name + extension)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err == nil && old != nil && old.current(info) && !old.leftOut():
		return true
	}
	e := &entry{info: info, readAt: time.Now()}
	var data []byte
	if err == nil {
		err = s.room.hold(name, info.Size())
	}
	if err == nil {
		data, e.info, err = readTool(root, name+extension, info)
	}
	if err == nil { // the file may have been replaced meanwhile
		err = s.room.hold(name, int64(len(data)))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		e.problem = err
	} else {
		e.sum = sha256.Sum256(data)
		s.parse(e, old, name, data)
	}
	if e.info == nil { // not even a stat was possible: try again next time
		e.info = noInfo{}
	}
	if e.problem != nil {
		s.room.free(name)
	}
	if old == nil || old.sum != e.sum || (old.problem == nil) != (e.problem == nil) {
		s.changes++
	}
	s.cache[name] = e
	if e.problem != nil && (old == nil || old.problem == nil || old.problem.Error() != e.problem.Error()) && !(old != nil && old.leftOut() && e.leftOut()) {
		s.log.Warn("saved tool is skipped", "tool", name, "file", s.problem(name, e).Path, "error", e.problem)
	}
	return true
}

// parse sets e from the content of the file, and reuses parts of old.
func (s *Store) parse(e, old *entry, name string, data []byte) {
	if old != nil && old.sum == e.sum {
		e.def, e.problem = old.def, old.problem
		return
	}
	e.def, e.problem = decodeFile(data, name, e.info.ModTime())
	if e.problem == nil {
		e.problem = checkRoots(&e.def)
	}
	e.def.schemas = s.schemas
}

// checkRoots finds schemas that would make clients refuse the list of tools. Other errors in a
// schema are found at its first use, because compiling takes long.
func checkRoots(d *Definition) error {
	if kind, err := rootType(d.InputSchema); err != nil || kind != `"object"` {
		_, err := CompileInputSchema(d.InputSchema, "inputSchema") // err describes the fault
		return err
	}
	if d.OutputSchema != nil && d.OutputSchema[0] != '{' {
		_, err := CompileSchema(d.OutputSchema, "outputSchema")
		return err
	}
	return nil
}

// rootType returns the member "type" of a schema, as written.
func rootType(schema []byte) (string, error) {
	d := jsontext.NewDecoder(bytes.NewReader(schema))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return "", errors.Join(err, errors.New("it is no object"))
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		if name.String() == "type" {
			value, err := d.ReadValue()
			return string(value), err
		}
		if err := d.SkipValue(); err != nil {
			return "", err
		}
	}
	return "", errors.New("it has no type")
}

// noInfo stands for a file with a failed stat.
type noInfo struct{ fs.FileInfo }

func (noInfo) ModTime() time.Time { return time.Time{} }
func (noInfo) Size() int64        { return -1 }
func (noInfo) Mode() fs.FileMode  { return 0 }
