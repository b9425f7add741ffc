package jetstream

import "time"

// noAnswer says why a connection could not be made, and when that was logged.
type noAnswer struct {
	err  error
	told time.Time
}

// tellEvery is how often the log says that no connection can be made.
const tellEvery = 30 * time.Second

// noConnection notes why a connection could not be made. It is called for one attempt after the
// other.
func (s *Store) noConnection(err error) {
	now := noAnswer{err, time.Now()}
	if last := s.refused.Load(); last != nil && time.Since(last.told) < tellEvery {
		now.told = last.told
	} else {
		s.log.Warn("no connection with NATS (it is tried again)", "err", err)
	}
	s.refused.Store(&now)
}

// silence is how long streams may be silent before another server is tried: longer than
// the servers need to agree on another leader.
func (o *Options) silence() time.Duration { return max(2*o.Attempt, 10*time.Second) }

// heard notes whether a stream has answered. A server that is cut off from the others keeps
// its connections with clients, but none of its streams has a leader that answers. So the store
// leaves it for another one after a while.
func (s *Store) heard(answer bool) {
	if s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	since := s.silent
	leave := false
	switch {
	case answer:
		s.silent = time.Time{}
	case since.IsZero():
		s.silent = time.Now()
	case time.Since(since) > s.opts.silence():
		leave = true
		s.silent = time.Now()
	}
	s.mu.Unlock()
	if !leave || len(s.nc.Servers()) < 2 || !s.nc.IsConnected() {
		return
	}
	s.log.Warn("the streams do not answer; another NATS server is tried", "server", s.nc.ConnectedUrlRedacted(),
		"for", time.Since(since).Round(time.Millisecond))
	_ = s.nc.ForceReconnect() // fails only if the Store is closed
}
