package tools

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
