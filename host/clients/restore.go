package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// kept is the state of a session for the process that continues the session.
type kept struct {
	// ID is the ID of the route.Session.
	ID string `json:"id"`
	// Params are the params of initialize, and Revision is the negotiated revision.
	Params   json.RawMessage `json:"params"`
	Revision string          `json:"revision"`
	route.Kept
}

// Restorer is a Backend with sessions that can continue in another process.
type Restorer interface {
	// Keep and Restore are the methods of route.Router. Restore takes the place of BeginSession.
	Keep(s route.Session) (k route.Kept, called policy.Counts, ok bool)
	Restore(s route.Session, k route.Kept, called policy.Counts)
}

// Keep returns the session's state as JSON for the process that continues the session, and the
// counts of the session's calls, nil without calls. ok is false if the session has not begun or has
// ended, or if the backend is no Restorer.
func (s *Session) Keep() (state, calls []byte, ok bool) {
	backend, can := s.opts.Backend.(Restorer)
	if !can {
		return nil, nil, false
	}
	s.mu.Lock()
	k := kept{ID: s.id, Params: s.params}
	revision := s.revision
	s.mu.Unlock()
	if revision.IsZero() {
		return nil, nil, false
	}
	k.Revision = revision.String()
	var called policy.Counts
	if k.Kept, called, ok = backend.Keep(s); !ok {
		return nil, nil, false
	}
	state, err := json.Marshal(k)
	if err == nil && called.Total > 0 {
		calls, err = json.Marshal(called)
	}
	if err != nil {
		s.opts.Log.Error("a session cannot be kept", "err", err)
	}
	return state, calls, err == nil
}

// Restore makes a new Session continue a session of another process, in place of initialize; state
// and calls are the results of Keep in the other process. Restore tells the client that lists may
// have changed. No other method may be called before Restore.
func (s *Session) Restore(state, calls []byte) error {
	backend, can := s.opts.Backend.(Restorer)
	if !can {
		return errors.New("sessions cannot move to this process")
	}
	var k kept
	if err := json.Unmarshal(state, &k); err != nil {
		return fmt.Errorf("the state of a session: %w", err)
	}
	var called policy.Counts
	if len(calls) > 0 {
		if err := json.Unmarshal(calls, &called); err != nil {
			return fmt.Errorf("session %s: the counts of calls: %w", k.ID, err)
		}
	}
	revision, known := protocol.Handshake.Lookup(k.Revision)
	if !known {
		return fmt.Errorf("session %s: this version does not know revision %.40q", k.ID, k.Revision)
	}
	s.mu.Lock()
	s.id, s.params, s.revision = k.ID, k.Params, revision
	s.handshake, s.begun = handshakeDone, true
	s.conn.SetBatches(revision.Has(protocol.Batches))
	s.mu.Unlock()
	backend.Restore(s, k.Kept, called)
	return nil
}

// persist saves the session, if Options.Persist is set, after a request that has changed the result
// of Keep.
func (s *Session) persist(ctx context.Context, method string) {
	if s.opts.Persist == nil {
		return
	}
	switch method {
	case protocol.MethodSetLevel, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe, protocol.MethodInitialize:
		s.opts.Persist(ctx)
	}
}
