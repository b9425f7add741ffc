package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

const (
	lockFile  = ".lock"
	lockRetry = 5 * time.Millisecond
)

// lockWait is the time a writer waits for other writers, which hold the lock for the few
// milliseconds of a write. Tests set lockWait.
var lockWait = 15 * time.Second

// exclusive runs f as the only writer of the directory among all processes, with an updated cache,
// and makes the changes durable. The wait for other processes is at most wait. f runs with the lock
// file but without files, so that no reader waits for the disk.
func (s *Store) exclusive(wait time.Duration, f func(*os.Root) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	unlock, err := s.lock(wait)
	if err != nil {
		return err
	}
	defer unlock()
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return fmt.Errorf("tool store: %w", err)
	}
	defer root.Close()
	s.files.Lock()
	leftovers, err := s.scan(root)
	s.files.Unlock()
	if err != nil {
		return err
	}
	// Since every writer holds the lock, leftovers are from crashed writers.
	for _, file := range leftovers {
		if err := root.Remove(file); err != nil {
			s.log.Debug("leftover file is not removed", "file", file, "error", err)
		}
	}
	if err := f(root); err != nil {
		return err
	}
	if err := regular.SyncFolder(root, "."); err != nil {
		return fmt.Errorf("tool store: %w", err)
	}
	return nil
}

// lock locks the lock file. The file is opened each time, so that a recreated directory gets its
// own lock.
func (s *Store) lock(wait time.Duration) (unlock func(), err error) {
	path := filepath.Join(s.dir, lockFile)
	l := regular.NewLock(path)
	ok, err := acquire(l, wait)
	if errors.Is(err, fs.ErrNotExist) { // the directory was deleted
		if err = os.MkdirAll(s.dir, 0o700); err == nil {
			ok, err = acquire(l, wait)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tool store %s: cannot be written to: %w", s.dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("tool store %s: locked by another process for %v (end the process that holds %s)", s.dir, wait, path)
	}
	return func() {
		if err := l.Close(); err != nil {
			s.log.Warn("tool store: unlocking failed", "error", err)
		}
	}, nil
}

func acquire(l *flock.Flock, wait time.Duration) (bool, error) {
	if wait == 0 {
		return l.TryLock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	ok, err := l.TryLockContext(ctx, lockRetry)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return ok, err
}

// writeTool writes the tool's file and updates the cache entry. It subtracts the executions now on
// disk from the pending executions, and returns the same as Get. Shared tools are changed in Shared
// first.
func (s *Store) writeTool(root *os.Root, def *Definition, counted executions, c *sharing) (Definition, error) {
	data, err := def.File()
	if err != nil {
		return Definition{}, fmt.Errorf("tool %q: %w", def.Name, err)
	}
	temp, err := regular.WriteTemp(root, ".", data, 0o600)
	if err != nil {
		c.withdraw()
		return Definition{}, writeError(def.Name, err)
	}
	if err := c.publish(data); err != nil {
		return Definition{}, errors.Join(fmt.Errorf("tool %q: cannot be saved: %w", def.Name, err), temp.Remove())
	}
	// files is held, so that no reader sees the new count together with the pending count.
	s.files.Lock()
	defer s.files.Unlock()
	if err := temp.Rename(def.Name + extension); err != nil {
		if c != nil {
			return Definition{}, fmt.Errorf("tool %q: is saved in the fleet, but the copy in %s cannot be written: %w", def.Name, s.dir, err)
		}
		return Definition{}, writeError(def.Name, err)
	}
	s.deduct(def.Name, counted)
	if !s.load(root, def.Name) || s.cache[def.Name].problem != nil {
		return Definition{}, fmt.Errorf("tool %q: its file is not what was just written to it (is another program changing %s?)", def.Name, s.dir)
	}
	return s.withPending(s.cache[def.Name].def), nil
}

func writeError(name string, err error) error {
	return fmt.Errorf("tool %q: cannot be written: %w (what was saved before is unchanged)", name, err)
}

// ReadFile reads a regular file of at most limit bytes. Symbolic links are not followed, not even
// to a file in the same folder.
func ReadFile(root *os.Root, file string, limit int64) ([]byte, error) {
	info, err := root.Lstat(file)
	if err != nil {
		return nil, err
	}
	data, _, err := readRegular(root, file, info, limit)
	return data, err
}

// readTool reads a tool file, given the file's stat.
func readTool(root *os.Root, file string, info fs.FileInfo) ([]byte, fs.FileInfo, error) {
	data, opened, err := readRegular(root, file, info, MaxFileBytes)
	if err == nil {
		err = owner.CheckFile(opened)
	}
	return data, opened, err
}

// readRegular reads a regular file of at most limit bytes, given the file's stat.
func readRegular(root *os.Root, file string, info fs.FileInfo, limit int64) ([]byte, fs.FileInfo, error) {
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, info, errors.New("it is a symbolic link, which is not followed")
	}
	f, err := regular.OpenIn(root, file)
	if err != nil {
		return nil, info, reason(err)
	}
	defer f.Close()
	opened, err := f.Stat() // the file may have been replaced since the stat
	if err != nil {
		return nil, info, err
	}
	data, err := regular.ReadAll(context.Background(), f, limit)
	return data, opened, err
}

// reason returns an error of the file system without the path.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && errors.Is(err, regular.ErrNotRegular) {
		return path.Err
	}
	return err
}

func readNames(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

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

const (
	// gatherTime is how long the events of a change are collected.
	gatherTime = 25 * time.Millisecond
	// pollBlind is the polling interval without notifications from the system, and pollSure the
	// interval with notifications. Polling is needed even then, since some file systems (NFS) only
	// report changes by the same machine.
	pollBlind = 2 * time.Second
	pollSure  = 30 * time.Second
)

// watcher calls OnChange. Only one goroutine uses a watcher.
type watcher struct {
	store   *Store
	notify  *fsnotify.Watcher // watches the directory; nil without notifications
	watched fs.FileInfo       // the directory watched by notify
	warned  bool              // a warning about the unwatchable directory was logged
	seen    map[string]Definition
}

// newWatcher starts watching and remembers the state visible to the caller of OpenStore.
func (s *Store) newWatcher() *watcher {
	w := &watcher{store: s}
	w.attach()
	w.seen = s.visible()
	return w
}

// attach makes the system's watch follow the name of the directory: a directory deleted and created
// again is a new directory.
func (w *watcher) attach() {
	info, err := os.Stat(w.store.dir)
	if err == nil && w.notify != nil && os.SameFile(info, w.watched) {
		return
	}
	w.detach()
	if err != nil {
		return // the directory does not exist: the next check tries again
	}
	notify, err := watchDirectory(w.store.dir)
	switch {
	case err == nil:
		w.notify, w.watched = notify, info
	case !w.warned:
		w.warned = true
		w.store.log.Warn("no notifications of changed tools: looking at the directory regularly instead",
			"dir", w.store.dir, "interval", pollBlind, "error", err)
	}
}

// watchDirectory makes an fsnotify.Watcher of one directory.
func watchDirectory(dir string) (*fsnotify.Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := notify.Add(dir); err != nil {
		return nil, errors.Join(err, notify.Close())
	}
	return notify, nil
}

// detach ends the system's watch. On Windows the watch has the directory open, so the name cannot
// be reused before detach. fsnotify.Watcher.Remove would not do: on Windows the call fails if the
// directory has been deleted, and can block while events are pending.
func (w *watcher) detach() {
	if w.notify == nil {
		return
	}
	if err := w.notify.Close(); err != nil {
		w.store.log.Debug("closing the watch of the tools directory", "error", err)
	}
	w.notify, w.watched = nil, nil
}

func (w *watcher) interval() time.Duration {
	if w.notify == nil {
		return pollBlind
	}
	return pollSure
}

// channels returns the reports of the system's watch; both are nil without a watch.
func (w *watcher) channels() (events <-chan fsnotify.Event, errs <-chan error) {
	if w.notify == nil {
		return nil, nil
	}
	return w.notify.Events, w.notify.Errors
}

// run looks for changes when notified, and at intervals, until Close.
func (w *watcher) run() {
	defer w.detach()
	poll := time.NewTimer(w.interval())
	defer poll.Stop()
	var gathered <-chan time.Time
	for {
		events, errs := w.channels()
		select {
		case <-w.store.done:
			return
		case ev := <-events:
			if ev.Name == w.store.dir && (ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)) {
				w.detach() // a new directory may even have the same inode
			}
			if gathered == nil && w.isRelevant(ev) {
				gathered = time.After(gatherTime)
			}
			continue
		case err := <-errs: // events may have been lost
			w.store.log.Debug("watching the tools directory", "error", err)
		case <-w.store.changed:
		case <-gathered:
			gathered = nil
		case <-poll.C:
		}
		w.check()
		poll.Reset(w.interval())
	}
}

// isRelevant is false for the temporary files of writes.
func (w *watcher) isRelevant(ev fsnotify.Event) bool {
	return ev.Name == w.store.dir || !strings.HasPrefix(filepath.Base(ev.Name), ".")
}

// check calls OnChange if agents can see a difference since the last time.
func (w *watcher) check() {
	w.attach()
	now := w.store.visible()
	if sameTools(w.seen, now) {
		return
	}
	w.seen = now
	w.store.onChange()
}

// visible returns the tools as agents see them, by name.
func (s *Store) visible() map[string]Definition {
	out := map[string]Definition{}
	for _, d := range s.List() {
		out[d.Name] = d
	}
	return out
}

func sameTools(a, b map[string]Definition) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		y, ok := b[name]
		if !ok || !x.sameToAgents(&y) {
			return false
		}
	}
	return true
}
