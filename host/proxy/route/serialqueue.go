package route

import (
	"context"
	"sync"
)

// maxQueued is how many functions a serialQueue holds before add waits.
const maxQueued = 64

// serialQueue runs functions one after another, in the order of add, on goroutines for which close
// waits.
type serialQueue struct {
	slots chan struct{}

	mu     sync.Mutex    // guards the fields below
	last   chan struct{} // closed when the function added last is done; nil: none
	closed bool
}

func newSerialQueue() *serialQueue { return &serialQueue{slots: make(chan struct{}, maxQueued)} }

// add queues f, and waits while the queue is full. If the queue is closed or ctx ends first, add
// drops f and returns false.
func (q *serialQueue) add(ctx context.Context, f func()) bool {
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		<-q.slots
		return false
	}
	before, done := q.last, make(chan struct{})
	q.last = done
	go func() { // close waits for the last goroutine, and each goroutine waits for the goroutine before
		defer close(done)
		if before != nil {
			<-before
		}
		f()
		<-q.slots
	}()
	return true
}

// close waits until all added functions are done. Nothing can be added afterwards.
func (q *serialQueue) close() {
	q.mu.Lock()
	q.closed = true
	last := q.last
	q.mu.Unlock()
	if last != nil {
		<-last
	}
}
