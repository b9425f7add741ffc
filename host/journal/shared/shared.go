// Package shared keeps a journal in the store of a fleet. The records of the processes of a folder
// are shipped from the files to the store, and records of other replicas are fetched into the files
// on demand. So everything is read from files, and recording continues without the store: the files
// are the queue. Begin with Journal.
package shared

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Options of a Journal.
type Options struct {
	// Store is the store of the fleet, and Fleet the name of the fleet.
	Store store.Store
	Fleet string
	// Dir is the folder of the journal, which need not exist.
	Dir string
	// Away returns why the store cannot be used now; nil for a usable store. Nil: always usable.
	Away func() error
	// MaxAge is how long shipped records are kept; 0 is journal.DefaultMaxAge.
	MaxAge time.Duration
	Log    *slog.Logger
	Now    func() time.Time // nil is time.Now

	// every is how often the files are looked at; 0 is lookEvery. For tests.
	every time.Duration
}

// Journal is a journal in a folder, and in the store of a fleet. The methods are safe for
// concurrent use. Journal implements journal.Fleet.
type Journal struct {
	opts    Options
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	wake    chan struct{} // has a token if something has ended
	working sync.WaitGroup
	closing chan struct{} // closed by Close
	closed  sync.Once

	fetching chan struct{} // has a token while a goroutine reads records of other replicas

	mu      sync.Mutex // a leaf
	marks   journal.Marks
	changed chan struct{} // closed when marks change
	ours    bool          // this process ships
	folder  string        // "" until known
	lag     Lag
	days    map[string][]string // folders with records, by day
}

var _ journal.Fleet = (*Journal)(nil)

// Lag is the recorded data that is not in the store yet.
type Lag struct {
	// Waiting is how many runs and calls wait, as far as the files were read.
	Waiting int
	// Since is when the first of them was found; zero if none waits.
	Since time.Time
	// Lost is how many were removed from the files before they were shipped.
	Lost int
}

// ErrClosed means that the Journal is closed.
var ErrClosed = errors.New("this process ends")

// Open returns a Journal which only reads until Ship is called. The caller must Close the Journal.
func Open(opts Options) *Journal {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Away == nil {
		opts.Away = func() error { return nil }
	}
	if opts.MaxAge <= 0 {
		opts.MaxAge = journal.DefaultMaxAge
	}
	if opts.every <= 0 {
		opts.every = lookEvery
	}
	j := &Journal{
		opts: opts, wake: make(chan struct{}, 1), closing: make(chan struct{}), fetching: make(chan struct{}, 1),
		marks: journal.Marks{}, changed: make(chan struct{}), days: map[string][]string{},
	}
	j.ctx, j.stop = context.WithCancel(context.Background())
	return j
}

// closeTime is how long Close goes on shipping.
const closeTime = time.Second

// Close ships the rest, unless shipping takes long or the store is away, and ends all work. A nil
// Journal does nothing.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	j.closed.Do(func() {
		close(j.closing)
		if j.opts.Away() != nil {
			j.stop()
		}
		late := time.AfterFunc(closeTime, j.stop)
		defer late.Stop()
		j.working.Wait()
		j.stop()
	})
}

// Ready implements journal.Fleet.
func (j *Journal) Ready() error { return j.opts.Away() }

// Ended implements journal.Fleet.
func (j *Journal) Ended() {
	select {
	case j.wake <- struct{}{}:
	default: // the shipper is awake already
	}
}

// Lag returns the data that is not in the store yet.
func (j *Journal) Lag() Lag {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lag
}

// Kept implements journal.Fleet. Another process may be shipping.
func (j *Journal) Kept(ctx context.Context, end journal.Place) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		j.mu.Lock()
		kept, changed, ours := j.marks[end.File] >= end.Offset, j.changed, j.ours
		j.mu.Unlock()
		if !kept && !ours {
			if s, err := readState(j.ctx, j.statePath()); err == nil {
				kept = s.Marks[end.File] >= end.Offset
			}
		}
		if kept {
			return nil
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-j.ctx.Done():
			return ErrClosed
		}
	}
}

// pollEvery is how often Kept looks how far another process has shipped.
const pollEvery = 100 * time.Millisecond
