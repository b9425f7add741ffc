package streamable

import (
	"context"
	"errors"
	"net/netip"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/sessions"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Causes of the end of sessions that continue elsewhere, or were not begun.
var (
	errMoved = errors.New("the session goes on in another replica")
	errTaken = errors.New("another request or replica has taken the session over")
)

// persist is front.Options.Persist.
func (s *session) persist(ctx context.Context) {
	if s.held == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	err := s.held.Save(ctx)
	if err != nil && !s.held.Saved() {
		s.log().Warn("the session cannot go on in another replica until the store of the fleet answers", "err", err)
	}
}

// touch has the session saved in the background if a request has changed the session.
func (s *session) touch() {
	if s.held != nil {
		s.held.Touch()
	}
}

// takeOver moves a session of another replica to this replica. The caller must call leave. The
// error is errTaken if another replica was faster.
func (h *Handler) takeOver(v *visit) (*session, error) {
	release, err := h.lockTaking(v.r.Context(), v.id)
	if err != nil {
		return nil, err
	}
	defer release()
	if s, ok := h.find(v.id, v.token); ok { // another request was faster
		return s, nil
	}
	s, err := h.reserve(v.policy, v.id, v.token, clientAddress(v.r.RemoteAddr))
	if err != nil {
		return nil, err
	}
	err = s.restore(v)
	h.mu.Lock()
	if err == nil && (h.closed || h.ctx.Err() != nil || !h.policy.Load().accepts(v.token)) {
		err = errClosing
	}
	if err == nil {
		h.sessions[s.id] = s
	}
	h.mu.Unlock()
	if err != nil {
		s.mcp.End(err)
		s.giveBack()
	}
	s.serving.Done()
	close(s.begun)
	if err != nil {
		h.leave(s)
		<-s.ended
		return nil, err
	}
	s.log().Info("a session of another replica goes on here", "from", v.found.Owner)
	return s, nil
}

// giveBack lets other replicas take a session that this replica has taken, but cannot continue.
func (s *session) giveBack() {
	held := s.held
	if s.held = nil; held == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	if err := held.Release(ctx); err != nil {
		s.log().Warn("a session is not given back", "err", err)
	}
}

// lockTaking lets only one request at a time take over a session.
func (h *Handler) lockTaking(ctx context.Context, id string) (release func(), err error) {
	for {
		h.mu.Lock()
		other := h.taking[id]
		if other == nil {
			mine := make(chan struct{})
			h.taking[id] = mine
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				delete(h.taking, id)
				close(mine)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// awaitTaken waits until no request takes over a session.
func (h *Handler) awaitTaken(ctx context.Context, id string) {
	h.mu.Lock()
	taking := h.taking[id]
	h.mu.Unlock()
	if taking != nil {
		select {
		case <-taking:
		case <-ctx.Done():
		}
	}
}

// restore takes the session in the store, and continues the session.
func (s *session) restore(v *visit) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), findTime)
	defer cancel()
	held, calls, err := s.handler.opts.Fleet.Sessions.Take(ctx, v.found, s.mcp.Keep)
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict), errors.Is(err, sessions.ErrLost):
		return errTaken
	case err != nil:
		return err
	}
	s.held = held
	s.term = held.Term()
	s.used.Store(true)
	return s.mcp.Restore(v.found.State, calls)
}

// reserve makes a session that find does not find yet, within the limits on the number of sessions.
// The rate of new sessions does not count: all sessions of a lost replica may come at once.
func (h *Handler) reserve(p *policy, id string, token bearer.Digest, address netip.Prefix) (*session, error) {
	for {
		s, victim, err := h.begin(p, token, address, id)
		if victim == nil {
			return s, err
		}
		victim.mcp.End(errUnused)
		<-victim.ended // takes at most a second
	}
}

// awaitEnd waits until the session has ended, or has moved to another replica and no part of the
// session is in progress here.
func (s *session) awaitEnd() {
	if s.held == nil {
		<-s.mcp.Done()
		return
	}
	select {
	case <-s.mcp.Done():
		return
	case <-s.held.Lost():
	}
	s.handler.remove(s)
	s.main.Finish(rpc.Frame{}) // the client opens the stream again, at the other replica
	served := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(served)
	}()
	select {
	case <-served:
		s.mcp.End(errMoved)
	case <-s.mcp.Done():
	}
}

// settle tells the fleet that the session has ended, or can continue elsewhere.
func (s *session) settle() {
	if s.held == nil {
		return
	}
	if s.handler.ctx.Err() != nil && !errors.Is(s.mcp.Err(), errDeleted) {
		s.held.Leave() // Sessions.Close saves the session
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	s.held.Remove(ctx)
}

// handOver gives a session to the other replicas, if this replica drains and has no request of the
// session in progress. Otherwise handOver returns false.
func (h *Handler) handOver(s *session) bool {
	if s.held == nil || !h.opts.Fleet.Draining() {
		return false
	}
	h.mu.Lock()
	busy := h.sessions[s.id] != s || s.busy()
	if !busy {
		delete(h.sessions, s.id)
	}
	h.mu.Unlock()
	if busy {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	if err := s.held.Release(ctx); err != nil {
		s.log().Info("a session cannot be handed over yet", "err", err)
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.mcp.Err() == nil && !h.closed {
			h.sessions[s.id] = s
		}
		return false
	}
	s.log().Info("a session was handed over, since this replica drains")
	return true
}

// busy reports whether a request of the client is in progress, or the client has not received the
// answer. The caller holds Handler.mu.
func (s *session) busy() bool {
	for _, out := range s.allStreams() {
		if out.id == 0 {
			continue
		}
		if _, unsent := out.size(); unsent || !out.finished() {
			return true
		}
	}
	return false
}
