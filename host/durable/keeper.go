package durable

import (
	"context"
	"maps"
	"slices"
	"time"
)

// keep renews the lease of a run until ctx ends.
func (r *Run) keep(ctx context.Context) {
	ttl := r.runs.opts.TTL
	ticker := time.NewTicker(ttl / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done(): // if the process ends, what is left of the lease is enough for that
			return
		case <-ticker.C:
		}
		attempt, cancel := context.WithTimeout(ctx, ttl)
		err := r.renew(attempt)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.runs.opts.Log.Warn("the lease of a durable run was not renewed", "run", r.id, "err", err)
		}
	}
}

// Renew renews the leases of this process, and ends the runs that somebody has cancelled or
// that are lost.
func (s *Runs) Renew(ctx context.Context) {
	s.mu.Lock()
	ours := slices.Collect(maps.Values(s.ours))
	s.mu.Unlock()
	for _, r := range ours {
		_ = r.renew(ctx) // the next time
	}
}

// pause waits a little before the Store is asked again, and returns false if ctx has ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
