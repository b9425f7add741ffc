package shadow

import "sync"

// Slots limit how many shadows there may be in a process: each holds the memory of a whole
// instance while it is parked. A nil *Slots has no limit.
type Slots struct {
	mu    sync.Mutex // a leaf
	most  int
	taken int
}

// NewSlots makes Slots for that many shadows.
func NewSlots(most int) *Slots { return &Slots{most: most} }

// SetMost changes how many there may be. Shadows that exist stay.
func (s *Slots) SetMost(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// enter takes n slots, or none if there are fewer, and reports which.
func (s *Slots) enter(n int) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken+n > s.most {
		return false
	}
	s.taken += n
	return true
}

func (s *Slots) leave(n int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
}

// Taken returns how many shadows there are.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
