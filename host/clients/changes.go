package clients

import (
	"bytes"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Changed implements route.Session. A client before the end of the handshake, and a client without
// a read list, cannot know a changed list.
func (s *Session) Changed(surface wire.Surface, notice []byte) {
	s.mu.Lock()
	announce := s.handshake == handshakeDone || s.listed[surface]
	if surface == wire.Templates { // templates have no notification of their own
		surface = wire.Resources
	}
	if announce {
		if before, due := s.changes[surface]; due && !bytes.Equal(before, notice) {
			notice = nil
		}
		s.changes[surface] = notice
	}
	s.mu.Unlock()
	if !announce {
		return
	}
	select {
	case s.hasChanges <- struct{}{}:
	default: // changed already holds a token
	}
}

// noteListed records that the client reads a list, if method lists something. The caller calls
// noteListed before making the list, so that no change in between is missed.
func (s *Session) noteListed(method string) {
	for _, surface := range wire.Surfaces {
		if method == surface.ListMethod() {
			s.mu.Lock()
			s.listed[surface] = true
			s.mu.Unlock()
		}
	}
}

// notifyChanges sends notifications of changed lists until the session ends. Changes during the
// sending of a notification become a single notification.
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
