package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
)

// Open is a run that has not ended.
type Open struct {
	ID    string
	State *State // nil if its log cannot be read
	Err   error  // why it cannot
	Owner string // of its lease
	// Held says that the owner is at it, as far as is known: it has not been seen for long
	// enough that the lease is not renewed. Otherwise it can be taken.
	Held bool
	// Left is how long it cannot be taken at least.
	Left time.Duration
	// Renewed is when the owner has renewed its lease, by its own clock: for people only.
	Renewed time.Time
	// Deaths is how many processes have died while they were at it.
	Deaths int
	// Cancelled says that somebody has asked for its end.
	Cancelled bool
}

// List returns the open runs, oldest first.
func (s *Runs) List(ctx context.Context) ([]Open, error) {
	var ids []string
	for d, err := range s.opts.Store.Leases(ctx) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, d.Name)
	}
	slices.Sort(ids) // they begin with the time
	var all []Open
	for _, id := range ids {
		o, err := s.Look(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound): // it has just ended, or not begun
		case err != nil:
			return nil, err
		default:
			all = append(all, o)
		}
	}
	return all, nil
}

// Look returns an open run. The error is ErrNotFound if there is none. A nil Runs has none.
func (s *Runs) Look(ctx context.Context, id string) (Open, error) {
	o := Open{ID: id}
	if s == nil || store.CheckLog(id) != nil {
		return o, ErrNotFound
	}
	at, err := s.leases.Look(ctx, id)
	missing := errors.Is(err, store.ErrNotFound)
	if err != nil && !missing {
		return o, err
	}
	is := readHeld(at.Data)
	var last store.Position
	o.State, last, o.Err = s.read(ctx, id)
	switch {
	case errors.Is(o.Err, ErrNotFound) && is.Events == 0:
		if !missing && at.Left == 0 {
			s.sweep(ctx, id)
		}
		return o, o.Err
	case errors.Is(o.Err, ErrNotFound), o.Err == nil && last.Number < is.Events:
		o.State, o.Err = nil, fmt.Errorf("run %s: %w", id, ErrCut)
	case o.Err != nil && ctx.Err() != nil:
		return o, o.Err
	}
	o.Owner, o.Left, o.Held, o.Deaths, o.Renewed = at.Owner, at.Left, at.Left > 0, at.Deaths, is.At
	if at.Free {
		o.Owner = ""
	}
	if o.State != nil {
		o.State.Used = max(o.State.Used, is.Used)
	}
	o.Cancelled, err = s.IsCancelled(ctx, id)
	return o, err
}

// sweep removes the lease of a run that never began. It takes the run first: if its process begins
// it just now, that fails, and if it has begun, which was read as it was before, it is left alone.
func (s *Runs) sweep(ctx context.Context, id string) {
	r, _, err := s.Take(ctx, id)
	switch {
	case err == nil:
		_ = r.Leave(ctx) // whoever looks next goes on with it
	case errors.Is(err, ErrNotFound): // its lease is removed
		_ = errors.Join(s.opts.Store.Drop(ctx, id), s.removeCancel(ctx, id))
	}
}

// Discard removes an open run that cannot be read. The error is ErrHeld if a process is at it.
func (s *Runs) Discard(ctx context.Context, id string) error {
	if err := s.leases.Discard(ctx, id); err != nil {
		return heldError(id, err)
	}
	return errors.Join(s.opts.Store.Drop(ctx, id), s.removeCancel(ctx, id))
}

// Free yields the ids of the open runs that this process can take now, oldest first. What it
// has seen of the leases of others counts for the next time, if that comes before long: while
// the Store is away, their owners cannot renew them either.
func (s *Runs) Free(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		docs := map[string]store.Document{}
		for d, err := range s.opts.Store.Leases(ctx) {
			if err != nil {
				yield("", err)
				return
			}
			docs[d.Name] = d
		}
		s.count(docs)
		away := s.wasAway()
		s.leases.Unsee(func(id string) bool { return !away && docs[id].Name != "" })
		for _, id := range slices.Sorted(maps.Keys(docs)) { // they begin with the time
			at, err := s.see(docs[id])
			if err == nil && at.Left > 0 {
				continue
			}
			if !yield(id, nil) {
				return
			}
		}
	}
}

// wasAway reports whether the leases were not looked at for a while.
func (s *Runs) wasAway() bool {
	now := s.opts.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.listed
	s.listed = now
	return now.Sub(last) > s.opts.TTL/2
}

// IsOpen reports whether there is an open run with that id. A nil Runs has none.
func (s *Runs) IsOpen(ctx context.Context, id string) (bool, error) {
	if s == nil || store.CheckLog(id) != nil {
		return false, nil
	}
	for _, err := range s.opts.Store.Read(ctx, id, store.Position{}) {
		return err == nil, err
	}
	return false, nil
}

// OpenAs returns the id of the open run whose first record in the journal has one of the ids,
// or whose last one; false if there is none. The error is ErrLogGone if it will have no end. A nil Runs
// has none.
func (s *Runs) OpenAs(ctx context.Context, records ...string) (string, bool, error) {
	if s == nil {
		return "", false, nil
	}
	for d, err := range s.opts.Store.Leases(ctx) {
		if err != nil {
			return "", false, err
		}
		at, err := s.see(d)
		if err != nil {
			continue // it can be no other
		}
		if slices.Contains(records, d.Name) || slices.Contains(records, readHeld(at.Data).Record) {
			open, err := s.IsOpen(ctx, d.Name)
			if errors.Is(err, store.ErrGone) || err == nil && !open {
				var o Open
				if o, err = s.Look(ctx, d.Name); errors.Is(err, ErrNotFound) {
					continue
				}
				open, err = true, cmp.Or(err, o.Fate())
			}
			if err != nil || open {
				return d.Name, open, err
			}
		}
	}
	return "", false, nil
}

// see returns what a lease says; of one that is not there, only the name.
func (s *Runs) see(d store.Document) (lease.Sight, error) {
	if d.Version == "" {
		return lease.Sight{Name: d.Name}, nil
	}
	return s.leases.See(d)
}
