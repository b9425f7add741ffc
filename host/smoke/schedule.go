package smoke

import (
	"slices"
	"sync"
)

// schedule gives checks to workers: in the order of the files, but each only after the end of the
// checks that have to run before.
type schedule struct {
	mu      sync.Mutex // guards the fields below
	changed sync.Cond  // a check has ended
	waiting []*checkRun
	over    map[*checkRun]bool
}

func newSchedule(files []*fileRun) *schedule {
	s := &schedule{over: map[*checkRun]bool{}}
	s.changed.L = &s.mu
	for _, f := range files {
		s.waiting = append(s.waiting, f.checks...)
	}
	return s
}

// next returns the next check to run, after waiting if necessary, and nil at the end. The caller
// must call ended for the check.
func (s *schedule) next() *checkRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 {
		if at := slices.IndexFunc(s.waiting, s.ready); at >= 0 {
			c := s.waiting[at]
			s.waiting = slices.Delete(s.waiting, at, at+1)
			return c
		}
		s.changed.Wait() // a running check comes before the first waiting check
	}
	return nil
}

// ready reports whether a check can run. The caller holds s.mu.
func (s *schedule) ready(c *checkRun) bool {
	return !slices.ContainsFunc(c.after, func(before *checkRun) bool { return !s.over[before] })
}

// ended marks a check as run.
func (s *schedule) ended(c *checkRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[c] = true
	s.changed.Broadcast()
}
