// Package sessions keeps the HTTP sessions of a fleet's clients as documents in its store, so
// that another replica can go on with one when its own is lost.
//
//	sessions.go  Sessions: finding and taking over
//	held.go      Held: a session that this replica has
//	watch.go     changes by other replicas, and documents that nobody needs any more
//
// # Owners
//
// A session belongs to one replica at a time, whose id is in its document. Whoever takes it over
// replaces the document by compare and swap, so that one of several succeeds, and counts its
// term. The former owner learns of it from the watch, or when it saves the session the next time.
// Until then both can go on with the session, which is harmless: what must happen once is
// somebody else's business.
//
// # What a document gives access to
//
// The name of a document is a digest of the session's id, since names are visible in the store.
// The content is sealed, names the token that began the session, and never the id. Who knows
// an id needs that token, too: see [Found.Token].
package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Collection has a document for each session. CallsCollection has what sessions have called;
// it changes often, and nobody watches it.
const (
	Collection      = "sessions"
	CallsCollection = "session-calls"
)

// Options of Sessions. All must be set.
type Options struct {
	Store store.Store
	// Away reports whether the store does not answer. Then nothing waits for it.
	Away func() bool
	// Self is the id of this replica.
	Self string
	// Lost reports whether a replica has ended, or has not been heard of for long.
	Lost func(replica string) bool
	// TTL is how long a session of a lost replica is kept.
	TTL time.Duration
	Log *slog.Logger
}

// Sessions are the sessions of a fleet. It is safe for concurrent use.
type Sessions struct {
	opts    Options
	stop    context.CancelFunc
	ctx     context.Context
	working sync.WaitGroup
	kick    chan struct{} // of capacity 1: there is something to save

	mu    sync.Mutex // a leaf
	held  map[string]*Held
	dirty map[*Held]bool
	known map[string]*sighting
}

// Open begins to watch the sessions of a fleet. The caller must Close them.
func Open(opts Options) *Sessions {
	s := &Sessions{opts: opts, kick: make(chan struct{}, 1), held: map[string]*Held{}, dirty: map[*Held]bool{}, known: map[string]*sighting{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.working.Go(func() { s.watch(s.ctx) })
	s.working.Go(func() { s.save(s.ctx) })
	s.working.Go(func() { s.sweep(s.ctx) })
	return s
}

// Close saves what has changed, until ctx ends, and ends what Sessions do. Sessions that are
// still held can be taken over by others.
func (s *Sessions) Close(ctx context.Context) {
	s.stop()
	s.working.Wait()
	if !s.opts.Away() {
		s.saveAll(ctx)
	}
}

// document is the content of a session's document.
type document struct {
	Owner string `json:"owner,omitempty"` // id of a replica; "" for none
	Term  uint64 `json:"term"`            // how many owners it has had
	Token string `json:"token"`           // bearer.Digest of the client's token
	// Writing is unlike that of all other forms, so that its writer knows its own again.
	Writing store.ID        `json:"writing"`
	State   json.RawMessage `json:"state"`
}

// calls is the content of the other document of a session.
type calls struct {
	Term  uint64          `json:"term"`
	Calls json.RawMessage `json:"calls"`
}

// nameOf returns the name of a session's documents.
func nameOf(id string) string {
	sum := sha256.Sum256([]byte("mcp-metatool session " + id))
	return hex.EncodeToString(sum[:20])
}

func key(name string) store.Key      { return store.Key{Collection: Collection, Name: name} }
func callsKey(name string) store.Key { return store.Key{Collection: CallsCollection, Name: name} }

// Found is a session in the store.
type Found struct {
	// Token is that of the client that began the session; the zero Digest is that of clients
	// without one. Nobody else may use the session, or learn of it.
	Token bearer.Digest
	// Owner is the id of its replica; "" for none.
	Owner string
	// Term is how many owners the session has had.
	Term uint64
	// State is what its owner has saved.
	State []byte

	id, name string
	version  store.Version
}

// ErrNoSession says that there is no such session.
var ErrNoSession = errors.New("there is no such session")

// Find finds a session by its id. The error is ErrNoSession, or one of the store.
func (s *Sessions) Find(ctx context.Context, id string) (*Found, error) {
	name := nameOf(id)
	if h := s.holder(name); h != nil && h.isRemoved() {
		return nil, ErrNoSession // the store is told later
	}
	if s.opts.Away() {
		return nil, store.ErrUnavailable
	}
	d, err := s.opts.Store.Get(ctx, key(name))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, ErrNoSession
	case err != nil:
		return nil, err
	}
	is, token, err := read(d)
	if err != nil {
		return nil, err
	}
	return &Found{Token: token, Owner: is.Owner, Term: is.Term, State: is.State, id: id, name: name, version: d.Version}, nil
}

// Owner returns the id of the replica that has a session, as far as this one has been told; ""
// if it has not. It asks nobody.
func (s *Sessions) Owner(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[nameOf(id)]; k != nil {
		return k.owner
	}
	return ""
}

func read(d store.Document) (is document, token bearer.Digest, err error) {
	if err := json.Unmarshal(d.Data, &is); err != nil {
		return is, token, &store.CorruptError{What: "session " + d.Name, Reason: "its document is wrong"}
	}
	raw, err := hex.DecodeString(is.Token)
	if err != nil || len(raw) != len(token) {
		return is, token, &store.CorruptError{What: "session " + d.Name, Reason: "its document names no token"}
	}
	return is, bearer.Digest(raw), nil
}

// Create makes a session known to the fleet, and returns it held by this replica. current
// returns what another replica needs to go on with it, and what it has called, as JSON; ok is
// false if there is nothing yet. It must not block. Nothing is written before Save.
func (s *Sessions) Create(id string, token bearer.Digest, current func() (state, calls []byte, ok bool)) *Held {
	h := &Held{sessions: s, name: nameOf(id), term: 1, token: token, current: current, lost: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[h.name] = h
	return h
}

// Take makes a session that was found one of this replica, and returns what it has called, nil
// for nothing. The error is a [*store.ConflictError] if somebody else was faster: find it again.
func (s *Sessions) Take(ctx context.Context, f *Found, current func() (state, calls []byte, ok bool)) (h *Held, called []byte, err error) {
	h = &Held{sessions: s, name: f.name, term: f.Term + 1, token: f.Token, current: current, lost: make(chan struct{}), version: f.version}
	before, err := s.opts.Store.Get(ctx, callsKey(f.name))
	switch {
	case err == nil:
		var is calls
		if err := json.Unmarshal(before.Data, &is); err != nil {
			return nil, nil, &store.CorruptError{What: "session " + f.name, Reason: "the document with its calls is wrong"}
		}
		h.callsVersion, called = before.Version, is.Calls
	case !errors.Is(err, store.ErrNotFound):
		return nil, nil, err
	}
	h.saved, h.savedCalls = f.State, called
	h.saving.Lock()
	defer h.saving.Unlock()
	if err := h.write(ctx, f.State); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[h.name] = h
	return h, called, nil
}

// Remove removes a session that was found, whoever has it.
func (s *Sessions) Remove(ctx context.Context, f *Found) error {
	for {
		err := s.opts.Store.Remove(ctx, key(f.name), f.version)
		if err == nil {
			s.dropCalls(ctx, f.name)
			return nil
		}
		if !isConflict(err) && !errors.Is(err, store.ErrUnknown) {
			return err
		}
		d, err := s.opts.Store.Get(ctx, key(f.name))
		switch {
		case errors.Is(err, store.ErrNotFound):
			s.dropCalls(ctx, f.name)
			return nil
		case err != nil:
			return err
		}
		f.version = d.Version
	}
}

// dropCalls removes the other document of a session that is not there any more.
func (s *Sessions) dropCalls(ctx context.Context, name string) {
	d, err := s.opts.Store.Get(ctx, callsKey(name))
	if err == nil {
		err = s.opts.Store.Remove(ctx, callsKey(name), d.Version)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.opts.Log.Debug("what a session has called stays in the store", "err", err)
	}
}

// holder returns the session of this replica with that name, nil for none.
func (s *Sessions) holder(name string) *Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name]
}

// Held returns how many sessions this replica has, and how many of them are not saved as they
// are now.
func (s *Sessions) Held() (all, unsaved int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), len(s.dirty)
}

// isConflict reports whether an error says that somebody else has written, and nothing else.
func isConflict(err error) bool {
	return errors.As(err, new(*store.ConflictError)) && !errors.Is(err, store.ErrUnknown)
}

// ErrLost says that another replica has the session now, or that it has ended.
var ErrLost = errors.New("another replica has the session now, or has ended it")

func (s *Sessions) lostError(name string) error { return fmt.Errorf("session %.8s: %w", name, ErrLost) }
