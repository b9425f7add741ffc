package supervise

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// A server of the handshake era on stdio does not name the call of a question. While a call of a
// client without a token waits for the client's answers, the next question may be for the same
// call, so the question can reach no other client. Calls of other clients without a token then go
// to a spare: another process of the server.

const (
	// maxSpares bounds the spares of an upstream. Beyond maxSpares, other calls share the
	// upstream's own connection with parked calls, and the server's questions are refused.
	maxSpares = 8
	// spareIdle is how long a spare without calls is kept.
	spareIdle = time.Minute
	// spareRetry is how long no spare is started after the failed start of a spare.
	spareRetry = time.Minute
)

// spares are the spares of an upstream. The zero value has none.
type spares struct {
	mu       sync.Mutex // guards the fields below; only locks of requests are taken below mu
	own      users      // of the upstream's own connection
	all      []*spare
	retiring []*spare  // the retired spares that still have calls
	told     told      // the messages that the upstream's own process has been told
	failed   time.Time // when the start of a spare has failed
	closed   bool
	// background are the spares being closed or told messages without a caller.
	background sync.WaitGroup
}

// users are the requests of clients without a token with calls on a connection, with the number of
// their calls.
type users map[route.Origin]int

// freeFor reports whether no other request is parked.
func (u users) freeFor(request route.Origin) bool {
	for other := range u {
		if other != request && route.IsParked(other) {
			return false
		}
	}
	return true
}

// maxPlaced is how many spares a call tries if each spare ends before the call.
const maxPlaced = 2

// callPlaced makes a call for a client of an era, over up or over a spare.
func (m *managedUpstream) callPlaced(ctx context.Context, up *servers.Upstream, era protocol.Era, call wire.Call) (wire.Reply, error) {
	if _, known := m.otherEra(era, call.Method); !known {
		if err := m.findEras(ctx, up, era, call.Method); err != nil {
			return wire.Reply{}, err
		}
	}
	for tries := 0; ; tries++ {
		sp, leave := m.place(era, call, tries < maxPlaced)
		if sp == nil {
			defer leave()
			reply, err := up.Call(ctx, call)
			m.spares.note(call, err == nil && reply.Error == nil)
			return reply, err
		}
		reply, unsent, err := m.callSpare(ctx, sp, call)
		leave()
		if !unsent || ctx.Err() != nil {
			return reply, err
		}
	}
}

// callSpare makes a call over a spare. unsent means: the server has certainly not acted on the
// call. A spare that does not start, has ended or does not answer gets no more calls.
func (m *managedUpstream) callSpare(ctx context.Context, sp *spare, call wire.Call) (reply wire.Reply, unsent bool, err error) {
	s := &m.spares
	if err, late := m.awaitSpare(ctx, sp); err != nil {
		if !late {
			m.env.Log.Warn("another process of the server does not start", "upstream", m.name, "err", err)
			s.retire(sp)
		}
		return wire.Reply{}, true, err
	}
	if err := m.awaitChanges(ctx, sp.up, call.Method); err != nil || sp.unlike.Load() {
		if ctx.Err() == nil {
			s.retire(sp)
		}
		return wire.Reply{}, true, err
	}
	s.started(sp)
	sp.tell(ctx, s)
	reply, err = sp.up.Call(ctx, call)
	var timeout *servers.TimeoutError
	if unsent = servers.IsUnsent(err); sp.era == 0 && (unsent || errors.As(err, &timeout) && !timeout.Max) {
		s.retire(sp)
	}
	return reply, unsent, err
}

// place finds the connection for a call of a client of an era: a spare if allowed, or the
// upstream's own connection (nil). leave must be called at the end of the call.
func (m *managedUpstream) place(era protocol.Era, call wire.Call, spares bool) (to *spare, leave func()) {
	s := &m.spares
	if other, _ := m.otherEra(era, call.Method); other && spares {
		s.mu.Lock()
		defer s.mu.Unlock()
		if to = s.findInEra(m, era); to != nil {
			request, _ := call.Owner.(route.Origin)
			to.users[request]++
			return to, func() { s.leave(m, to, to.users, request) }
		}
		return nil, func() {}
	}
	request, avoids := route.Anonymous(call)
	if request == nil {
		return nil, func() {}
	}
	avoids = avoids && m.mixesQuestions()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		s.own = users{}
	}
	if spares && avoids && !s.own.freeFor(request) {
		to = s.find(m, request)
	}
	in := s.own
	if to != nil {
		in = to.users
	}
	in[request]++
	return to, func() { s.leave(m, to, in, request) }
}

// mixesQuestions reports whether a request of the server does not name the request's call.
func (m *managedUpstream) mixesQuestions() bool {
	return m.spec.URL == "" && !m.snapshot().stateless()
}

// leave ends a call.
func (s *spares) leave(m *managedUpstream, from *spare, in users, request route.Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in[request]--; in[request] == 0 {
		delete(in, request)
	}
	switch {
	case from == nil || len(in) > 0 || s.closed:
	case from.retired:
		s.end(from)
	case from.era != 0: // the spare may have a lasting object, for example a task
	default:
		from.idle = time.AfterFunc(spareIdle, func() { s.expire(from) })
	}
}

// find returns a spare for a request, or nil if a spare is impossible. The caller holds s.mu.
func (s *spares) find(m *managedUpstream, request route.Origin) *spare {
	if s.closed {
		return nil
	}
	for _, sp := range slices.Clone(s.all) {
		if sp.hasEnded() {
			s.retireLocked(sp)
		} else if sp.era == 0 && sp.users.freeFor(request) {
			if sp.idle != nil {
				sp.idle.Stop()
				sp.idle = nil
			}
			return sp
		}
	}
	if len(s.all) >= maxSpares || time.Since(s.failed) < spareRetry {
		return nil
	}
	m.env.Log.Info("another process of the server is started: a call of a client without a token waits for answers in each running process",
		"upstream", m.name, "processes", len(s.all)+2)
	return s.add(m, 0)
}

// add starts a spare for an era, 0 for calls that must not be mixed up. The caller holds s.mu.
func (s *spares) add(m *managedUpstream, era protocol.Era) *spare {
	sp := &spare{era: era, begun: time.Now(), users: users{}, telling: make(chan struct{}, 1), told: told{uris: map[string]struct{}{}}}
	sp.up = m.startSpare(sp)
	s.all = append(s.all, sp)
	return sp
}

// spareSpec returns the Spec for a spare of a server. A spare for an era is restarted after the
// spare's end, like the upstream's own connection.
func spareSpec(spec servers.Spec, era protocol.Era) servers.Spec {
	spec.Protocol = servers.ProtocolLegacy
	switch era {
	case 0:
		spec.Restart = servers.RestartNever
	case protocol.Stateless:
		spec.Protocol = era.Newest().String()
	}
	return spec
}

// startSpare starts a spare. The spare's lists are of no interest, since clients see the lists of
// the upstream's own process. The own lists are read again when the spare announces a change: the
// same change may concern both. A server behind a URL has announced changes over the own connection
// already. A spare for calls that must not be mixed up has no tasks.
func (m *managedUpstream) startSpare(sp *spare) *servers.Upstream {
	receiver := m.env.Receiver(m.name, m.own)
	handshake, list := m.compareHandshake, m.compareList
	if sp.era != 0 {
		handshake = func(result []byte) { m.compareEra(sp, pins.About, [][]byte{result}) }
		list = func(l servers.List) { m.compareEra(sp, l.Surface, l.Items) }
	}
	var worked atomic.Bool
	return servers.Start(spareSpec(m.spec, sp.era), servers.Options{
		Log: m.env.Log, Budget: m.env.Budget, InitializeParams: m.client.initializeParams, Observer: m.env.Observer, Streams: m.env.Streams,
		ClientName: m.client.name, ClientVersion: m.client.version, Resolve: m.resolve, Accept: m.accept,
		NeedsSession: sp.era != 0, OnHandshake: handshake, OnList: list, OnRequest: receiver.OnRequest,
		OnNotification: func(n wire.Inbound) {
			switch n.Method {
			case protocol.NotificationToolsChanged, protocol.NotificationPromptsChanged, protocol.NotificationResourcesChanged:
				if up := m.running(); up != nil && m.spec.URL == "" {
					up.ListChanged(n)
				}
			case protocol.NotificationResourceUpdated:
				if m.spec.URL == "" {
					receiver.OnNotification(n)
				}
			case protocol.NotificationTaskStatus:
				if sp.era != 0 {
					receiver.OnNotification(n)
				}
			default:
				receiver.OnNotification(n)
			}
		},
		OnReady: func() {
			if again := worked.Swap(true); sp.era != 0 {
				m.noteEra(sp.era, !sp.unlike.Load())
				if again {
					sp.tellAll(&m.spares)
				}
			}
		},
		OnFailed: func() {
			if sp.era != 0 && !worked.Load() {
				m.noteEra(sp.era, false)
				m.spares.retire(sp)
			}
		},
	})
}

// expire closes a spare without calls.
func (s *spares) expire(sp *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sp.users) == 0 && sp.idle != nil && !s.closed && !sp.retired {
		s.end(sp)
	}
}

// retire gives a spare no more calls, and closes the spare after the last call. If the spare has
// never started, no other spare is started for a while.
func (s *spares) retire(sp *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retireLocked(sp)
}

// retireLocked is retire for a caller that holds s.mu.
func (s *spares) retireLocked(sp *spare) {
	if sp.retired || s.closed {
		return
	}
	if !sp.worked {
		s.failed = time.Now()
	}
	sp.retired = true
	if len(sp.users) == 0 {
		s.end(sp)
		return
	}
	s.all = slices.DeleteFunc(s.all, func(other *spare) bool { return other == sp })
	s.retiring = append(s.retiring, sp) // leave ends the spare
}

// end closes a spare without calls. The caller holds s.mu.
func (s *spares) end(sp *spare) {
	if sp.idle != nil {
		sp.idle.Stop()
	}
	s.all = slices.DeleteFunc(s.all, func(other *spare) bool { return other == sp })
	s.retiring = slices.DeleteFunc(s.retiring, func(other *spare) bool { return other == sp })
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_ = sp.up.Close(ctx) // Close kills the process if necessary
	})
}

// close closes all spares.
func (s *spares) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := slices.Concat(s.all, s.retiring)
	for _, sp := range all {
		if sp.idle != nil {
			sp.idle.Stop()
		}
	}
	s.mu.Unlock()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, sp := range all {
		closing.Go(func() { errs[i] = sp.up.Close(ctx) })
	}
	closing.Wait()
	s.background.Wait()
	return errors.Join(errs...)
}
