package fleet

import "time"

// unknownFor is for how many TTLs a replica without a document may still come: a process that
// was started while the store was away has none yet, and its calls wait for the store for
// 30 seconds.
const unknownFor = 3

// maxNoted bounds what is noted of replicas that are not there.
const maxNoted = 1000

// Ended reports whether a replica has ended for good, as far as can be known. Of one that has no
// document in the store, that is so if it had one, or if it still has none when the store could be
// used from here for three TTLs since Ended was called first for it: until then it can be a
// process that was started while the store was away from it. id must be one that a process of
// this fleet has had.
func (f *Fleet) Ended(id string) bool {
	if f.Replica(id).State != Gone {
		return false
	}
	if f == nil {
		return true
	}
	g, now := f.registry, time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed[id] {
		return true
	}
	since, ok := g.wanted[id]
	if !ok {
		if len(g.wanted) >= maxNoted {
			clear(g.wanted)
		}
		g.wanted[id], since = now, now
	}
	if since.Before(g.proven) {
		since = g.proven
	}
	return !g.proven.IsZero() && g.proof.Sub(since) >= unknownFor*f.opts.TTL
}
