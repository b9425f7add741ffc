package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Counts are written in batches, some time after the executions. A failed write is repeated at
// growing intervals.
const (
	countDelay    = time.Second
	countDelayMax = time.Minute
)

// executions are a tool's executions that are not yet on disk.
type executions struct {
	n    int64
	last time.Time
}

// RecordExecution counts one execution of a tool, which began or ended at the given time. The call
// changes only memory: the file is written within seconds, at the latest by Close. List and Get
// include executions not yet on disk. Executions of a tool deleted in the meantime are dropped.
// After Close, RecordExecution does nothing.
func (s *Store) RecordExecution(name string, at time.Time) {
	if s.closed() {
		s.log.Debug("execution is not counted: the tool store is closed", "tool", name)
		return
	}
	s.mu.Lock()
	x := s.pending[name]
	x.n++
	if at.After(x.last) {
		x.last = at.UTC()
	}
	s.pending[name] = x
	s.mu.Unlock()
	wake(s.counted)
}

// withPending adds the executions not yet on disk to a definition. The caller holds files.
func (s *Store) withPending(d Definition) Definition {
	s.counts.all[d.Name].addTo(&d.Metadata)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[d.Name].addTo(&d.Metadata)
	return d
}

func (x executions) addTo(m *Metadata) {
	if m.ExecutionCount > math.MaxInt64-x.n {
		m.ExecutionCount = math.MaxInt64
	} else {
		m.ExecutionCount += x.n
	}
	if x.last.After(m.LastExecuted) {
		m.LastExecuted = x.last
	}
}

// forget drops the pending executions of a tool.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, name)
}

// deduct subtracts written executions from the pending ones.
func (s *Store) deduct(name string, written executions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.pending[name]
	if x.n -= written.n; x.n <= 0 {
		delete(s.pending, name)
		return
	}
	s.pending[name] = x
}

// writeCounts writes counts until Close. The store runs it as a goroutine.
func (s *Store) writeCounts() {
	var due <-chan time.Time
	delay := countDelay
	for {
		select {
		case <-s.done:
			return
		case <-s.counted:
			if due == nil {
				due = time.After(delay)
			}
		case <-due:
			due = nil
			err := s.flush()
			if err == nil {
				delay = countDelay
				continue
			}
			delay = min(2*delay, countDelayMax)
			s.log.Warn("execution counts are not written yet", "error", err, "retry_in", delay)
			due = time.After(delay)
		}
	}
}

// flush adds the pending executions to the counts on disk, which other processes may have
// changed.
func (s *Store) flush() error {
	batch := s.recorded()
	if len(batch) == 0 {
		return nil
	}
	err := s.exclusive(lockWait, func(root *os.Root) error {
		batch = s.recorded() // a tool deleted during the wait has none left
		if s.shared != nil {
			return s.flushBeside(root, batch)
		}
		var failed []error
		for _, name := range slices.Sorted(maps.Keys(batch)) {
			failed = append(failed, s.flushOne(root, name, batch[name]))
		}
		return errors.Join(failed...)
	})
	if err != nil {
		return fmt.Errorf("execution counts of %s: %w", strings.Join(slices.Sorted(maps.Keys(batch)), ", "), err)
	}
	return nil
}

func (s *Store) recorded() map[string]executions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pending)
}

// flushOne writes the count of one tool. If the tool is gone, the executions are dropped; if its
// file is corrupt, they stay pending until the file is repaired.
func (s *Store) flushOne(root *os.Root, name string, x executions) error {
	e, err := s.find(name)
	if errors.Is(err, ErrNotFound) {
		s.forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	def := e.def
	x.addTo(&def.Metadata)
	_, err = s.writeTool(root, &def, x, nil)
	return err
}

// Executions of shared tools are counted in a separate file for this machine. Otherwise, each
// execution would change the tool on every machine.
const (
	countsFile    = ".counts.json"
	maxCountsFile = 16 << 20
)

// countFile is the content of the count file.
type countFile struct {
	info fs.FileInfo // when the file was read
	all  map[string]executions
}

// countEntry is the form of executions in the file.
type countEntry struct {
	Executions int64     `json:"executions"`
	Last       time.Time `json:"last"`
}

// readCounts reads the count file if the file has changed. The caller holds files.
func (s *Store) readCounts(root *os.Root) {
	if s.shared == nil {
		return
	}
	info, err := root.Lstat(countsFile)
	if err != nil {
		s.counts = countFile{}
		return
	}
	if old := s.counts.info; old != nil && os.SameFile(old, info) && old.ModTime().Equal(info.ModTime()) && old.Size() == info.Size() {
		return
	}
	counts := countFile{info, map[string]executions{}}
	var read map[string]countEntry
	data, err := regular.ReadIn(context.Background(), root, countsFile, maxCountsFile)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil {
		s.log.Warn("executions of saved tools are not known, and are counted from now on", "file", countsFile, "error", err)
	}
	for name, c := range read {
		if c.Executions > 0 {
			counts.all[name] = executions{c.Executions, c.Last.UTC()}
		}
	}
	s.counts = counts
}

// flushBeside adds executions to the count file. Executions of deleted tools are dropped.
func (s *Store) flushBeside(root *os.Root, batch map[string]executions) error {
	s.files.Lock()
	defer s.files.Unlock()
	s.readCounts(root)
	next := map[string]countEntry{}
	for name := range s.cache {
		sum := s.counts.all[name]
		x := batch[name]
		m := Metadata{ExecutionCount: sum.n, LastExecuted: sum.last}
		x.addTo(&m)
		if m.ExecutionCount > 0 {
			next[name] = countEntry{m.ExecutionCount, m.LastExecuted}
		}
	}
	data, err := json.Marshal(next)
	if err == nil {
		err = regular.WriteIn(root, countsFile, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", countsFile, err)
	}
	s.readCounts(root)
	for name, x := range batch {
		s.deduct(name, x)
	}
	return nil
}

// Room bounds the memory of the tools of a [Store]. No method waits.
type Room interface {
	// Add adds bytes. After an error, no byte is added. The error names the exceeded limit and the
	// remedy.
	Add(n int) error
	Sub(n int)
}

// RoomError reports the lack of memory for a tool. Saving a new tool fails; an existing tool is
// left out.
type RoomError struct {
	Name string
	Err  error // of Room
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("tool %q: %v", display.Clip(e.Name, 80), e.Err)
}

func (e *RoomError) Unwrap() error { return e.Err }

// The memory counted for a tool: its text in this package, in the catalog, and again where
// annotations differ for some clients; the words of its search index; and a constant for every tool
// however small.
const (
	copiesOfTool = 4
	roomOfTool   = 8 << 10
)

// rooms is the memory held by the tools of a Store, guarded by Store.files.
type rooms struct {
	Room                // nil: unlimited
	held map[string]int // by the name of the tool
}

// hold takes the memory for a tool with a file of size bytes, in place of the memory held before.
// After an error, a *RoomError, the tool holds the same memory as before.
func (r *rooms) hold(name string, size int64) error { return r.set(name, roomFor(size)) }

// roomFor returns the memory for a tool with a file of size bytes.
func roomFor(size int64) int { return copiesOfTool*int(min(size, MaxFileBytes)) + roomOfTool }

func (r *rooms) set(name string, need int) error {
	had := r.held[name]
	switch {
	case r.Room == nil || need == had:
		return nil
	case need < had:
		r.Sub(had - need)
	default:
		if err := r.Add(need - had); err != nil && had > 0 && need-had <= roomOfTool/8 {
			return nil // an execution more can always be counted
		} else if err != nil {
			return &RoomError{name, err}
		}
	}
	if r.held[name] = need; need == 0 {
		delete(r.held, name)
	}
	return nil
}

// free returns the memory of a tool.
func (r *rooms) free(name string) { _ = r.set(name, 0) } // less never fails

func (r *rooms) close() {
	for name := range r.held {
		r.free(name)
	}
}

// reserve takes the memory for a tool before the write. If the write fails, undo returns the
// memory.
func (s *Store) reserve(def *Definition) (undo func(), err error) {
	undo = func() {}
	data, err := def.File()
	if err != nil {
		return undo, fmt.Errorf("tool %q: %w", def.Name, err)
	}
	s.files.Lock()
	defer s.files.Unlock()
	if had, need := s.room.held[def.Name], roomFor(int64(len(data))); need > had {
		if err := s.room.set(def.Name, need); err != nil {
			return undo, err
		}
		undo = func() {
			s.files.Lock()
			defer s.files.Unlock()
			_ = s.room.set(def.Name, had)
		}
	}
	return undo, nil
}

// leftOut reports whether a tool is not in memory for lack of room.
func (e *entry) leftOut() bool {
	var left *RoomError
	return errors.As(e.problem, &left)
}

// form is find for writers: a tool that is left out is read, so the caller can replace or delete
// it.
func (s *Store) form(root *os.Root, name string) (*entry, error) {
	e, err := s.find(name)
	var left *RoomError
	if !errors.As(err, &left) {
		return e, err
	}
	e = &entry{}
	info, err := root.Lstat(name + extension)
	if err != nil {
		return nil, err
	}
	data, info, err := readTool(root, name+extension, info)
	if err != nil {
		return nil, err
	}
	e.info, e.sum = info, sha256.Sum256(data)
	if s.parse(e, nil, name, data); e.problem != nil {
		return nil, &CorruptError{s.problem(name, e)}
	}
	return e, nil
}
