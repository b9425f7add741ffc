package shadow

import "sync"

// Slots limit the shadows in a process: each holds the memory of a whole instance while parked.
// Slots are shared by owners, which are principals or sessions: an owner with some slots gets more
// only as long as at least as many as the owner would then have are free. So a single owner leaves
// half of the slots to others, two leave a quarter, and so on. A nil *Slots has no limit. Slots are
// safe for concurrent use.
type Slots struct {
	mu    sync.Mutex // a leaf
	most  int
	taken int
	by    map[any]int // owners with slots
}

// NewSlots makes Slots for at most most shadows.
func NewSlots(most int) *Slots { return &Slots{most: most, by: map[any]int{}} }

// SetMost changes the limit. Existing shadows stay.
func (s *Slots) SetMost(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// enter takes n slots for an owner, any comparable value, or none if the owner cannot have n, and
// reports which.
func (s *Slots) enter(owner any, n int) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.most - s.taken - n
	if had := s.by[owner]; free < 0 || had > 0 && had+n > free {
		return false
	}
	s.taken += n
	s.by[owner] += n
	return true
}

func (s *Slots) leave(owner any, n int) {
	if s == nil || n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
	if s.by[owner] -= n; s.by[owner] == 0 {
		delete(s.by, owner)
	}
}

// Taken returns the number of existing shadows.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
