package budget

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Turns limits concurrent work on the host, for example searches of a catalog or reads of the
// journal. Owners take turns: the waiting owner with the fewest current turns is next, and among
// equals the owner with the longest wait. With a limit above one, no owner has all turns. The keys
// of owners are comparable; a Member counts for its group. A turn has an end, after which the work
// must stop: hanging work does not keep the turn.
//
// A Turns is safe for concurrent use. A nil Turns has no limit.
type Turns struct {
	most    int
	longest time.Duration

	mu      sync.Mutex // a leaf
	taken   int
	of      map[any]int // taken turns, by owner
	waiting []*waiting  // in order of arrival
}

// waiting is a turn in demand.
type waiting struct {
	owner any
	ready chan struct{} // closed when the turn is taken
}

// NewTurns returns Turns of which most are taken at the same time, each for longest.
func NewTurns(most int, longest time.Duration) *Turns {
	return &Turns{most: max(most, 1), longest: longest, of: map[any]int{}}
}

// TurnError is the cause of the end of an overlong turn.
type TurnError struct{ Longest time.Duration }

func (e *TurnError) Error() string {
	return fmt.Sprintf("stopped after %v, because other callers wait for a turn (ask for less at a time)", e.Longest)
}

// Take waits for a turn of an owner, or until ctx ends, with the cause of ctx as the error. The
// caller must do the work with the context turn, which ends with ctx, or with a *TurnError as the
// cause. The caller must call done after the work, and not take another turn before done.
func (t *Turns) Take(ctx context.Context, key any) (turn context.Context, done func(), err error) {
	if t == nil {
		return ctx, func() {}, nil
	}
	if m, ok := key.(Member); ok && m.Group != nil {
		key = m.Group
	}
	w := &waiting{owner: key, ready: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.serve()
	t.mu.Unlock()
	select {
	case <-w.ready:
		turn, cancel := context.WithTimeoutCause(ctx, t.longest, &TurnError{t.longest})
		return turn, sync.OnceFunc(func() { cancel(); t.leave(key) }), nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // the turn was taken at the same time
		t.leave(key)
	}
	return nil, nil, context.Cause(ctx)
}

func (t *Turns) leave(key any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	if t.of[key]--; t.of[key] == 0 {
		delete(t.of, key)
	}
	t.serve()
}

// serve gives turns to waiting owners. The caller holds t.mu.
func (t *Turns) serve() {
	for t.taken < t.most {
		next := -1
		for i, w := range t.waiting {
			if t.most > 1 && t.of[w.owner] == t.most-1 { // the last turn is for another owner
				continue
			}
			if next < 0 || t.of[w.owner] < t.of[t.waiting[next].owner] {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.taken++
		t.of[w.owner]++
		close(w.ready)
	}
}
