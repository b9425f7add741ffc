package stateless

import (
	"slices"
	"time"
)

// maxReplaced is how many subscriptions in a row may end by themselves during the handover and
// count as missed. Beyond maxReplaced, the server is assumed to keep only the newest subscription.
// If each end counted, watchers that begin anew, which changes the filter, would make the server
// end the next subscription, and so on without an end.
const maxReplaced = 2

// handOver hands a subscription over to the replacing subscription; nil: nothing. The old
// subscription continues for a while. If the old subscription ends by itself in this time, the
// server may have ended the old subscription before opening the new one, and messages in between
// may have reached neither.
func (l *Link) handOver(before *subscription) {
	s := &l.subscriptions
	l.endHandOver(false)
	switch current := s.now(); {
	case before == nil:
	case current == nil: // nothing is wanted any longer
		l.stop(before)
	default:
		before.over = time.NewTimer(l.opts.Timings.Handover)
		s.setOld(before)
	}
}

// endsOfOld returns channels that are ready when the old subscription has to be ended, and when the
// old subscription has ended by itself; nil without an old subscription.
func (s *subscriptions) endsOfOld() (<-chan time.Time, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.old == nil {
		return nil, nil
	}
	return s.old.over.C, s.old.ended
}

// setOld sets the old subscription, and returns the previous old subscription.
func (s *subscriptions) setOld(to *subscription) (was *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, s.old = s.old, to
	return was
}

// dropOld ends the old subscription, if any. Messages missed by the old subscription do not matter.
func (l *Link) dropOld() {
	if old := l.subscriptions.setOld(nil); old != nil {
		old.over.Stop()
		l.stop(old)
	}
}

// endHandOver ends the old subscription, if any. If the old subscription has ended by itself,
// messages may have been missed. full means that the handover has taken the whole time.
func (l *Link) endHandOver(full bool) {
	s := &l.subscriptions
	s.mu.Lock()
	old := s.old
	s.mu.Unlock()
	switch {
	case old == nil:
	case !old.hasEnded():
		if full {
			s.mu.Lock()
			s.replaced, old.lasted = 0, true
			s.mu.Unlock()
		}
	case s.replaced < maxReplaced:
		s.replaced++
		s.miss(old)
	default:
		l.opts.Log.Debug("the server ends each replaced subscription", "err", old.err)
	}
	l.dropOld()
}

// endedLate notes that the server has answered a subscription after we had ended the subscription.
// A server may have a single state for all subscriptions of a connection, for example a server of
// the Go SDK 1.8. Then the end of a subscription, whenever the server handles the end, also ends
// the notifications that a newer subscription has asked for. The answer to a cancelled subscription
// shows when the server has handled the end. A server that ends a subscription because another
// subscription begins does so before the time of handing over is up.
func (s *subscriptions) endedLate(was *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-was.gone:
		return
	default:
	}
	close(was.gone)
	s.alone = s.alone || was.lasted
	if s.alone && s.current != nil && s.current != was {
		s.renew = true
		s.signal()
	}
}

// endFirst ends the current subscription, and waits until the server has ended the subscription
// too. Changes missed until the next acknowledgement are reported then.
func (l *Link) endFirst(was *subscription) {
	s := &l.subscriptions
	l.dropOld()
	s.mu.Lock()
	s.current = nil
	s.missLocked(was)
	s.mu.Unlock()
	l.stop(was)
	late := time.NewTimer(l.opts.Timings.Ended)
	defer late.Stop()
	select {
	case <-was.gone:
	case <-late.C:
	case <-l.Done():
	case <-l.ctx.Done():
	}
}

// miss notes that messages may have been missed after the end of a subscription: miss ends the
// watching of tasks that relied on the subscription, and notes the subscription's lists and
// resources for reportUnwatched.
func (s *subscriptions) miss(was *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missLocked(was)
	s.missed = max(s.missed, was.version)
	s.breakLocked()
}

// missLocked is miss without the tasks, for a caller that holds s.mu.
func (s *subscriptions) missLocked(was *subscription) {
	for _, surface := range was.honoured.surfaces {
		if !slices.Contains(s.unlistened, surface) {
			s.unlistened = append(s.unlistened, surface)
		}
	}
	for _, uri := range was.honoured.uris {
		if !slices.Contains(s.unwatched, uri) {
			s.unwatched = append(s.unwatched, uri)
		}
	}
}

// breakLocked tells waiting goroutines that missed or renewed has changed. The caller holds s.mu.
func (s *subscriptions) breakLocked() {
	close(s.broken)
	s.broken = make(chan struct{})
}

// missing reports whether the watcher of a task since a version may have missed messages, and
// returns renewed. The channel is closed when either may have changed.
func (s *subscriptions) missing(since uint64) (missed bool, renewed int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed >= since, s.renewed, s.broken
}

// reportUnwatched reports the lists and resources that were not watched for a while, once they are
// watched again: a client that then reads a list or resource misses no later change.
func (l *Link) reportUnwatched() {
	s := &l.subscriptions
	s.mu.Lock()
	now := s.current
	if now == nil {
		s.mu.Unlock()
		return
	}
	surfaces, uris := s.unlistened, s.unwatched
	s.unlistened, s.unwatched = nil, nil
	s.mu.Unlock()
	if len(surfaces) > 0 && l.opts.Changed != nil {
		l.opts.Changed(surfaces)
	}
	for _, uri := range uris {
		if l.opts.Updated != nil && slices.Contains(now.honoured.uris, uri) {
			l.opts.Updated(uri)
		}
	}
}
