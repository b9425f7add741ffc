package budget

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// chunk is by how many bytes most Accounts grow and shrink.
const chunk = 64 << 10

// Account is a frequently changing number of bytes in a Budget, for example the messages that wait
// for a client. An Account takes bytes in chunks, so small changes cost little, and never waits: a
// lack of bytes is an error.
//
// The methods are safe for concurrent use. A nil Account counts nothing.
type Account struct {
	hold  *Hold
	what  string // the counted bytes, for errors: "messages that this client has not read"
	free  int64  // counted elsewhere by the owner
	chunk int64  // step of growth and shrinkage

	used, room atomic.Int64 // room is free plus the bytes taken from the budget

	mu     sync.Mutex // held while room changes
	closed bool
	beyond atomic.Int64 // part of room above the budget
}

// OpenUnread returns an Account of the messages unread by a client. The first free bytes are
// counted elsewhere. One Account at a time may exceed the budget by one message: every answer can
// be sent.
func (b *Budget) OpenUnread(key any, free int64) *Account {
	return b.openAccount(key, unread, "messages that this client has not read", free)
}

// OpenSession returns an Account of a session.
func (b *Budget) OpenSession(key any) *Account {
	return b.openAccount(key, session, "sessions of this client", 0)
}

// OpenList returns an Account of the lists of a server.
func (b *Budget) OpenList(key any) *Account {
	return b.openAccount(key, list, "lists of this server", 0)
}

// OpenKept returns an Account of a thing kept for an owner beyond the request, for example a call
// that waits for the client. Such accounts are numerous, so each takes exactly the needed bytes.
// what names all of them, for errors.
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

// FullError means that an owner cannot get more bytes.
type FullError struct {
	What string // name of the bytes
	// Bytes is the number of bytes including the refused ones, Share the owner's current maximum,
	// and Most the maximum of all owners.
	Bytes, Share, Most int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("no memory: the %s would be %s, above the current share of %s, of %s for all together",
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

// LimitName returns the name of the reached limit; see package limits.
func (e *FullError) LimitName() string { return "total_memory" }

// Add adds n bytes. The error is a *FullError; then nothing was added.
func (a *Account) Add(n int) error {
	if a == nil || a.used.Add(int64(n)) <= a.room.Load() {
		return nil
	}
	return a.extend(int64(n))
}

// extend takes the bytes needed for n more bytes, or undoes the addition.
func (a *Account) extend(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	short := a.used.Load() - a.room.Load()
	if short <= 0 { // another goroutine has taken enough
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

// Force adds n bytes even above the budget. Force is for a few small additions.
func (a *Account) Force(n int) {
	if a != nil && a.Add(n) != nil {
		a.used.Add(int64(n))
	}
}

// Set sets the Account to n bytes. Set must not run concurrently with other changes of the Account.
// The error is a *FullError; then the Account keeps the previous number.
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

// shrink returns unneeded bytes, except for a chunk.
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

// Close returns all bytes. Later additions are not counted. Close may be called twice.
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

// within ends an excess begun by exceed.
func (b *Budget) within(a *Account, n int64) {
	b.mu.Lock()
	defer b.unlock()
	b.beyond = nil
	b.used -= n
	a.room.Add(-n)
	a.beyond.Store(0)
	b.serve()
}

// full returns the error for bytes of h above the budget.
func (b *Budget) full(h *Hold, what string, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.ceiling(h)
	group, _ := h.shares()
	share := (most - b.against(h) + group) / (leftFactor + 1) * leftFactor
	return &FullError{What: what, Bytes: bytes, Share: max(share, 0), Most: max(most, 0)}
}
