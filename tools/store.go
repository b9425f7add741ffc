package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// ErrNotFound is matched by errors.Is if no tool with the name is saved.
var ErrNotFound = errors.New("no such saved tool")

// ErrClosed is matched by errors.Is after a write to a closed store.
var ErrClosed = errors.New("the tool store is closed")

// StoreOptions are the options of a Store.
type StoreOptions struct {
	// Log receives warnings about corrupt files and failed writes; nil discards them.
	Log *slog.Logger
	// OnChange, if set, is called after a change visible to agents, by any process: a tool was
	// added or removed, or its description, schemas or code changed. Calls never overlap, come from
	// a goroutine of the store and hold no lock; several changes may share one call. OnChange may
	// call the store, except for Close.
	OnChange func()
	// Shared, if set, has the tools; the directory is a copy.
	Shared Shared
	// Schemas keeps the compiled schemas; nil: the store keeps some.
	Schemas *Schemas
	// Room bounds the memory of the tools; nil: nothing does.
	Room Room
}

// Problem is an unusable file in the tools directory.
type Problem struct {
	Name string // the file's name without ".json"
	Path string // the file
	Err  error  // why
}

// CorruptError refuses the change of a file that is unreadable as a tool, because the file may be a
// person's work.
type CorruptError struct{ Problem }

func (e *CorruptError) Error() string {
	return fmt.Sprintf("tool %q: its file %s cannot be used: %v (repair or remove the file)", e.Name, e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// ClashError refuses a name that differs from the name of a saved tool only in case: on Windows and
// macOS both would be the same file.
type ClashError struct{ Name, Existing string }

func (e *ClashError) Error() string {
	return fmt.Sprintf("tool name %q: differs from the saved tool %q only in upper and lower case (choose another name, or delete %[2]q first)", e.Name, e.Existing)
}

// Store is a directory of saved tools, one file each in the format of the specification. All
// methods are safe for concurrent use, also by several processes on one directory: reads see the
// writes of other processes, writes are exclusive. Writes are atomic: if the process or the machine
// stops, each tool has the old or the new form.
//
// Locks, in the order in which they are taken: writing, the lock file, files, mu. None is held
// while OnChange or a caller's code runs.
type Store struct {
	dir      string
	log      *slog.Logger
	onChange func()
	shared   Shared // nil: only the directory is used
	schemas  *Schemas

	// writing lets a single writer of this process at a time use the lock file, which excludes only
	// other processes.
	writing sync.Mutex
	// mostHistory is MaxHistoryBytes, and unlooked is how much was written since all versions
	// were looked at; both are guarded by writing.
	mostHistory, unlooked int64
	// files guards cache and keeps it consistent with the directory.
	files sync.Mutex
	cache map[string]*entry // by name, for every file NAME.json
	// changes counts the changes of cache that a list of tools shows, from 1.
	changes uint64
	counts  countFile // nothing unless tools are shared
	room    rooms

	// mu guards the state for fast operations: nothing slow happens under the lock.
	mu      sync.Mutex
	pending map[string]executions // executions not yet on disk

	counted  chan struct{} // signals pending executions; capacity 1, since the map has the details
	changed  chan struct{} // signals a file changed by this process; capacity 1 likewise
	done     chan struct{} // closed by Close
	closing  sync.Once
	closeErr error
	routines sync.WaitGroup
}

// OpenStore opens the directory dir/tools, which is created if needed (directories 0700, files
// 0600). A read-only directory can be opened; only writes fail. The caller must Close the store.
func OpenStore(dir string, opts StoreOptions) (*Store, error) {
	s := &Store{
		dir:         filepath.Join(dir, "tools"),
		log:         opts.Log,
		onChange:    opts.OnChange,
		shared:      opts.Shared,
		schemas:     opts.Schemas,
		mostHistory: MaxHistoryBytes, unlooked: MaxHistoryBytes,
		room:    rooms{opts.Room, map[string]int{}},
		cache:   map[string]*entry{},
		changes: 1,
		pending: map[string]executions{},
		counted: make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.schemas == nil {
		s.schemas = NewSchemas(DefaultSchemas)
	}
	if err := s.checkOwner(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("tool store %s: %w", s.dir, err)
	}
	if err := s.clean(); err != nil {
		return nil, err
	}
	s.routines.Go(s.writeCounts)
	if s.onChange != nil {
		w := s.newWatcher() // before OpenStore returns, so later changes are noticed
		s.routines.Go(w.run)
	}
	return s, nil
}

// checkOwner returns an error if other users may change the tools, or the files next to them.
func (s *Store) checkOwner() error {
	reported := map[string]bool{} // both have parent folders in common
	for _, dir := range []string{s.dir, filepath.Join(s.dir, historyDir), filepath.Dir(s.dir)} {
		doubts, err := owner.Check(dir)
		if errors.Is(err, owner.ErrUnsafe) { // the error names the folder
			return fmt.Errorf("tool store %w", err)
		}
		if err != nil {
			return fmt.Errorf("tool store %s: %w", s.dir, err)
		}
		for _, d := range doubts {
			if !reported[d.At] {
				s.log.Warn("others may be able to change saved tools", "why", d.Error())
			}
			reported[d.At] = true
		}
	}
	return nil
}

// clean removes the leftovers of crashed writers, if possible, and reads the directory.
func (s *Store) clean() error {
	// Do not wait: an active writer cleans up by itself.
	if err := s.exclusive(0, func(*os.Root) error { return nil }); err != nil {
		s.log.Debug("tool store: leftover files of a crash are not cleaned up", "error", err)
	}
	s.files.Lock()
	defer s.files.Unlock()
	return s.refresh()
}

// Dir returns the directory with the tool files.
func (s *Store) Dir() string { return s.dir }

// List returns all tools, sorted by name, as on disk now. If the directory cannot be read, List
// logs the error and returns the last known tools.
func (s *Store) List() []Definition {
	list, _ := s.Listed()
	return list
}

// Listed is List, and also returns a Listing with which Current can tell later whether
// to list again.
func (s *Store) Listed() ([]Definition, Listing) {
	s.files.Lock()
	defer s.files.Unlock()
	l := s.look()
	var out []Definition
	for _, name := range slices.Sorted(maps.Keys(s.cache)) {
		if e := s.cache[name]; e.problem == nil {
			out = append(out, s.withPending(e.def))
		}
	}
	return out, l
}

// Look returns the Listing that Listed would return now, without the tools.
func (s *Store) Look() Listing {
	s.files.Lock()
	defer s.files.Unlock()
	return s.look()
}

// look updates the cache. The caller holds files.
func (s *Store) look() Listing {
	l := Listing{at: time.Now()}
	l.info, _ = os.Stat(s.dir) // after an error, the next Listing differs
	if err := s.refresh(); err != nil {
		s.log.Warn("tools are shown as last known", "error", err)
		return Listing{}
	}
	l.changes = s.changes
	return l
}

// Get returns the tool called name. The error matches ErrNotFound for an unknown tool, and is a
// [*CorruptError] for an unusable file.
func (s *Store) Get(name string) (Definition, error) {
	s.files.Lock()
	defer s.files.Unlock()
	if err := s.refreshOne(name); err != nil {
		return Definition{}, err
	}
	e, err := s.known(name)
	if err != nil {
		return Definition{}, err
	}
	return s.withPending(e.def), nil
}

// known returns the cache entry of a tool. The caller holds files.
func (s *Store) known(name string) (*entry, error) {
	e := s.cache[name]
	switch {
	case e == nil:
		return nil, notFound(name)
	case e.leftOut():
		return nil, e.problem
	case e.problem != nil:
		return nil, &CorruptError{s.problem(name, e)}
	}
	return e, nil
}

func notFound(name string) error {
	return fmt.Errorf("tool %q: %w (list_saved_tools shows the names)", display.Clip(name, 80), ErrNotFound)
}

// find is known for callers without the lock files. Entries never change.
func (s *Store) find(name string) (*entry, error) {
	s.files.Lock()
	defer s.files.Unlock()
	return s.known(name)
}

// Save writes a tool: a new tool, or a new form of an existing tool. An existing tool keeps its
// creation time and counts, whatever def.Metadata says. Save returns the definition now on disk,
// and whether the tool is new. If the forms differ in a way that matters to agents or runs, the old
// form becomes a version, see [Store.History]. Errors: [*NameError], [*SchemaError], [*ClashError],
// [*CorruptError], [*RoomError], ErrClosed, or a failure to write or to keep the version. After an
// error the old form is unchanged.
func (s *Store) Save(def Definition) (saved Definition, created bool, err error) {
	return s.save(def, SavedOver)
}

// Import is Save for a definition from elsewhere. Only the history's record differs.
func (s *Store) Import(def Definition) (saved Definition, created bool, err error) {
	return s.save(def, Imported)
}

func (s *Store) save(def Definition, ending Ending) (saved Definition, created bool, err error) {
	if err := def.Check(); err != nil {
		return Definition{}, false, err
	}
	if s.closed() {
		return Definition{}, false, ErrClosed
	}
	undo := func() {}
	err = s.exclusive(lockWait, func(root *os.Root) error {
		old, err := s.form(root, def.Name)
		created = errors.Is(err, ErrNotFound)
		if err != nil && !created {
			return err
		}
		sharing, err := s.share(root, def.Name, old)
		if err != nil {
			return err
		}
		now := time.Now().UTC()
		if created {
			if err := s.checkClash(def.Name); err != nil {
				return err
			}
			if ending != Reverted { // a reverted form is restored unchanged
				def.Metadata = Metadata{Created: now, Extra: def.Metadata.Extra}
			}
		} else {
			now = sharing.modified(now, old.def.Metadata.Modified)
			inherit(&def, &old.def)
		}
		def.Metadata.Modified = now
		if undo, err = s.reserve(&def); err != nil { // before anything is written
			return err
		}
		if !created {
			if !def.sameToAgents(&old.def) {
				if err := s.keepVersion(root, &old.def, ending, now, sharing); err != nil {
					return err
				}
			}
		}
		saved, err = s.writeTool(root, &def, executions{}, sharing)
		if err == nil {
			sharing.tidy(root)
			s.prune(root, def.Name)
			if !created {
				s.pruneBytes(root, old.info.Size())
			}
		}
		return err
	})
	if err != nil {
		undo()
		return Definition{}, false, err
	}
	wake(s.changed)
	return saved, created, nil
}

// inherit gives a new form of a tool the kept parts of the old form.
func inherit(def, old *Definition) {
	extra := def.Metadata.Extra
	def.Metadata = old.Metadata
	if extra != nil {
		def.Metadata.Extra = extra
	}
	if def.Extra == nil {
		def.Extra = old.Extra
	}
}

func (s *Store) checkClash(name string) error {
	s.files.Lock()
	defer s.files.Unlock()
	for other := range s.cache {
		if strings.EqualFold(other, name) {
			return &ClashError{name, other}
		}
	}
	return nil
}

// Delete removes the tool called name, with the executions not yet on disk. The last form becomes a
// version. Errors: ErrNotFound, [*CorruptError], ErrClosed, or a failure to move the file, which
// leaves the tool unchanged.
func (s *Store) Delete(name string) error {
	if s.closed() {
		return ErrClosed
	}
	err := s.exclusive(lockWait, func(root *os.Root) error {
		old, err := s.form(root, name)
		if err != nil {
			return err
		}
		sharing, err := s.share(root, name, old)
		if err != nil {
			return err
		}
		k, err := s.newVersion(root, name, Deleted, time.Now(), sharing)
		if err == nil {
			err = sharing.keep(k, &old.def)
		}
		if err == nil {
			err = sharing.publish(nil)
		}
		if err != nil && sharing != nil {
			return fmt.Errorf("tool %q: cannot be deleted: %w", name, err)
		}
		var file string
		if err == nil {
			file, err = versionPath(root, name, k)
		}
		if err == nil {
			err = s.remove(root, name, file)
		}
		if err != nil {
			return fmt.Errorf("tool %q: cannot be deleted: %w (it is still there; to do without a history, remove %s)", name, err, s.path(name))
		}
		sharing.tidy(root)
		s.prune(root, name)
		s.pruneDeleted(root, s.exists)
		s.pruneBytes(root, old.info.Size())
		return syncHistory(root, name)
	})
	if err != nil {
		return err
	}
	wake(s.changed)
	return nil
}

// remove moves a tool's file to the history.
func (s *Store) remove(root *os.Root, name, file string) error {
	s.files.Lock()
	defer s.files.Unlock()
	if err := regular.Rename(root, name+extension, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.drop(name)
	s.forget(name)
	return nil
}

// exists reports whether a file with the name in any case exists, which is the same file on some
// systems.
func (s *Store) exists(name string) bool { return s.checkClash(name) != nil }

// Problems returns the unusable files, sorted by name. Each is also logged once after each of its
// changes.
func (s *Store) Problems() []Problem {
	s.files.Lock()
	defer s.files.Unlock()
	s.refreshOrWarn()
	var out []Problem
	for _, name := range slices.Sorted(maps.Keys(s.cache)) {
		if e := s.cache[name]; e.problem != nil {
			out = append(out, s.problem(name, e))
		}
	}
	return out
}

func (s *Store) problem(name string, e *entry) Problem {
	return Problem{Name: name, Path: s.path(name), Err: e.problem}
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name+extension) }

// Close stops the goroutines and writes the counts not yet on disk. The error names the counts that
// could not be written. Later calls return the same error.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.done)
		s.routines.Wait()
		s.closeErr = s.flush()
		s.files.Lock()
		defer s.files.Unlock()
		s.room.close()
	})
	return s.closeErr
}

func (s *Store) closed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// wake signals the reader of a channel of capacity 1. If the channel is full, the reader is
// already going to look at everything.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
