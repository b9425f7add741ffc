package route

import (
	"context"
	"sync"
)

// keyedMutex is a mutex for each key; the wait for a key ends with a context. The zero value is
// ready to use.
type keyedMutex[K comparable] struct {
	mu    sync.Mutex
	locks map[K]*keyLock
}

// keyLock is the mutex of a key.
type keyLock struct {
	held  chan struct{} // holds a token while the key is locked
	users int           // holder and waiters; guarded by keyedMutex.mu
}

// lock locks a key. If ctx ends first, the error is the cause of ctx.
func (m *keyedMutex[K]) lock(ctx context.Context, k K) (unlock func(), err error) {
	m.mu.Lock()
	if m.locks == nil {
		m.locks = map[K]*keyLock{}
	}
	l, ok := m.locks[k]
	if !ok {
		l = &keyLock{held: make(chan struct{}, 1)}
		m.locks[k] = l
	}
	l.users++
	m.mu.Unlock()
	forget := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, k)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
}
