package budget

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// chunk is by how many bytes most Accounts grow and shrink.
const chunk = 64 << 10

// Account is the bytes that something has in a Budget whose number changes often, such as
// the messages that wait for one client. It takes them in chunks, so that small changes
// cost little, and never waits: if there are no more, it says so.
//
// Its methods are safe for concurrent use. A nil Account counts nothing.
type Account struct {
	hold  *Hold
	what  string // what it counts, for errors: "messages that this client has not read"
	free  int64  // that its owner has counted elsewhere
	chunk int64  // by how many bytes it grows and shrinks

	used, room atomic.Int64 // room is free and what was taken from the budget

	mu     sync.Mutex // held while room changes
	closed bool
	beyond atomic.Int64 // the part of room that exceeds the budget
}

// OpenUnread returns an Account of the messages that a client has not read. The first free
// bytes of them are counted elsewhere. So that every answer can be sent, one Account at a
// time may exceed the budget, with one message.
func (b *Budget) OpenUnread(key any, free int64) *Account {
	return b.openAccount(key, unread, "messages that this client has not read", free)
}

// OpenSession returns an Account of a session.
func (b *Budget) OpenSession(key any) *Account {
	return b.openAccount(key, session, "sessions of this client", 0)
}

// OpenList returns an Account of what a server lists.
func (b *Budget) OpenList(key any) *Account {
	return b.openAccount(key, list, "lists of this server", 0)
}

// OpenKept returns an Account of one thing that is kept for an owner beyond the request that it
// came with, such as a call that waits for its client. There may be many, so each takes
// exactly what it needs. what names all of them, for errors.
func (b *Budget) OpenKept(key any, what string) *Account {
	a := b.openAccount(key, kept, what, 0)
	if a != nil {
		a.chunk = 1
	}
	return a
}

// OpenSaved returns an Account of saved tools.
func (b *Budget) OpenSaved(key any) *Account {
	return b.openAccount(key, savedTool, "saved tools", 0)
}

func (b *Budget) openAccount(key any, k kind, what string, free int64) *Account {
	if b == nil {
		return nil
	}
	a := &Account{hold: &Hold{kind: k}, what: what, free: free, chunk: chunk}
	a.room.Store(free)
	b.open(a.hold, key)
	return a
}

// FullError says that there is no room for more bytes of an owner.
type FullError struct {
	What string // what they are
	// Bytes is how many there would be, Share how many the owner can have at present, and
	// Most how many all owners can have.
	Bytes, Share, Most int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("no memory: the %s would be %s, more than its share of %s at present, of %s for all together",
		e.What, about(e.Bytes), about(e.Share), about(e.Most))
}

// about returns a size for people, with two digits at least.
func about(n int64) string {
	for _, unit := range []int64{1 << 20, 1 << 10} {
		if n >= 10*unit {
			n -= n % unit
		}
	}
	return units.FormatSize(uint64(n))
}

// LimitName returns the name of the limit that was reached; see package limits.
func (e *FullError) LimitName() string { return "total_memory" }

// Add adds n bytes. The error is a *FullError; then nothing was added.
func (a *Account) Add(n int) error {
	if a == nil || a.used.Add(int64(n)) <= a.room.Load() {
		return nil
	}
	return a.extend(int64(n))
}

// extend takes what is needed for n bytes that were added, or takes them away again.
func (a *Account) extend(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	short := a.used.Load() - a.room.Load()
	if short <= 0 { // what another goroutine has taken is enough
		return nil
	}
	for _, bytes := range []int64{(short + a.chunk - 1) / a.chunk * a.chunk, short} {
		if a.hold.TryAcquire(bytes) {
			a.room.Add(bytes)
			return nil
		}
	}
	if a.hold.budget.exceed(a, short) {
		return nil
	}
	used := a.used.Add(-n)
	return a.hold.budget.full(a.hold, a.what, used+n)
}

// Force adds n bytes even if there are no more. It is for few and small ones.
func (a *Account) Force(n int) {
	if a != nil && a.Add(n) != nil {
		a.used.Add(int64(n))
	}
}

// Set makes it n bytes. It must not be called at the same time as others that change it. The error is a *FullError; then it is as many as before.
func (a *Account) Set(n int64) error {
	if a == nil {
		return nil
	}
	if used := a.used.Load(); used <= n {
		return a.Add(int(n - used))
	} else {
		a.Sub(int(used - n))
	}
	return nil
}

// Sub takes n bytes away.
func (a *Account) Sub(n int) {
	if a == nil || n == 0 {
		return
	}
	if used := a.used.Add(int64(-n)); a.room.Load()-used > 2*a.chunk || a.beyond.Load() > 0 {
		a.shrink()
	}
}

// shrink returns what is no longer needed, except for a chunk.
func (a *Account) shrink() {
	a.mu.Lock()
	defer a.mu.Unlock()
	room := a.room.Load()
	if beyond := a.beyond.Load(); beyond > 0 && a.used.Load() <= room-beyond {
		a.hold.budget.within(a, beyond)
		room -= beyond
	}
	keep := max(a.free, (a.used.Load()+2*a.chunk-1)/a.chunk*a.chunk)
	if surplus := room - a.beyond.Load() - keep; surplus > 0 {
		a.room.Add(-surplus)
		a.hold.Release(surplus)
	}
}

// Used returns the number of bytes.
func (a *Account) Used() int64 {
	if a == nil {
		return 0
	}
	return a.used.Load()
}

// Close returns all bytes. What is added later is not counted. It may be called twice.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if beyond := a.beyond.Load(); beyond > 0 {
		a.hold.budget.within(a, beyond)
	}
	a.hold.Close()
}

// exceed lets a have n bytes beyond the budget, if no other Account does.
func (b *Budget) exceed(a *Account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.hold.kind != unread || b.beyond != nil || n > b.mostOfMessages() {
		return false
	}
	b.beyond = a
	b.used += n
	b.peak = max(b.peak, b.used)
	a.beyond.Store(n)
	a.room.Add(n)
	return true
}

// within ends what exceed has begun.
func (b *Budget) within(a *Account, n int64) {
	b.mu.Lock()
	defer b.unlock()
	b.beyond = nil
	b.used -= n
	a.room.Add(-n)
	a.beyond.Store(0)
	b.serve()
}

// full returns the error for bytes of h that do not fit.
func (b *Budget) full(h *Hold, what string, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.ceiling(h)
	group, _ := h.shares()
	share := (most - b.against(h) + group) / (leftFactor + 1) * leftFactor
	return &FullError{What: what, Bytes: bytes, Share: max(share, 0), Most: max(most, 0)}
}
