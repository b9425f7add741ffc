package stateless

import (
	"errors"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// errEnded means: the current subscription has ended by itself, and the end has not been handled
// yet.
var errEnded = errors.New("the current subscription has ended")

// open opens a subscription with the wanted filter, and hands the previous subscription over after
// the acknowledgement. Without anything wanted, open only ends the previous subscription. If the
// server refuses the subscription, open determines the refused resources, and does without them.
func (l *Link) open() error {
	s := &l.subscriptions
	var held []string // resources left out for the moment
	for {
		asked, err := l.openWithout(held)
		var bad *wire.RPCError
		switch {
		case err == nil && held == nil:
			return nil
		case err == nil:
			held = nil // the other resources are no longer suspected
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

// suspects returns the resources that may be the reason for the refusal of a filter: the resources
// that the server has not accepted before.
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

// refusal returns the error of a refused resource; nil for other resources.
func (s *subscriptions) refusal(uri string) *wire.RPCError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[uri]
}

// fail records the lack of a subscription. If the server refuses even a subscription without
// resources, the resources are not the reason.
func (s *subscriptions) fail(asked filter, err error) {
	s.mu.Lock()
	version := s.version
	if len(asked.uris) == 0 {
		clear(s.refused)
	}
	s.mu.Unlock()
	s.settle(outcome{version, filter{}, err})
}

// openWithout is open without some resources, and returns the requested filter. A subscription with
// an equal filter stays: messages may be missed between subscriptions. The outcome is recorded only
// if nothing is held back.
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
