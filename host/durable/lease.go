package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
)

// The collections of documents. A lease has the name of its run, and so has a document in
// cancels, which says that somebody has asked for the end of that run.
const (
	leases  = "run-leases"
	cancels = "run-cancels"
)

// held is what the owner of a run keeps in its lease.
type held struct {
	// Record is the id of the last record that the journal has of the run.
	Record string `json:"record"`
	Guest  string `json:"guest,omitempty"`
	// Used is how long the run had taken when the lease was renewed.
	Used time.Duration `json:"used,omitempty"`
	// Events is how many events the log had at least.
	Events uint64 `json:"events,omitempty"`
	// Account is the principal of the client, and Bytes is what the log had.
	Account string `json:"account,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	// At is when the lease was renewed by the clock of the owner: for people only.
	At time.Time `json:"at,omitzero"`
}

func readHeld(data json.RawMessage) (h held) {
	_ = json.Unmarshal(data, &h) // of a process that has died before it wrote that
	return h
}

func (h held) bytes() json.RawMessage {
	data, _ := json.Marshal(h) // never fails
	return data
}

// newLeases returns the leases of the runs in a Store.
func (s *Runs) newLeases() *lease.Leases {
	return lease.New(s.opts.Store, lease.Options{
		NewOwner: s.opts.Owner, TTL: s.opts.TTL, Now: s.opts.Now, Wall: s.opts.Wall, Collection: leases,
		Alive: s.opts.Alive, Floor: s.lastFence,
	})
}

// lastFence returns the fencing number of a log whose lease somebody has removed.
func (s *Runs) lastFence(ctx context.Context, id string) (number uint64, err error) {
	open := false
	for e, err := range s.opts.Store.Read(ctx, id, store.Position{}) {
		if err != nil {
			return 0, err
		}
		open, number = true, max(number, e.Position.Fence)
	}
	if !open {
		return 0, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return number, nil
}

// takeLease takes the lease of a run from an owner who has it no more.
func (s *Runs) takeLease(ctx context.Context, id string) (*lease.Lease, error) {
	l, err := s.leases.Take(ctx, id)
	return l, heldError(id, err)
}

// heldError adds ErrHeld to an error that says that an owner has the lease.
func heldError(id string, err error) error {
	var held *lease.HeldError
	if errors.As(err, &held) {
		return fmt.Errorf("run %s: %w: %w", id, ErrHeld, held)
	}
	return err
}

// spare is the part of a lease that its owner does not use: the time between his last look at
// it and the sending of a call.
func (s *Runs) spare() time.Duration { return s.opts.TTL / 5 }

// Permitted returns an error that is ErrLost if the run is not, or perhaps not, that of this
// process any more. It is asked just before a call is sent. It only looks at the clocks.
func (r *Run) Permitted() error {
	if r == nil {
		return nil
	}
	if err := r.lost(); err != nil {
		return err
	}
	if !r.lease.IsHeld(r.runs.spare()) {
		r.lose(errLate)
		return r.lost()
	}
	return nil
}

// errLate says that a call was about to be sent too late.
var errLate = errors.New("its lease ended before the call was sent")

// lost returns an error that is ErrLost if this process must leave the run.
func (r *Run) lost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.ended, ErrLost) {
		return fmt.Errorf("run %s: %w", r.id, ErrLost)
	}
	return nil
}

// await returns when the lease lasts for a while yet. While the store is away, it cannot be
// renewed, but nobody can take it either.
func (r *Run) await(ctx context.Context) error {
	for !r.lease.IsHeld(r.runs.spare()) {
		if err := r.lost(); err != nil {
			return err
		}
		if err := r.renew(ctx); err != nil && !r.runs.opts.pause(ctx) {
			r.lose(err)
			return fmt.Errorf("run %s: its lease cannot be renewed: %w", r.id, err)
		}
	}
	return r.lost()
}

// renew renews the lease, and ends the run if somebody has cancelled it or it is lost.
func (r *Run) renew(ctx context.Context) error {
	s := r.runs
	r.mu.Lock()
	is := r.held
	r.mu.Unlock()
	is.Used, is.Events, is.Bytes, is.At = r.Used(), r.flushed.Load(), r.bytes.Load(), s.opts.Wall().UTC().Round(time.Second)
	r.renewing.Lock()
	if r.over {
		r.renewing.Unlock()
		return nil
	}
	err := r.lease.Update(ctx, is.bytes())
	if err == nil {
		r.look(ctx)
	}
	r.renewing.Unlock()
	if errors.Is(err, lease.ErrLost) {
		r.lose(nil)
	}
	if err != nil {
		return err
	}
	cancelled, err := s.IsCancelled(ctx, r.id)
	if cancelled {
		r.end(ErrCancelRequested)
	}
	return err
}

// stopRenewing waits until nothing changes the lease any more.
func (r *Run) stopRenewing() {
	r.stopKeeping()
	r.renewing.Lock()
	defer r.renewing.Unlock()
	r.over = true
}

// Cancel asks for the end of an open run. Whoever is at it, or takes it, ends it and makes
// its compensations. The error is ErrNotFound if there is no such run.
func (s *Runs) Cancel(ctx context.Context, id string) error {
	if open, err := s.IsOpen(ctx, id); err != nil || !open {
		return cmp.Or(err, fmt.Errorf("run %s: %w", id, ErrNotFound))
	}
	_, err := s.opts.Store.Put(ctx, store.Key{Collection: cancels, Name: id}, "", []byte("{}"))
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		err = nil // somebody else has asked for it
	}
	s.mu.Lock()
	r := s.ours[id]
	s.mu.Unlock()
	if r != nil && err == nil {
		r.end(ErrCancelRequested)
	}
	return err
}

// IsCancelled reports whether somebody has asked for the end of an open run.
func (s *Runs) IsCancelled(ctx context.Context, id string) (bool, error) {
	_, err := s.opts.Store.Get(ctx, store.Key{Collection: cancels, Name: id})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *Runs) removeCancel(ctx context.Context, id string) error {
	key := store.Key{Collection: cancels, Name: id}
	doc, err := s.opts.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.opts.Store.Remove(ctx, key, doc.Version)
}
