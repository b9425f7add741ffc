package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Until returns when the lease ends if it is not renewed, on the clock of Options.Now; the zero
// time if it has ended. Its owner begins nothing after that. Until does not wait for a renewal
// that goes on.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// IsHeld reports whether the lease lasts for some time yet, on both clocks. It waits for nothing.
func (l *Lease) IsHeld(spare time.Duration) bool {
	at := l.leases.clocks()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && at.now.Add(spare).Before(l.until) && at.wall.Add(spare).Before(l.wall)
}

// Data returns what the owner keeps in the lease.
func (l *Lease) Data() json.RawMessage {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	return l.state.Data
}

// Update is Renew, and replaces what the owner keeps in the lease, which is a JSON text of some
// hundred bytes. Others see it, and whoever takes the lease over keeps it.
func (l *Lease) Update(ctx context.Context, data json.RawMessage) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	return l.change(ctx, func(next *state) { next.Data = data })
}

// Remove removes what is known about the lease, in place of Release. It is for leases with
// Options.Floor. After ErrLost, somebody else has the lease.
func (l *Lease) Remove(ctx context.Context) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	l.set(clocks{}, true)
	err := l.leases.docs.Remove(ctx, l.leases.key(l.name), l.version)
	if isConflict(err) || errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("lease %q: %w", l.name, ErrLost)
	}
	return err
}

// Create takes a lease that nobody can have had. The error is a [*HeldError] if there is one.
func (s *Leases) Create(ctx context.Context, name string, data json.RawMessage) (*Lease, error) {
	l, err := s.take(ctx, name, "", state{Data: data})
	if isConflict(err) {
		return nil, &HeldError{Name: name}
	}
	return l, err
}

// Sight is a lease as it was when it was looked at.
type Sight struct {
	Name, Owner string
	Fence       uint64
	// Left is how long it cannot be taken at least; 0 if it can.
	Left time.Duration
	// Free says that its last owner has released it.
	Free bool
	// Deaths is how many owners have not released it; that of a lease that can be taken
	// counts.
	Deaths int
	Data   json.RawMessage
}

// Look looks at a lease, which begins to count how long it is not renewed. The error is
// store.ErrNotFound if there is none.
func (s *Leases) Look(ctx context.Context, name string) (Sight, error) {
	d, err := s.docs.Get(ctx, s.key(name))
	if err != nil {
		return Sight{}, err
	}
	return s.See(d)
}

// See is Look with the document of a lease, as it was read just now.
func (s *Leases) See(d store.Document) (Sight, error) {
	is, err := read(d)
	if err != nil {
		return Sight{}, err
	}
	at := Sight{Name: d.Name, Owner: is.Owner, Fence: is.Fence, Free: is.Free, Deaths: is.Deaths, Data: is.Data}
	if at.Left = s.left(d.Name, d.Version, &is); at.Left == 0 && !is.Free {
		at.Deaths++
	}
	return at, nil
}

// DataOf returns what the owner keeps in the lease with a document, at which it does not look.
func DataOf(d store.Document) (json.RawMessage, error) {
	if d.Version == "" {
		return nil, store.ErrNotFound
	}
	is, err := read(d)
	return is.Data, err
}

// Discard removes a lease that nobody has. The error is a [*HeldError] if somebody has it.
func (s *Leases) Discard(ctx context.Context, name string) error {
	d, err := s.docs.Get(ctx, s.key(name))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if at, err := s.See(d); err == nil && at.Left > 0 {
		return &HeldError{name, at.Owner, at.Left}
	}
	return s.docs.Remove(ctx, s.key(name), d.Version)
}

// Unsee forgets what was seen of leases other than those with some names.
func (s *Leases) Unsee(but func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.seen {
		if !but(name) {
			delete(s.seen, name)
		}
	}
}
