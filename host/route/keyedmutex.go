package route

import (
	"context"
	"sync"
)

// turns lets one at a time work on each thing. The zero value is ready.
type turns[K comparable] struct {
	mu sync.Mutex
	of map[K]*turn
}

type turn struct {
	taken chan struct{} // holds a token while somebody has the turn
	users int           // who have it or wait for it; guarded by turns.mu
}

// take waits for the turn. The error is the cause of ctx when that ends first.
func (t *turns[K]) take(ctx context.Context, k K) (release func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[K]*turn{}
	}
	mine, ok := t.of[k]
	if !ok {
		mine = &turn{taken: make(chan struct{}, 1)}
		t.of[k] = mine
	}
	mine.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.of, k)
		}
	}
	select {
	case mine.taken <- struct{}{}:
		return func() { <-mine.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// maxLine is how much may be under way in a line.
const maxLine = 64

// line does things one after another, while those who add them go on; only
// when maxLine are under way, adding waits.
type line struct {
	places chan struct{}

	mu     sync.Mutex // guards what follows
	last   chan struct{}
	closed bool
}

func newLine() *line { return &line{places: make(chan struct{}, maxLine)} }

// add has f done when all that was added before is. It does nothing when the
// line is closed, or ctx ends while the line is full.
func (l *line) add(ctx context.Context, f func()) {
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		<-l.places
		return
	}
	before, mine := l.last, make(chan struct{})
	l.last = mine
	go func() { // close waits for the last one, and each for the one before
		defer close(mine)
		if before != nil {
			<-before
		}
		f()
		<-l.places
	}()
}

// close waits until all that was added is done; nothing is added any more.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	last := l.last
	l.mu.Unlock()
	if last != nil {
		<-last
	}
}
