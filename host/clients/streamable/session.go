package streamable

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/sessions"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
)

// session is an MCP session over HTTP with its streams.
type session struct {
	handler *Handler
	id      string
	token   bearer.Digest // of the client that began the session
	address netip.Prefix  // of the same client
	mcp     *clients.Session
	held    *sessions.Held  // the fleet's knowledge of the session; nil without a fleet
	term    uint64          // how many replicas have had the session, including this replica
	begun   chan struct{}   // closed when the takeover from another replica has succeeded or failed; nil for new sessions
	main    *stream         // for messages that belong to no request of the client
	memory  *budget.Account // the messages of all streams
	place   *budget.Account // the memory of the session itself
	ended   chan struct{}   // closed when nothing is left of the session

	requests  int            // HTTP requests being served; guarded by Handler.mu
	idleSince time.Time      // when the last of them ended; guarded by Handler.mu
	used      atomic.Bool    // more than the handshake and pings was received
	serving   sync.WaitGroup // HTTP requests that the end of the session waits for

	mu       sync.Mutex
	streams  map[uint64]*stream // of POSTs: open streams, and the streams in finished
	lastID   uint64
	finished []finishedStream // kept for replay, oldest first
}

type finishedStream struct {
	stream *stream
	at     time.Time
}

const (
	// sessionMemory is the memory of a session in the budget, in bytes: about the memory of a
	// session at rest, and sessionMessages.
	sessionMemory = 48 << 10
	// sessionMessages is the part of sessionMemory for messages.
	sessionMessages = 16 << 10
)

// maxFinished bounds the finished streams kept by a session.
const maxFinished = 100

func newSession(h *Handler, id string, token bearer.Digest, address netip.Prefix) *session {
	s := &session{
		handler: h, id: id, token: token, address: address, idleSince: time.Now(),
		ended: make(chan struct{}), streams: map[uint64]*stream{}, term: 1,
	}
	s.main = newStream(s, 0)
	owner := any(s)
	if p := token.Principal(); p != "" {
		owner = budget.Member{Group: p, Of: s}
	}
	s.memory = h.opts.Session.Budget.OpenUnread(owner, sessionMessages)
	opts := h.opts.Session
	opts.Rights = func() *bearer.Rights { return h.policy.Load().rights(token) }
	opts.TokenName = func() string { return h.policy.Load().name(token) }
	opts.Principal = token.Principal()
	if h.opts.Fleet != nil {
		opts.Persist = s.persist
	}
	s.mcp = clients.NewSession(h.ctx, s.main, opts)
	return s
}

// log returns a logger with only the beginning of the session's id: the whole id gives access to
// the session.
func (s *session) log() *slog.Logger { return s.handler.log().With("session", s.id[:6]) }

// openStream makes the stream for the answer to a POST. request is the id of the POST's request,
// nil for a batch.
func (s *session) openStream(request []byte) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	out := newStream(s, s.lastID)
	if s.held != nil && len(request) <= maxNamed {
		out.request = string(request)
	}
	s.streams[out.id] = out
	return out
}

// stream finds a stream by ID.
func (s *session) stream(id uint64) (*stream, bool) {
	if id == 0 {
		return s.main, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, ok := s.streams[id]
	return out, ok
}

// drop removes a stream that will not be resumed.
func (s *session) drop(out *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, out.id)
	out.release()
}

// keep keeps a finished stream for a while, since the client may not have received the stream's
// end.
func (s *session) keep(out *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[out.id] != out {
		return
	}
	s.finished = slices.DeleteFunc(s.finished, func(f finishedStream) bool { return f.stream == out })
	s.finished = append(s.finished, finishedStream{out, time.Now()})
	total := 0
	for i := len(s.finished) - 1; i >= 0; i-- {
		n, unsent := s.finished[i].stream.size()
		total += n
		newest := unsent && i == len(s.finished)-1 // kept at any size, since the client may be waiting for the stream
		if !newest && (total > s.handler.opts.Replay || len(s.finished)-i > maxFinished) {
			s.dropFinished(i + 1)
			return
		}
	}
}

// expireStreams removes streams finished before a time.
func (s *session) expireStreams(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.finished) && s.finished[n].at.Before(before) {
		n++
	}
	s.dropFinished(n)
}

// dropFinished removes the n oldest finished streams. The caller holds s.mu.
func (s *session) dropFinished(n int) {
	for _, f := range s.finished[:n] {
		delete(s.streams, f.stream.id)
		f.stream.release()
	}
	s.finished = slices.Delete(s.finished, 0, n)
}

// trySend sends a request to the client on the main stream. If the client is not connected to the
// main stream, trySend uses the newest stream of a POST. Without such a stream, trySend returns a
// channel that is closed when the client connects.
func (s *session) trySend(f rpc.Frame) (connected <-chan struct{}, sent bool) {
	connected = s.main.awaitClient()
	if connected == nil {
		return nil, s.main.take(f)
	}
	out := s.newestReachable()
	return connected, out != nil && out.take(f)
}

// send is trySend with a wait of at most ListenWindow for the client to connect.
func (s *session) send(ctx context.Context, f rpc.Frame) error {
	timer := time.NewTimer(s.handler.opts.ListenWindow)
	defer timer.Stop()
	for {
		connected, sent := s.trySend(f)
		switch {
		case sent:
			return nil
		case connected == nil:
			return rpc.ErrFinished
		}
		select {
		case <-connected:
		case <-timer.C:
			return clients.ErrNotListening
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.mcp.Done():
			return rpc.ErrFinished
		}
	}
}

// newestReachable returns the newest stream of a POST that reaches the client, or nil.
func (s *session) newestReachable() *stream {
	var newest *stream
	for _, out := range s.allStreams() {
		if out.id != 0 && (newest == nil || out.id > newest.id) && out.reachesClient() {
			newest = out
		}
	}
	return newest
}

// allStreams returns all streams, including the main stream.
func (s *session) allStreams() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*stream{s.main}
	for _, out := range s.streams {
		all = append(all, out)
	}
	return all
}

// overflow ends the session of a client that does not read.
func (s *session) overflow(cause error) {
	if s.mcp.Err() == nil {
		s.log().Warn("session ended: the client does not read its messages", "buffer", s.handler.opts.Buffer, "cause", limits.Explain(cause))
	}
	s.mcp.End(cause)
	s.abortWrites() // do not wait for the client
}

// abortWrites fails the writes to the client in progress, on all streams.
func (s *session) abortWrites() {
	for _, out := range s.allStreams() {
		out.abortWrite()
	}
}

// run waits for the end of the session and releases the session's resources.
func (s *session) run() {
	if s.begun != nil {
		<-s.begun
	}
	s.awaitEnd()
	s.handler.remove(s)
	s.settle()
	err := s.mcp.Close() // requests in flight may still be answered
	for _, out := range s.allStreams() {
		out.Finish(rpc.Frame{}) // most are finished already
	}
	if !s.awaitRequests() {
		err = errors.Join(err, errors.New("some of its HTTP requests are still being served"))
	}
	if err != nil {
		s.log().Warn("the session did not end completely", "err", err)
	}
	for _, out := range s.allStreams() {
		out.release()
	}
	s.memory.Close()
	s.place.Close()
	s.log().Debug("session ended", "cause", s.mcp.Err())
	s.handler.release(s)
	close(s.ended)
}

// awaitRequests waits for the HTTP requests of the session. awaitRequests cuts off the connections
// of requests that take too long, and returns false if even then some requests do not end.
func (s *session) awaitRequests() bool {
	served := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(served)
	}()
	if closedWithin(served, closeTimeout) {
		return true
	}
	s.abortWrites()
	return closedWithin(served, closeTimeout)
}

// closedWithin reports whether a channel is closed within d.
func closedWithin(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
