// Package memorytest has a store in memory for tests of fleets in one process whose subject is not
// where a store keeps things. It notices at once when a test cuts a link to it, and can be in a
// bubble of testing/synctest.
//
//	memorytest.go  links, and what they lead to
//	memory.go      the store
package memorytest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Link is a way to the memory, for any number of stores.
type Link struct {
	at  *memory
	cut bool // at.mu
}

// memory is what the stores share.
type memory struct {
	mu      sync.Mutex
	changed chan struct{} // is closed when anything changes
	logs    map[string]*log
	docs    map[store.Key]store.Document
	blobs   map[store.Digest][]byte
	forms   int // how many there were of all documents
	lost    bool
	bound   int      // of the logs that do not last, in bytes; 0: none
	written []string // the logs of their events, oldest first
	size    int      // of these events
}

type log struct {
	removed int // events that are gone
	events  []store.Event
	fence   uint64
}

// New returns a link to a new memory.
func New(t testing.TB) *Link {
	t.Helper()
	return &Link{at: &memory{
		changed: make(chan struct{}), logs: map[string]*log{}, docs: map[store.Key]store.Document{}, blobs: map[store.Digest][]byte{},
	}}
}

// Another returns another link to the same memory.
func (l *Link) Another(t testing.TB) *Link {
	t.Helper()
	return &Link{at: l.at}
}

// Cut cuts the link, or heals it. While it is cut, calls fail at once, and each reader that follows a log or
// watches documents waits.
func (l *Link) Cut(cut bool) {
	l.at.mu.Lock()
	defer l.at.mu.Unlock()
	l.cut = cut
	l.at.tell()
}

// Bound bounds the logs that do not last together, in bytes: for more, their oldest events are
// removed, as NATS does.
func (l *Link) Bound(bytes int) {
	l.at.mu.Lock()
	defer l.at.mu.Unlock()
	l.at.bound = bytes
}

// Remove removes the first n events of a log, or with all of them the log, as an operator of NATS can.
func (l *Link) Remove(name string, n int) {
	l.at.mu.Lock()
	defer l.at.mu.Unlock()
	defer l.at.tell()
	if at := l.at.logs[name]; at != nil && n < len(at.events) {
		at.drop(n)
	} else {
		delete(l.at.logs, name)
	}
}

// Lose loses everything, and what it was kept in, as NATS can. Every call fails until that is made
// again.
func (l *Link) Lose() {
	l.at.mu.Lock()
	defer l.at.mu.Unlock()
	m := l.at
	m.lost, m.logs, m.docs, m.blobs, m.written, m.size = true, map[string]*log{}, map[store.Key]store.Document{}, map[store.Digest][]byte{}, nil, 0
	m.tell()
}

// MakeAgain makes what things are kept in again.
func (l *Link) MakeAgain() {
	l.at.mu.Lock()
	defer l.at.mu.Unlock()
	l.at.lost = false
	l.at.tell()
}

// tell tells everybody that something has changed. mu is held.
func (m *memory) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// errCut is why a store is not available.
var errCut = fmt.Errorf("%w: the link to it is cut", store.ErrUnavailable)

// errLost is why a store is not available that was lost.
var errLost = fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrMissing)

// Open opens a store of a process. It waits until the link is not cut, or ctx ends, and fails at once
// if everything was lost. The caller must Close it.
func (l *Link) Open(ctx context.Context) (*Store, error) {
	for {
		l.at.mu.Lock()
		cut, lost, changed := l.cut, l.at.lost, l.at.changed
		l.at.mu.Unlock()
		if lost {
			return nil, errLost
		}
		if !cut {
			return &Store{link: l, closed: make(chan struct{})}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errCut, context.Cause(ctx))
		}
	}
}

// MustOpen is Open for a test, which closes the store when it ends.
func (l *Link) MustOpen(t testing.TB) *Store {
	t.Helper()
	s, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
