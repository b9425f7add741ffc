package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Held is a session that this replica has. It is safe for concurrent use.
type Held struct {
	sessions *Sessions
	name     string
	term     uint64
	token    bearer.Digest
	current  func() (state, calls []byte, ok bool)

	attempted atomic.Bool   // something may have been written
	lost      chan struct{} // closed when the session is not this replica's any more

	saving       sync.Mutex // held during calls of the store; guards what follows
	version      store.Version
	callsVersion store.Version
	saved        []byte // the state in the store
	savedCalls   []byte

	mu      sync.Mutex // a leaf; guards what follows
	isLost  bool
	removed bool
	last    *final
}

// final is what is saved of a session that has ended here, but not for its client.
type final struct{ state, calls []byte }

// Term is how many owners the session has had.
func (h *Held) Term() uint64 { return h.term }

// Lost is closed when another replica has the session, or has ended it.
func (h *Held) Lost() <-chan struct{} { return h.lost }

// Saved reports whether another replica could go on with the session.
func (h *Held) Saved() bool {
	h.saving.Lock()
	defer h.saving.Unlock()
	return h.version != ""
}

// Touch says that the session may have changed. It is saved in the background.
func (h *Held) Touch() {
	s := h.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch(h)
}

// touch is Touch for a caller that holds s.mu.
func (s *Sessions) touch(h *Held) {
	s.dirty[h] = true
	select {
	case s.kick <- struct{}{}:
	default: // it holds a token already
	}
}

// Save saves the session as it is now. If the store does not answer, or ctx ends, it is saved in
// the background later, and the error says so. The error is ErrLost if the session is not this
// replica's any more.
func (h *Held) Save(ctx context.Context) error {
	if h.sessions.opts.Away() {
		h.Touch()
		return store.ErrUnavailable
	}
	err := h.sync(ctx)
	if err != nil && !errors.Is(err, ErrLost) {
		h.Touch()
	}
	return err
}

// Remove ends the session everywhere. Find does not find it any more; the store is told now,
// or in the background if it does not answer.
func (h *Held) Remove(ctx context.Context) {
	h.mu.Lock()
	gone := h.isLost
	h.removed = !gone
	h.mu.Unlock()
	if gone {
		return
	}
	if !h.attempted.Load() { // during an outage, those that ended must not pile up
		h.lose()
		return
	}
	if h.sessions.opts.Away() || h.sync(ctx) != nil {
		h.Touch()
	}
}

// Leave says that the session ends in this replica, but not for its client: it is saved as it is
// now, so that another one can go on with it. The caller may end it when Leave has returned.
func (h *Held) Leave() {
	state, called, ok := h.current()
	h.mu.Lock()
	if ok && !h.isLost && h.last == nil {
		h.last = &final{state, called}
	}
	h.mu.Unlock()
	h.Touch()
}

// Release is Leave, and lets others take the session at once.
func (h *Held) Release(ctx context.Context) error {
	h.Leave()
	h.saving.Lock()
	defer h.saving.Unlock()
	if err := h.syncLocked(ctx); err != nil {
		return err
	}
	if err := h.put(ctx, document{Term: h.term, Token: h.token.String(), State: h.saved}); err != nil {
		return err
	}
	h.lose()
	return nil
}

func (h *Held) isRemoved() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.removed
}

// lose notes that the session is not this replica's any more.
func (h *Held) lose() {
	h.mu.Lock()
	first := !h.isLost
	h.isLost = true
	if first {
		close(h.lost)
	}
	h.mu.Unlock()
	s := h.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[h.name] == h {
		delete(s.held, h.name)
	}
	delete(s.dirty, h)
}

// sync makes the store have what there is now.
func (h *Held) sync(ctx context.Context) error {
	h.saving.Lock()
	defer h.saving.Unlock()
	return h.syncLocked(ctx)
}

// syncLocked is sync for a caller that holds h.saving.
func (h *Held) syncLocked(ctx context.Context) error {
	h.mu.Lock()
	lost, removed, last := h.isLost, h.removed, h.last
	h.mu.Unlock()
	switch {
	case lost:
		return h.sessions.lostError(h.name)
	case removed:
		return h.remove(ctx)
	}
	var state, called []byte
	ok := last != nil
	if ok {
		state, called = last.state, last.calls
	} else if state, called, ok = h.current(); !ok {
		return nil
	}
	if !bytes.Equal(state, h.saved) || h.version == "" {
		if err := h.write(ctx, state); err != nil {
			return err
		}
		h.saved = state
	}
	if len(called) > 0 && !bytes.Equal(called, h.savedCalls) {
		return h.writeCalls(ctx, called)
	}
	return nil
}

// write replaces the document by one of this owner. The caller holds h.saving.
func (h *Held) write(ctx context.Context, state []byte) error {
	return h.put(ctx, document{Owner: h.sessions.opts.Self, Term: h.term, Token: h.token.String(), State: state})
}

// put replaces the document. The error is ErrLost if it is not this owner's any more, or a
// [*store.ConflictError] if it never was.
func (h *Held) put(ctx context.Context, next document) error {
	h.attempted.Store(true)
	next.Writing = store.NewID()
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	s := h.sessions
	for {
		v, err := s.opts.Store.Put(ctx, key(h.name), h.version, data)
		if err == nil {
			h.version = v
			return nil
		}
		if !isConflict(err) && !errors.Is(err, store.ErrUnknown) {
			return err
		}
		d, getErr := s.opts.Store.Get(ctx, key(h.name))
		switch {
		case errors.Is(getErr, store.ErrNotFound) && h.version == "", getErr == nil && d.Version == h.version:
			if ctx.Err() != nil {
				return err
			}
			continue // it is not there yet
		case errors.Is(getErr, store.ErrNotFound):
			return h.taken(err)
		case getErr != nil:
			return getErr
		}
		is, _, readErr := read(d)
		switch {
		case readErr != nil:
			return readErr
		case is.Writing == next.Writing:
			h.version = d.Version
			return nil
		case is.Owner != s.opts.Self || is.Term != h.term:
			return h.taken(err)
		}
		h.version = d.Version // a form of ours, of which we did not know, or one with another key
	}
}

// taken returns the error for a document that is somebody else's.
func (h *Held) taken(err error) error {
	s := h.sessions
	if s.holder(h.name) != h {
		return &store.ConflictError{What: "session " + h.name[:8]}
	}
	h.lose()
	return errors.Join(s.lostError(h.name), err)
}

// writeCalls replaces the document with what was called. Nobody else writes it but an owner that
// does not know yet that it was replaced, whose calls may be added late.
func (h *Held) writeCalls(ctx context.Context, called []byte) error {
	data, err := json.Marshal(calls{Term: h.term, Calls: called})
	if err != nil {
		return err
	}
	docs := h.sessions.opts.Store
	for {
		v, err := docs.Put(ctx, callsKey(h.name), h.callsVersion, data)
		if err == nil {
			h.callsVersion, h.savedCalls = v, called
			return nil
		}
		if !isConflict(err) && !errors.Is(err, store.ErrUnknown) || ctx.Err() != nil {
			return err
		}
		d, err := docs.Get(ctx, callsKey(h.name))
		var is calls
		switch {
		case errors.Is(err, store.ErrNotFound):
			h.callsVersion = ""
			continue
		case err != nil:
			return err
		case json.Unmarshal(d.Data, &is) == nil && is.Term > h.term:
			return h.sessions.lostError(h.name)
		}
		h.callsVersion = d.Version
	}
}

// remove removes the documents of a session that has ended. The caller holds h.saving.
func (h *Held) remove(ctx context.Context) error {
	s := h.sessions
	if h.version == "" && h.saved == nil {
		// It was never saved, as far as is known.
		if d, err := s.opts.Store.Get(ctx, key(h.name)); err == nil {
			h.version = d.Version
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	if h.version != "" {
		if err := s.Remove(ctx, &Found{name: h.name, version: h.version}); err != nil {
			return err
		}
	}
	h.lose()
	return nil
}

// How often sessions that have changed are saved, how many at a time, and how long it may take.
const (
	saveEvery    = time.Second
	saveParallel = 8
	saveTime     = 5 * time.Second
)

// save saves what has changed, until ctx ends.
func (s *Sessions) save(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		}
		if !s.opts.Away() {
			s.saveAll(ctx)
		}
		if !wait(ctx, saveEvery) {
			return
		}
	}
}

// saveAll saves all sessions that have changed. Those that cannot be saved are tried again later.
func (s *Sessions) saveAll(ctx context.Context) {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = map[*Held]bool{}
	s.mu.Unlock()
	var saving sync.WaitGroup
	room := make(chan struct{}, saveParallel)
	for h := range dirty {
		room <- struct{}{}
		saving.Go(func() {
			defer func() { <-room }()
			attempt, cancel := context.WithTimeout(ctx, saveTime)
			defer cancel()
			if err := h.sync(attempt); err != nil && !errors.Is(err, ErrLost) {
				s.opts.Log.Debug("a session is not saved yet", "err", err)
				h.Touch()
			}
		})
	}
	saving.Wait()
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
