package route

import (
	"context"
	"sync"
)

// maxQueued is how many functions a serialQueue holds before add waits.
const maxQueued = 64

// serialQueue runs functions one after another, in the order in which they were
// added, on goroutines that close waits for.
type serialQueue struct {
	slots chan struct{}

	mu     sync.Mutex    // guards what follows
	last   chan struct{} // closed when the function added last is done; nil: none
	closed bool
}

func newSerialQueue() *serialQueue { return &serialQueue{slots: make(chan struct{}, maxQueued)} }

// add queues f. It waits while the queue is full. It drops f and returns false if the queue is
// closed or ctx ends first.
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
	go func() { // close waits for the last one, and each waits for the one before
		defer close(done)
		if before != nil {
			<-before
		}
		f()
		<-q.slots
	}()
	return true
}

// close waits until everything that was added is done. Nothing can be added after
// that.
func (q *serialQueue) close() {
	q.mu.Lock()
	q.closed = true
	last := q.last
	q.mu.Unlock()
	if last != nil {
		<-last
	}
}
