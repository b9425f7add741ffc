package stateless

import (
	"errors"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// errEnded says that the current subscription has ended by itself, and that this has not
// been handled yet.
var errEnded = errors.New("the current subscription has ended")

// open opens a subscription with what is wanted now, and hands the one before over when it
// is acknowledged. Without anything wanted it only ends that one. If the server refuses it,
// open finds out for which resources, and does without them.
func (l *Link) open() error {
	s := &l.subscriptions
	var held []string // resources that are left out for the moment
	for {
		asked, err := l.openWithout(held)
		var bad *wire.RPCError
		switch {
		case err == nil && held == nil:
			return nil
		case err == nil:
			held = nil // those that were not left out are not suspected any more
			continue
		case errors.Is(err, errEnded):
			return err
		case errors.As(err, &bad) && (bad.Code == wire.CodeInvalidParams || bad.Code == protocol.CodeResourceNotFound):
			if suspects := s.suspects(asked); len(suspects) > 1 {
				held = append(held, suspects[len(suspects)/2:]...)
				continue
			} else if len(suspects) == 1 {
				s.refuse(suspects[0], bad)
				continue
			}
		}
		s.fail(asked, err)
		return err
	}
}

// suspects returns the resources of a filter that the server has refused for which it may
// have done that: those that it has not accepted before.
func (s *subscriptions) suspects(asked filter) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(asked.uris), func(uri string) bool {
		return s.current != nil && slices.Contains(s.current.asked.uris, uri)
	})
}

// refuse notes that the server refuses a resource.
func (s *subscriptions) refuse(uri string, bad *wire.RPCError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[uri] = bad
}

// refusal returns why the server refuses a resource; nil if it does not.
func (s *subscriptions) refusal(uri string) *wire.RPCError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[uri]
}

// fail records that there is no subscription. If the server refuses even one without
// resources, they are not the reason.
func (s *subscriptions) fail(asked filter, err error) {
	s.mu.Lock()
	version := s.version
	if len(asked.uris) == 0 {
		clear(s.refused)
	}
	s.mu.Unlock()
	s.settle(outcome{version, filter{}, err})
}

// openWithout is open without some resources, and returns what it has asked for. If there
// is a subscription with an equal filter, it stays: messages may be missed between one and
// the next. The outcome is recorded only if nothing is held back.
func (l *Link) openWithout(held []string) (asked filter, err error) {
	s := &l.subscriptions
	s.mu.Lock()
	asked = s.wanted
	asked.uris = slices.DeleteFunc(slices.Clone(asked.uris), func(uri string) bool {
		return s.refused[uri] != nil || slices.Contains(held, uri)
	})
	before := s.current
	if before != nil && before.hasEnded() {
		s.mu.Unlock()
		return asked, errEnded
	}
	if before != nil && before.asked.equal(asked) && !s.renew {
		before.version = s.version
		s.mu.Unlock()
		if held == nil {
			s.settle(outcome{before.version, before.honoured, nil})
			l.reportUnwatched()
		}
		return asked, nil
	}
	next := &subscription{
		asked: asked, version: s.version,
		acked: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{}), since: time.Now(),
	}
	first := before != nil && s.alone
	s.renew = false
	s.mu.Unlock()
	if first {
		l.endFirst(before)
		before = nil
	}
	if !asked.isEmpty() {
		if err := l.start(next); err != nil {
			return asked, err
		}
	}
	s.mu.Lock()
	s.opening, s.current, s.leaving = nil, next, before
	if asked.isEmpty() {
		s.current = nil
	}
	if first {
		s.renewed++
		s.breakLocked()
	}
	s.mu.Unlock()
	l.handOver(before)
	s.mu.Lock()
	s.leaving = nil
	s.mu.Unlock()
	if held == nil {
		s.settle(outcome{next.version, next.honoured, nil})
		l.reportUnwatched()
	}
	return asked, nil
}
