// Package fleet makes a process one of several replicas that share a store in NATS.
//
//	fleet.go      Fleet: the store, opened in the background
//	background.go the Store that others use meanwhile
//	claims.go     rights of which one replica gets each
//	keys.go       keys for other purposes than the store
//	replica.go    what is known of a replica
//	registry.go   the replicas, by a watch
//	ended.go      whether a replica has ended for good
//	measured.go   how long calls of the store take
//	presence.go   the document of this replica
//	refresh.go    asking all replicas how they are
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// Options of a Fleet.
type Options struct {
	// Open opens the store. It tries until ctx ends; another error than that of ctx is for good,
	// except store.ErrMissing for a replica: it is called again until that is over.
	Open func(ctx context.Context) (store.Store, error)
	// Ring has the keys of the fleet. They can be changed at any time.
	Ring *sealed.Ring
	// Name is the name of the fleet.
	Name string
	// About is what this replica says about itself; ID and Started are set by Open.
	About Info
	// Observer says that the process is no replica: it has no document, and nobody sees it.
	Observer bool
	// Observe sees each call of the store; nil: nobody does. It must not block.
	Observe func(operation string, took time.Duration, err error)
	// TTL is how long a replica is believed to live without a renewal; 0 is DefaultTTL.
	TTL time.Duration
	Log *slog.Logger
}

// Fleet is this process as a replica. Its methods are safe for concurrent use. A nil Fleet is a
// process that shares nothing.
type Fleet struct {
	opts     Options
	id       string
	store    *background
	registry *registry
	presence *presence

	sealer sealer // nil until store is open, and if it seals nothing

	resealing sync.Mutex // held while documents are sealed again
	resealed  string     // the id of the key that this was done with last

	stop    context.CancelFunc
	working sync.WaitGroup
	away    atomic.Pointer[Away]
	once    atomic.Bool // the store has answered
}

// Away says since when the store does not answer.
type Away struct {
	Since time.Time
	Err   error // why
}

// Open begins to open the store and returns at once. The caller must Close the Fleet.
func Open(opts Options) *Fleet {
	if opts.TTL <= 0 {
		opts.TTL = DefaultTTL
	}
	f := &Fleet{opts: opts, id: store.NewID().String(), store: newBackground(), registry: newRegistry()}
	opts.About.ID, opts.About.Started = f.id, time.Now().UTC().Truncate(time.Millisecond)
	f.presence = newPresence(opts.About)
	f.away.Store(&Away{Since: time.Now(), Err: errors.New("it is being opened")})
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.working.Go(func() { f.open(ctx) })
	return f
}

// open opens the store and then looks whether it answers, until ctx ends.
func (f *Fleet) open(ctx context.Context) {
	inner, err := f.opts.Open(ctx)
	for errors.Is(err, store.ErrMissing) && !f.opts.Observer {
		f.answered(err)
		sleep(ctx, probeEvery)
		inner, err = f.opts.Open(ctx)
	}
	if err == nil {
		f.sealer, _ = inner.(sealer)
		inner = measure(inner, f.opts.Observe)
	}
	f.store.opened(inner, err)
	if err != nil {
		if ctx.Err() == nil {
			f.opts.Log.Error("the store of the fleet cannot be used", "err", err)
			f.away.Store(&Away{Since: time.Now(), Err: err})
		}
		return
	}
	f.working.Go(func() { f.watch(ctx) })
	f.working.Go(func() { f.keepPresent(ctx) })
	f.probe(ctx)
}

// How often the store is asked whether it answers, and how long it may take.
const (
	probeEvery = time.Second
	probeTime  = 2 * time.Second
)

// probeKey is that of a document which is not there.
var probeKey = store.Key{Collection: collection, Name: "probe"}

// probe finds out whether the store answers, until ctx ends.
func (f *Fleet) probe(ctx context.Context) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for turn := 0; ; {
		attempt, cancel := context.WithTimeout(ctx, probeTime)
		err := f.look(attempt, turn)
		cancel()
		if err == nil { // otherwise the same is asked again, until it is there
			turn++
		}
		if ctx.Err() != nil {
			return
		}
		f.answered(err)
		if err == nil && f.opts.Observer {
			f.registry.prove(time.Now(), f.opts.TTL)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look asks for something in the store that is not there: for a document, and in turn for one of the
// other kinds of things, which can be lost on their own.
func (f *Fleet) look(ctx context.Context, turn int) (err error) {
	if err = f.Reached(ctx); err != nil {
		return err
	}
	switch turn % 3 {
	case 0:
		_, err = f.store.Last(ctx, probeKey.Name)
	case 1:
		_, err = f.store.Last(ctx, store.LastingPrefix+probeKey.Name)
	case 2:
		_, err = f.store.Blob(ctx, store.DigestOf([]byte(probeKey.Name)))
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// answered notes whether the store has answered.
func (f *Fleet) answered(err error) {
	before := f.away.Load()
	if err == nil {
		f.once.Store(true)
	}
	switch {
	case errors.Is(err, store.ErrMissing) && !before.isLost():
		f.away.Store(&Away{Since: time.Now(), Err: err})
		f.opts.Log.Error("the store of the fleet is lost: this replica is not ready", "err", err)
	case before.isLost() && err != nil: // it is still lost, as far as is known
	case err == nil && before != nil:
		f.away.Store(nil)
		f.opts.Log.Info("the store of the fleet answers", "after", time.Since(before.Since).Round(time.Millisecond))
	case err != nil && before == nil:
		f.away.Store(&Away{Since: time.Now(), Err: err})
		f.opts.Log.Warn("the store of the fleet does not answer", "err", err)
	}
}

// ID is the id of this replica, unlike those of all others that ever were.
func (f *Fleet) ID() string { return f.id }

// Name is the name of the fleet.
func (f *Fleet) Name() string { return f.opts.Name }

// Store is the store of the fleet. Its calls wait for it until their context ends, so that
// callers who must not wait look at Away first, and give a context with a deadline.
func (f *Fleet) Store() store.Store { return f.store }

// Reached waits until the store answers, until ctx ends: then it says why it has not.
func (f *Fleet) Reached(ctx context.Context) error {
	_, err := f.store.Get(ctx, probeKey)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// isLost reports whether the store was lost.
func (a *Away) isLost() bool { return a != nil && errors.Is(a.Err, store.ErrMissing) }

// Lost returns why everything that needs the store waits for people: it has lost what it had, or a
// part of that. Nil: it has not, as far as is known, or there is no fleet.
func (f *Fleet) Lost() error {
	if f == nil {
		return nil
	}
	if a := f.away.Load(); a.isLost() {
		return a.Err
	}
	return nil
}

// Answered reports whether the store has answered at least once.
func (f *Fleet) Answered() bool { return f.once.Load() }

// Away returns nil if the store has answered when it was last asked.
func (f *Fleet) Away() *Away { return f.away.Load() }

// Close ends what the Fleet does, and closes the store.
func (f *Fleet) Close() error {
	if f == nil {
		return nil
	}
	f.stop()
	f.working.Wait()
	return f.store.Close()
}
