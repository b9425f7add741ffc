package front

import (
	"bytes"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Changed implements route.Session. A client that has neither finished its
// handshake nor read the list does not know any list that could have changed.
func (s *Session) Changed(surface wire.Surface, notice []byte) {
	s.mu.Lock()
	tell := s.handshake == handshakeDone || s.listed[surface]
	if surface == wire.Templates { // which have no notification of their own
		surface = wire.Resources
	}
	if tell {
		if before, due := s.changes[surface]; due && !bytes.Equal(before, notice) {
			notice = nil
		}
		s.changes[surface] = notice
	}
	s.mu.Unlock()
	if !tell {
		return
	}
	select {
	case s.hasChanges <- struct{}{}:
	default: // it holds a token already
	}
}

// noteListed notes that the client reads a list, if method does that. It is called
// before the list is made, so that no change can be missed in between.
func (s *Session) noteListed(method string) {
	for _, surface := range wire.Surfaces {
		if method == surface.ListMethod() {
			s.mu.Lock()
			s.listed[surface] = true
			s.mu.Unlock()
		}
	}
}

// notifyChanges sends notifications that lists have changed, until the session
// ends. Changes that come while one is sent become one notification.
func (s *Session) notifyChanges() {
	for {
		select {
		case <-s.hasChanges:
		case <-s.conn.Context().Done():
			return
		}
		s.mu.Lock()
		changes := s.changes
		s.changes = map[wire.Surface][]byte{}
		s.mu.Unlock()
		for _, surface := range wire.Surfaces {
			if notice, due := changes[surface]; due {
				s.Notify(surface.ChangedMethod(), notice)
			}
		}
	}
}
