package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// sighting is what is known of a session in the store.
type sighting struct {
	owner   string
	version store.Version
	lost    time.Time // when its owner was found to be lost, on our clock; zero if it is not
}

// watch follows the changes of sessions until ctx ends.
func (s *Sessions) watch(ctx context.Context) {
	for said := false; ctx.Err() == nil; wait(ctx, time.Second) {
		err := s.watchOnce(ctx)
		if err != nil && ctx.Err() == nil && !said && !errors.Is(err, store.ErrUnavailable) {
			s.opts.Log.Warn("the sessions of the fleet cannot be watched", "err", err)
			said = true
		}
	}
}

func (s *Sessions) watchOnce(ctx context.Context) error {
	there, ready := map[string]bool{}, false
	for c, err := range s.opts.Store.Watch(ctx, Collection) {
		switch {
		case err != nil:
			return err
		case c.Ready:
			ready = true
			s.forget(ctx, there)
		case c.Version == "":
			s.changed(ctx, c.Name, nil)
		default:
			if !ready {
				there[c.Name] = true
			}
			is, _, err := read(c.Document)
			if err != nil {
				s.opts.Log.Debug("a session of another version, or a wrong one", "err", err)
				continue
			}
			s.changed(ctx, c.Name, &sighting{owner: is.Owner, version: c.Version})
		}
	}
	return nil
}

// changed notes the form of a session's document, nil if it was removed.
func (s *Sessions) changed(ctx context.Context, name string, now *sighting) {
	s.mu.Lock()
	if now == nil {
		delete(s.known, name)
	} else {
		s.known[name] = now
	}
	h := s.held[name]
	s.mu.Unlock()
	if h != nil && (now == nil || now.owner != s.opts.Self) {
		h.check(ctx)
	}
}

// forget forgets the sessions that are not in the store any more.
func (s *Sessions) forget(ctx context.Context, there map[string]bool) {
	var gone []*Held
	s.mu.Lock()
	for name := range s.known {
		if !there[name] {
			delete(s.known, name)
			if h := s.held[name]; h != nil {
				gone = append(gone, h)
			}
		}
	}
	s.mu.Unlock()
	for _, h := range gone {
		h.check(ctx)
	}
}

// check finds out whether the session is still that of this replica. The watch may be behind
// what this replica has written itself.
func (h *Held) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	h.saving.Lock()
	defer h.saving.Unlock()
	if h.version == "" { // it is not in the store yet
		return
	}
	d, err := h.sessions.opts.Store.Get(ctx, key(h.name))
	switch {
	case errors.Is(err, store.ErrNotFound):
		h.lose()
	case err != nil:
		h.Touch() // saving finds out
	default:
		if is, _, err := read(d); err == nil && (is.Owner != h.sessions.opts.Self || is.Term != h.term) {
			h.lose()
		}
	}
}

// sweep removes the sessions of lost replicas that nobody has taken over in time, until ctx
// ends. The time is counted from when this replica has found it out.
func (s *Sessions) sweep(ctx context.Context) {
	for wait(ctx, min(max(s.opts.TTL/10, time.Second), time.Minute)) {
		if s.opts.Away() {
			continue
		}
		for name, version := range s.expired(time.Now(), s.lostOwners()) {
			attempt, cancel := context.WithTimeout(ctx, saveTime)
			if err := s.opts.Store.Remove(attempt, key(name), version); err == nil {
				s.dropCalls(attempt, name)
			} else {
				s.opts.Log.Debug("a session that nobody needs stays in the store", "err", err)
			}
			cancel()
		}
	}
}

// lostOwners returns the owners of sessions that are lost.
func (s *Sessions) lostOwners() map[string]bool {
	owners := map[string]bool{}
	s.mu.Lock()
	for _, k := range s.known {
		owners[k.owner] = false
	}
	s.mu.Unlock()
	for id := range owners { // without the lock
		owners[id] = id == "" || id != s.opts.Self && s.opts.Lost(id)
	}
	return owners
}

// expired returns the sessions that are to be removed.
func (s *Sessions) expired(now time.Time, lost map[string]bool) map[string]store.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := map[string]store.Version{}
	for name, k := range s.known {
		ended := k.owner == s.opts.Self && s.held[name] == nil // but it was not removed
		switch {
		case !ended && !lost[k.owner]:
			k.lost = time.Time{}
		case k.lost.IsZero():
			k.lost = now
		case now.Sub(k.lost) > s.opts.TTL:
			gone[name] = k.version
		}
	}
	return gone
}
