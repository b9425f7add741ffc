// Package durable keeps the logs of runs that are to go on if their process dies, and decides
// which process goes on with them. Package compose makes and continues the runs.
//
//	durable.go Runs: the open runs of all processes that share a store
//	run.go     Run: writing the log of a run that this process makes
//	open.go    looking at the open runs
//	state.go   State: what a log says
//	lease.go   which process may write a log, see package lease
//	keeper.go  leases are renewed while runs go on
//	seal.go    logs are encrypted
//	gap.go     logs that were removed
//	room.go    how much there may be in the logs of each client
//	folder.go  Folder: logs and leases in a folder
//	shared.go  Shared: logs and leases in the store of a fleet
//	owner.go   who has leases in a folder
//
// # Protocol
//
// A run has a log and a lease, both with its id. The lease names its owner, until when the run
// is his, and a fencing number that grows with each owner. The log is fenced with the number
// of the last owner: nobody else can append to it. It begins with the input of the run. Before
// a call is sent, its intent is appended, and is on disk; afterwards its answer is appended.
// Compensations are calls like others, and which of them are to be made is appended before the
// first. When the run has ended, its record in the journal is written, and then the log and the
// lease are removed. While the Store does not answer, the run waits before its next call until
// its time limit; then it is left.
//
// When the lease is over, or the process of its owner has ended, another owner takes the
// lease with the next number (package lease), fences the log, and reads it. An intent without an answer is in
// doubt: the server may have got the call, or may still get it from an owner who was stopped
// between his last look at his lease and the sending.
package durable

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
)

// Store is what a Runs needs of the place where it keeps logs and leases; see store.Store,
// whose methods these are, except for Create, Flush and Leases.
type Store interface {
	// Create returns the beginning of a new log. What is appended there is not appended any
	// more once the log has been dropped, also if Append is called again because the first call
	// did not know what had become of the event.
	Create(ctx context.Context, log string) (store.Position, error)
	Append(ctx context.Context, log string, e store.Entry) (store.Position, error)
	// Flush returns when what was appended to a log survives a crash of the machine.
	Flush(ctx context.Context, log string) error
	Fence(ctx context.Context, log string, number uint64) (store.Position, error)
	// LastEvent returns the number of the last event before a position that Fence has returned;
	// 0 if there is none, or if Read never yields a log as it was before.
	LastEvent(fence store.Position) uint64
	Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error]
	// Whole is that of store.Store, for logs that something else than a Runs can remove.
	Whole(ctx context.Context, log string) error
	Drop(ctx context.Context, log string) error
	Get(ctx context.Context, key store.Key) (store.Document, error)
	Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error)
	Remove(ctx context.Context, key store.Key, old store.Version) error
	// Leases yields the lease of each open run; one that is not there has Version "".
	Leases(ctx context.Context) iter.Seq2[store.Document, error]
}

// DefaultTTL is how long a lease lasts unless it is renewed.
const DefaultTTL = 15 * time.Second

// Options of a Runs.
type Options struct {
	Store Store
	// Owner returns the name of this process, unlike those of all others that ever were. It
	// is called when a lease is taken.
	Owner func() (string, error)
	// Alive reports whether the process of an owner may still run. Nil: it may, so that its
	// lease must be over before another can be taken.
	Alive func(owner string) bool
	// AEAD encrypts the logs. All processes that share the Store have the same key. Nil: the
	// Store does it.
	AEAD cipher.AEAD
	TTL  time.Duration // 0 is DefaultTTL
	// Now and Wall are clocks; see lease.Options. Nil is that of this machine.
	Now, Wall func() time.Time
	Log       *slog.Logger // nil is slog.Default()
	// Room is how many bytes the logs of all open runs may have; 0: any number. See room.go.
	Room int64
	// Manual says that the caller renews leases by Renew; otherwise goroutines do.
	Manual bool

	pause func(context.Context) bool // of tests
}

// Errors that errors.Is finds.
var (
	// ErrLost says that another process goes on with a run, or may do so, so that this one
	// must leave it.
	ErrLost = errors.New("another process goes on with the run")
	// ErrSuspended says that a run is left so that another process goes on with it, since
	// this one ends.
	ErrSuspended = errors.New("the process ends, and another goes on with the run")
	// ErrHeld says that a run cannot be taken, because its owner has it.
	ErrHeld = errors.New("a process is at it")
	// ErrCancelRequested is the cause of the end of a run that somebody has cancelled by its
	// id.
	ErrCancelRequested = errors.New("the run was cancelled by its id")
	// ErrNotFound says that there is no open run with an id.
	ErrNotFound = errors.New("there is no such open run")
	// ErrCut says that the log of a run lacks events that it had.
	ErrCut = errors.New("the end of its log was cut off, so that calls could be made again (the store was put back to an earlier state; look at the servers, and cancel the run)")
)

// Runs are the open runs in a Store. It is safe for concurrent use.
type Runs struct {
	opts   Options
	leases *lease.Leases

	ctx     context.Context // of all runs of this process
	suspend context.CancelCauseFunc
	working sync.WaitGroup
	keepers sync.WaitGroup

	mu     sync.Mutex // a leaf
	closed bool
	ours   map[string]*Run
	listed time.Time // when the leases were last read
	// logs are the open runs of all processes, as their leases said when they were counted.
	logs    map[string]held
	counted time.Time
}

// New returns the open runs of a Store. The caller must Close them.
func New(opts Options) *Runs {
	if opts.TTL <= 0 {
		opts.TTL = DefaultTTL
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Wall == nil {
		opts.Wall = func() time.Time { return opts.Now().Round(0) }
	}
	if opts.pause == nil {
		opts.pause = pause
	}
	s := &Runs{opts: opts, ours: map[string]*Run{}}
	s.leases = s.newLeases()
	s.ctx, s.suspend = context.WithCancelCause(context.Background())
	return s
}

// Go runs f on a goroutine for which Close waits. Its context has the values of ctx, and ends
// with ErrSuspended when the Runs is closed. It reports false, and does nothing, if it is
// closed already.
func (s *Runs) Go(ctx context.Context, f func(ctx context.Context, cancel context.CancelCauseFunc)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.working.Go(func() {
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
		f(own, cancel)
	})
	return true
}

// Close ends the runs of this process with ErrSuspended and waits for them, until ctx ends. A
// nil Runs has none.
func (s *Runs) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.closed = true
	ours := slices.Collect(maps.Values(s.ours))
	s.mu.Unlock()
	for _, r := range ours {
		s.opts.Log.Info("a durable run is left to other processes", "run", r.id)
		r.end(ErrSuspended)
	}
	s.suspend(ErrSuspended)
	done := make(chan struct{})
	go func() {
		s.working.Wait()
		s.keepers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("durable runs did not stop in time: %w", context.Cause(ctx))
	}
}

// Begin opens the log of a run that this process begins, with the input of the run. about says
// what else is needed to go on with it. After an error that is ErrLost, another process may make
// the run; after any other, there is none.
func (s *Runs) Begin(ctx context.Context, id string, start time.Time, b *journal.Begin, about About) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	if s.opts.Room > 0 {
		if err := s.recount(ctx); err != nil {
			return nil, err
		}
	}
	size := runRoom + int64(len(b.Params)+len(b.Definition.Code))
	if err := s.admit(about.Principal, size); err != nil {
		return nil, err
	}
	is := held{Record: id, Guest: b.Guest, Account: about.Principal, Bytes: size, At: s.opts.Wall().UTC().Round(time.Second)}
	l, err := s.leases.Create(ctx, id, is.bytes())
	if err != nil {
		return nil, heldError(id, err)
	}
	r := s.newRun(id, l, is)
	r.secret = make([]byte, sha256.Size)
	_, _ = rand.Read(r.secret) // never fails
	r.bytes.Store(runRoom)     // and what is appended
	if r.at, err = s.opts.Store.Create(ctx, id); err == nil {
		r.lines.Begin(id, start, b)
		err = r.commit(ctx, event{Kind: kindAbout, Run: id, About: &about, Secret: r.secret, Record: id})
	}
	if err == nil {
		err = r.await(ctx) // without its lease, nobody would find it
	}
	if err != nil {
		s.forget(r)
		r.stopRenewing()
		return nil, s.unbegin(ctx, l, err)
	}
	return r, nil
}

// unbegin removes a run that has not begun because of err. The error is ErrLost if another
// process may begin it.
func (s *Runs) unbegin(ctx context.Context, l *lease.Lease, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leastTime)
	defer cancel()
	if removed := l.Remove(ctx); removed != nil { // otherwise nobody can take it any more
		return fmt.Errorf("run %s: %w, if its log was written: %w", l.Name(), ErrLost, errors.Join(err, removed))
	}
	return errors.Join(fmt.Errorf("%v", err), s.opts.Store.Drop(ctx, l.Name())) // it is ErrLost no more
}

// Take takes a run whose process has ended, or whose lease is over. The State is what its log
// says. The error is ErrHeld, ErrNotFound, or says why it cannot be taken.
func (s *Runs) Take(ctx context.Context, id string) (*Run, *State, error) {
	l, err := s.takeLease(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	is := readHeld(l.Data())
	at, err := s.opts.Store.Fence(ctx, id, l.Fence())
	if err != nil {
		return nil, nil, s.giveBack(ctx, l, fenceError(id, err))
	}
	state, last, err := s.read(ctx, id)
	switch {
	// The fence was put behind the last event there was, whatever is read afterwards.
	case last.Number < s.opts.Store.LastEvent(at) && (err == nil || errors.Is(err, ErrNotFound)):
		err = fmt.Errorf("run %s: %w", id, errBefore)
	case errors.Is(err, ErrNotFound) && is.Events > 0:
		err = fmt.Errorf("run %s: %w", id, ErrCut)
	}
	if err != nil {
		return nil, nil, s.giveBack(ctx, l, err)
	}
	switch {
	case last.Number > at.Number: // it cannot: nobody can append after the fence
		err = fmt.Errorf("run %s: its log has grown after it was fenced", id)
	case last.Number < is.Events:
		err = fmt.Errorf("run %s: %w", id, ErrCut)
	}
	if err != nil {
		return nil, nil, s.giveBack(ctx, l, err)
	}
	state.Used = max(state.Used, is.Used)
	is = held{Record: state.LastRecord, Guest: state.Record.Guest, Used: state.Used, Events: last.Number, Account: state.Principal, Bytes: state.bytes}
	r := s.newRun(id, l, is)
	for run := range state.undoing {
		r.undoes(run)
	}
	r.secret, r.at = state.secret, at
	r.flushed.Store(last.Number)
	return r, state, nil
}

// errBefore says that a log was read as it was before.
var errBefore = errors.New("the store answers from before (try again)")

// giveBack gives a lease back that was taken in vain, and returns err.
func (s *Runs) giveBack(ctx context.Context, l *lease.Lease, err error) error {
	if errors.Is(err, ErrNotFound) {
		return errors.Join(err, ignoreLost(l.Remove(ctx)))
	}
	return errors.Join(err, ignoreLost(l.Release(ctx)))
}

func fenceError(id string, err error) error {
	var fenced *store.FencedError
	if errors.As(err, &fenced) {
		return fmt.Errorf("run %s: %w", id, ErrHeld)
	}
	return err
}
