// Package files is a [store.Store] in a folder, for one machine. It needs nothing else, and it
// keeps the files that users know: events are lines of the journal, and saved tools, their
// history and approvals are where they have always been.
//
//	files.go      Open, Close
//	logs.go       Append, Fence, Drop
//	index.go      the index of a log
//	line.go       events as lines of the journal
//	read.go       Read, Follow, Logs
//	folders.go    which collection is in which folder
//	escape.go     names of files
//	documents.go  Get, Put, Remove, Documents
//	watch.go      Watch
//	blobs.go      blobs
//	notify.go     notifications of the file system
//	errors.go     errors of the file system
//	full_*.go     which of them says that there is no room
//
// # Logs
//
// An event is a line of the journal, in the file of the process that has written it. If it has
// the form of a line of that log, it is written as it is, and otherwise as
// {"t":"data","run":LOG,"base64":…}. The folder "positions" of the journal has an index for each
// log: one record of fixed size for each event, which says where its line is and what it is.
//
// An event is appended while a lock is held, which some logs have in common. The record is written first. It counts only
// if the line is what it says, so that a process can be killed at any time. A record that does
// not count is always the last one, and the next event takes its place. Readers take no lock.
//
// Events go when the journal removes the file that they are in, by its age or its size.
//
// # Documents
//
// A document is a file, which is replaced at once while its folder is locked. The version is a
// digest of its content, since people and other programs may edit it, too; a form with the
// content of an earlier one has its version.
//
// The locks are those of the operating system, which are for one machine; most network file
// systems do not have them.
package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Options are the options of a Store.
type Options struct {
	// Dir is the folder of the store. It is made with the first thing that is written.
	Dir string
	// Journal is where events are written. Its owner closes it after the Store.
	Journal *journal.Log
	// Poll is how often Follow and Watch look for changes, in addition to the notifications
	// of the file system, which some file systems lack; 0 is a second.
	Poll time.Duration
	Log  *slog.Logger // nil is slog.Default()
}

// Store is a [store.Store] in a folder.
type Store struct {
	opts    Options
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	folders map[string]folder // by collection
	notify  *notifier

	mu       sync.Mutex          // a leaf
	checked  bool                // the owner of the folder
	verified map[string]record   // the last record of a log, which was found to count
	unsynced map[string]store.ID // the last event of a log that could not be synced
}

var _ store.Store = (*Store)(nil)

// Open returns the Store of a folder. The caller must Close it.
func Open(opts Options) *Store {
	if opts.Poll <= 0 {
		opts.Poll = time.Second
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	s := &Store{opts: opts, folders: folders(opts.Dir), verified: map[string]record{}, unsynced: map[string]store.ID{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.notify = newNotifier(opts.Log)
	return s
}

// Close implements [store.Store].
func (s *Store) Close() error {
	s.cancel(store.ErrClosed)
	s.notify.close()
	return nil
}

// begin returns ctx, which ends with the Store, too, or why nothing can be done.
func (s *Store) begin(ctx context.Context, what string) (context.Context, context.CancelFunc, error) {
	if err := s.ended(ctx, what); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(store.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }, nil
}

// ended returns why nothing can be done any more.
func (s *Store) ended(ctx context.Context, what string) error {
	switch {
	case s.ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, context.Cause(ctx))
	}
	return nil
}

// makeFolder makes a folder for this user only.
func (s *Store) makeFolder(dir string) error {
	s.mu.Lock()
	checked := s.checked
	s.mu.Unlock()
	if !checked {
		doubts, err := owner.Check(s.opts.Dir)
		if err != nil {
			return err
		}
		for _, d := range doubts {
			s.opts.Log.Warn("others may be able to read or change the store", "why", d.Error())
		}
		s.mu.Lock()
		s.checked = true
		s.mu.Unlock()
	}
	return os.MkdirAll(dir, 0o700)
}

// lockRetry is how often a lock is tried that another goroutine or process has.
const lockRetry = 2 * time.Millisecond

// lock locks a file, which is made if it is not there, in an existing folder.
func lock(ctx context.Context, path string) (*flock.Flock, error) {
	l := regular.NewLock(path)
	ok, err := l.TryLock()
	if err == nil && !ok {
		ok, err = l.TryLockContext(ctx, lockRetry)
	}
	if err != nil || !ok {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// positions is the folder of the indexes.
func (s *Store) positions() string { return filepath.Join(s.opts.Journal.Dir(), "positions") }
