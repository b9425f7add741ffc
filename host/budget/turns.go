package budget

import (
	"context"
	"slices"
	"sync"
)

// Turns limits how much work on the host is done at the same time, such as searching a
// catalog or reading the journal. Owners take turns: of those that wait, the one with the
// fewest turns at present is next, and among equals the one that has waited longest. No
// owner has all turns while there are several. The keys of owners are comparable; a
// Member counts for its group.
//
// A Turns is safe for concurrent use. A nil Turns has no limit.
type Turns struct {
	most int

	mu      sync.Mutex // a leaf
	taken   int
	of      map[any]int // turns that are taken, by owner
	waiting []*turn     // in order of arrival
}

// turn is a turn that somebody waits for.
type turn struct {
	owner any
	ready chan struct{} // closed when it is taken
}

// NewTurns returns Turns of which most are taken at the same time.
func NewTurns(most int) *Turns { return &Turns{most: max(most, 1), of: map[any]int{}} }

// Take waits for a turn of an owner, or until ctx ends, with its cause as the error. The
// caller must call done after the work, and must not take another turn before that.
func (t *Turns) Take(ctx context.Context, key any) (done func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	if m, ok := key.(Member); ok && m.Group != nil {
		key = m.Group
	}
	w := &turn{owner: key, ready: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.serve()
	t.mu.Unlock()
	done = func() { t.leave(key) }
	select {
	case <-w.ready:
		return done, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it was taken at the same time
		done()
	}
	return nil, context.Cause(ctx)
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

// serve gives turns to those that wait. The caller holds t.mu.
func (t *Turns) serve() {
	for t.taken < t.most {
		next := -1
		for i, w := range t.waiting {
			if t.most > 1 && t.of[w.owner] == t.most-1 { // the last one is for another owner
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
