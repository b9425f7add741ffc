// Package lease lets one of several processes own something for a while: a run, or what must
// exist only once in a fleet. A lease is a document of a [store.Store].
//
//	lease.go  Leases: taking and renewing
//	look.go   looking at leases; what the owner of one keeps in it
//	hold.go   Hold: renewing in the background
//	list.go   List: who has which
//
// # Time
//
// No clock is compared with that of another machine. The owner counts from before it has
// renewed a lease. Others take a lease over when they have seen the same renewal for as long as
// the owner has said that it lasts. So clocks may be wrong, and may jump, but must not run at
// very different speeds. Even then, and if a machine is suspended in the middle, no two owners
// have the same fencing number: whoever takes a lease gets a larger one than all before, and
// [store.Store.Fence] with it keeps former owners from writing.
//
// A lease that has ended on the clock of its owner is still his as long as nobody has taken it:
// he can renew it, and others find that he has.
package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Collection is the collection of the documents.
const Collection = "leases"

// floorName is the document with the largest fencing number of the leases that were forgotten.
// No lease can have the name, since it has a space.
const floorName = "largest forgotten"

// Documents is what Leases need of a [store.Store], whose methods these are.
type Documents interface {
	Get(ctx context.Context, key store.Key) (store.Document, error)
	Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error)
	Remove(ctx context.Context, key store.Key, old store.Version) error
}

// Options are the options of Leases.
type Options struct {
	// Owner is the name of the process, for people.
	Owner string
	// NewOwner, if set, returns the name in place of Owner when a lease is taken.
	NewOwner func() (string, error)
	// TTL is how long a lease lasts without being renewed; 0 is DefaultTTL.
	TTL time.Duration
	// Now is the clock that counts how long leases last. Nil is time.Now.
	Now func() time.Time
	// Wall is a clock that may jump, but goes on while the machine sleeps. The owner of a
	// lease takes it as over when either clock says so. Nil is Now without what is monotonic
	// in it.
	Wall func() time.Time
	// Collection has the documents; "" is Collection.
	Collection string
	// Alive, if set, says whether the process of an owner may still run. The leases of others
	// can be taken at once.
	Alive func(owner string) bool
	// Floor, if set, returns a fencing number below that of a lease that is not there, in place
	// of the largest of those that were forgotten. Its errors are those of Take.
	Floor func(ctx context.Context, name string) (uint64, error)
}

// DefaultTTL is the default of Options.TTL.
const DefaultTTL = 15 * time.Second

// Leases takes leases for one process. It is safe for concurrent use.
type Leases struct {
	docs Documents
	opts Options

	mu   sync.Mutex // a leaf
	seen map[string]sighting
}

// sighting is when a renewal of another owner was seen first.
type sighting struct {
	version store.Version
	at      time.Time
}

// New returns Leases in a Store.
func New(s Documents, opts Options) *Leases {
	if opts.TTL <= 0 {
		opts.TTL = DefaultTTL
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Wall == nil {
		opts.Wall = func() time.Time { return opts.Now().Round(0) }
	}
	if opts.Collection == "" {
		opts.Collection = Collection
	}
	return &Leases{docs: s, opts: opts, seen: map[string]sighting{}}
}

// state is the content of a document.
type state struct {
	Owner   string   `json:"owner,omitempty"`
	Holding store.ID `json:"holding"` // one for each time that somebody takes the lease
	Fence   uint64   `json:"fence"`
	Renewed uint64   `json:"renewed"` // how often
	TTL     int64    `json:"ttl"`     // in nanoseconds
	Free    bool     `json:"free,omitempty"`
	// Deaths is how many owners did not release it.
	Deaths int             `json:"deaths,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// HeldError says that somebody else has a lease.
type HeldError struct {
	Name, Owner string
	// For is how long it lasts at least, if the owner does not renew it. Only who asks again
	// after that time can take it.
	For time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease %q: belongs to %s, for %v at least", e.Name, e.Owner, e.For)
}

// ErrLost says that somebody else has taken a lease, because it was not renewed in time.
var ErrLost = errors.New("the lease was lost")

// Lease is something that this process owns. Its methods are safe for concurrent use.
type Lease struct {
	leases *Leases
	name   string
	fence  uint64

	renewing sync.Mutex // guards the fields below up to mu; held during calls of the Store
	version  store.Version
	state    state
	sent     uint64 // the largest state.Renewed that was sent, whatever became of it

	mu    sync.Mutex // guards the fields below; a leaf
	until time.Time
	wall  time.Time // until, on Options.Wall
	lost  bool
}

func (s *Leases) key(name string) store.Key {
	return store.Key{Collection: s.opts.Collection, Name: name}
}

// Name returns the name of the lease, and Fence its fencing number.
func (l *Lease) Name() string  { return l.name }
func (l *Lease) Fence() uint64 { return l.fence }

// Take takes a lease. The error is a [*HeldError] if somebody has it, this process included, or
// one of the Store. To wait for a lease, take it again and again: the first time begins to
// count how long it is not renewed.
func (s *Leases) Take(ctx context.Context, name string) (*Lease, error) {
	for {
		d, err := s.docs.Get(ctx, s.key(name))
		var old state
		switch {
		case errors.Is(err, store.ErrNotFound):
			if old, err = s.below(ctx, name); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			if old, err = read(d); err != nil {
				return nil, err
			}
			if left := s.left(name, d.Version, &old); left > 0 {
				return nil, &HeldError{name, old.Owner, left}
			}
		}
		if d.Version != "" && !old.Free {
			old.Deaths++
		}
		l, err := s.take(ctx, name, d.Version, old)
		if isConflict(err) {
			continue // somebody else was faster
		}
		if err == nil && s.opts.Floor == nil {
			err = l.aboveFloor(ctx)
		}
		switch {
		case errors.Is(err, ErrLost):
			continue // it took that long
		case err != nil:
			return nil, err
		}
		return l, nil
	}
}

// left returns for how long a lease cannot be taken at least.
func (s *Leases) left(name string, r store.Version, is *state) time.Duration {
	if is.Free || s.opts.Alive != nil && !s.opts.Alive(is.Owner) {
		return 0
	}
	now := s.opts.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[name].version != r {
		s.seen[name] = sighting{r, now}
	}
	return max(0, time.Duration(is.TTL)-now.Sub(s.seen[name].at))
}

// take writes the document of a lease that nobody has any more.
func (s *Leases) take(ctx context.Context, name string, version store.Version, old state) (*Lease, error) {
	l := &Lease{leases: s, name: name, fence: old.Fence + 1, version: version}
	owner := s.opts.Owner
	if s.opts.NewOwner != nil {
		var err error
		if owner, err = s.opts.NewOwner(); err != nil {
			return nil, err
		}
	}
	err := l.write(ctx, state{
		Owner: owner, Holding: store.NewID(), Fence: l.fence, TTL: int64(s.opts.TTL), Deaths: old.Deaths, Data: old.Data,
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.seen, name)
	s.mu.Unlock()
	return l, nil
}

// write replaces the document. The caller holds l.renewing, or nobody else has l. The error is a
// [*store.ConflictError] if somebody else has the lease.
func (l *Lease) write(ctx context.Context, next state) error {
	for {
		again, err := l.attempt(ctx, &next)
		if err != nil || !again {
			return err
		}
	}
}

// attempt writes one content, if need be several times. again says that the document is another
// one of this owner, who did not know of it: next is the one behind that.
func (l *Lease) attempt(ctx context.Context, next *state) (again bool, err error) {
	// Others may have seen a content since the first time that it was sent, so each attempt
	// has another one.
	next.Renewed = max(next.Renewed, l.sent+1)
	l.sent = next.Renewed
	data, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	begun := l.leases.clocks()
	for {
		r, err := l.leases.docs.Put(ctx, l.leases.key(l.name), l.version, data)
		if err == nil {
			l.written(r, *next, begun)
			return false, nil
		}
		if !isConflict(err) && !errors.Is(err, store.ErrUnknown) {
			return false, err
		}
		d, getErr := l.leases.docs.Get(ctx, l.leases.key(l.name))
		switch {
		case errors.Is(getErr, store.ErrNotFound) && l.version == "", getErr == nil && d.Version == l.version:
			if ctx.Err() != nil {
				return false, err
			}
			continue // it is not there yet
		case errors.Is(getErr, store.ErrNotFound):
			return false, &store.ConflictError{What: "lease " + l.name}
		case getErr != nil:
			return false, getErr
		case string(d.Data) == string(data):
			l.written(d.Version, *next, begun)
			return false, nil
		}
		is, err := read(d)
		if err != nil {
			return false, err
		}
		if is.Holding != next.Holding {
			return false, &store.ConflictError{What: "lease " + l.name}
		}
		l.version, next.Renewed = d.Version, max(next.Renewed, is.Renewed+1)
		return true, nil
	}
}

// written notes what is in the document now.
func (l *Lease) written(r store.Version, is state, begun clocks) {
	l.version, l.state = r, is
	if is.Free {
		l.set(clocks{}, true)
	} else {
		ttl := l.leases.opts.TTL
		l.set(clocks{begun.now.Add(ttl), begun.wall.Add(ttl)}, false)
	}
}

// clocks is a time on both clocks.
type clocks struct{ now, wall time.Time }

func (s *Leases) clocks() clocks { return clocks{s.opts.Now(), s.opts.Wall()} }

// isConflict reports whether an error says that somebody else has written, and nothing else.
func isConflict(err error) bool {
	return errors.As(err, new(*store.ConflictError)) && !errors.Is(err, store.ErrUnknown)
}

// Renew makes the lease last from now on. After ErrLost, it belongs to somebody else; after
// other errors, it can be renewed again. When Until is over, it is nobody's, until somebody takes
// or renews it.
func (l *Lease) Renew(ctx context.Context) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	return l.change(ctx, func(*state) {})
}

// Release gives the lease back, so that others can take it at once.
func (l *Lease) Release(ctx context.Context) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	l.mu.Lock()
	l.until = time.Time{} // whatever becomes of it: nothing is begun any more
	l.mu.Unlock()
	return l.change(ctx, func(next *state) { next.Free = true })
}

func (l *Lease) change(ctx context.Context, f func(*state)) error {
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	if lost {
		return fmt.Errorf("lease %q: %w", l.name, ErrLost)
	}
	next := l.state
	f(&next)
	err := l.write(ctx, next)
	if isConflict(err) {
		l.set(clocks{}, true)
		return fmt.Errorf("lease %q: %w", l.name, ErrLost)
	}
	return err
}

func (l *Lease) set(until clocks, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.wall, l.lost = until.now, until.wall, lost
}

func read(d store.Document) (is state, err error) {
	if err := json.Unmarshal(d.Data, &is); err != nil {
		return is, &store.CorruptError{What: "lease " + d.Name, Reason: "its document is wrong"}
	}
	return is, nil
}

// below returns a state with a smaller fencing number than a lease that is not there may have.
func (s *Leases) below(ctx context.Context, name string) (state, error) {
	if s.opts.Floor == nil {
		return s.floor(ctx)
	}
	fence, err := s.opts.Floor(ctx, name)
	return state{Fence: fence}, err
}

// floor returns a state with the largest fencing number of forgotten leases.
func (s *Leases) floor(ctx context.Context) (state, error) {
	d, err := s.docs.Get(ctx, s.key(floorName))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return state{}, nil
	case err != nil:
		return state{}, err
	}
	return read(d)
}

// aboveFloor makes sure that a lease has a larger fencing number than those that were forgotten.
// Its document can be newer than some of them, and it can be one that somebody wrote long ago
// and that arrived only now.
func (l *Lease) aboveFloor(ctx context.Context) error {
	for {
		floor, err := l.leases.floor(ctx)
		if err != nil {
			return err
		}
		if floor.Fence < l.fence {
			return nil
		}
		l.fence = floor.Fence + 1
		if err := l.change(ctx, func(next *state) { next.Fence = l.fence }); err != nil {
			return err
		}
	}
}

// Forget removes what is known about a lease that is free and that nobody needs any more. If
// somebody takes it again, its fencing numbers still go on.
func (s *Leases) Forget(ctx context.Context, name string) error {
	d, err := s.docs.Get(ctx, s.key(name))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	is, err := read(d)
	if err != nil {
		return err
	}
	if left := s.left(name, d.Version, &is); left > 0 {
		return &HeldError{name, is.Owner, left}
	}
	for {
		floor, err := s.docs.Get(ctx, s.key(floorName))
		var was state
		if err == nil {
			was, err = read(floor)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if was.Fence >= is.Fence {
			break
		}
		data, err := json.Marshal(state{Fence: is.Fence})
		if err != nil {
			return err
		}
		_, err = s.docs.Put(ctx, s.key(floorName), floor.Version, data)
		if err != nil && !isConflict(err) && !errors.Is(err, store.ErrUnknown) || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	return s.docs.Remove(ctx, s.key(name), d.Version)
}
