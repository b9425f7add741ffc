package supervise

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// A server of the handshake era on stdio does not say for which call it asks something.
// While a call of a client without a token waits for its client's answers, the next
// question may be for that call too, so it can reach no other client. Calls of other
// clients without a token then go to a spare: another process of the server.

const (
	// maxSpares bounds the spares of an upstream. With more parked calls, others share
	// the upstream's own connection with them, and the server's questions are refused.
	maxSpares = 8
	// spareIdle is how long a spare without calls is kept.
	spareIdle = time.Minute
	// spareRetry is how long no spare is started after one has failed to start.
	spareRetry = time.Minute
)

// spares are those of one upstream. The zero value has none.
type spares struct {
	mu      sync.Mutex // guards what follows; only locks of requests are taken below it
	own     users      // of the upstream's own connection
	all     []*spare
	level   []byte    // params of the last logging/setLevel; nil for none
	failed  time.Time // when one has failed to start
	closed  bool
	closing sync.WaitGroup // spares that are closed in the background
}

// spare is one more process of a server.
type spare struct {
	up    *upstream.Upstream
	users users
	idle  *time.Timer // closes it; nil while it has calls
}

// users are the requests of clients without a token that have calls on a connection, with
// the number of their calls.
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

// callPlaced makes a call, over up or over a spare.
func (m *managedUpstream) callPlaced(ctx context.Context, up *upstream.Upstream, call wire.Call) (wire.Reply, error) {
	one, leave := m.place(call)
	if one != nil {
		err := one.up.Ready(ctx)
		if err == nil {
			defer leave()
			return one.up.Call(ctx, call)
		}
		leave()
		if ctx.Err() != nil {
			return wire.Reply{}, err
		}
		m.env.Log.Warn("another process of the server does not start", "upstream", m.name, "err", err)
		m.spares.giveUp(one)
		return m.callPlaced(ctx, up, call) // none is started for a while
	}
	defer leave()
	reply, err := up.Call(ctx, call)
	if call.Method == protocol.MethodSetLevel && err == nil && reply.Error == nil {
		m.spares.setLevel(ctx, call)
	}
	return reply, err
}

// place finds the connection for a call: a spare, or the upstream's own (nil). leave must
// be called when the call has ended.
func (m *managedUpstream) place(call wire.Call) (to *spare, leave func()) {
	request, avoids := route.Anonymous(call)
	if request == nil {
		return nil, func() {}
	}
	avoids = avoids && m.mixesQuestions()
	s := &m.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		s.own = users{}
	}
	if avoids && !s.own.freeFor(request) {
		to = s.find(m, request)
	}
	in := s.own
	if to != nil {
		in = to.users
	}
	in[request]++
	return to, func() { s.leave(m, to, in, request) }
}

// mixesQuestions reports whether a request of the server does not say to which call it
// belongs.
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
	if from != nil && len(in) == 0 && !s.closed {
		from.idle = time.AfterFunc(spareIdle, func() { s.expire(from) })
	}
}

// find returns a spare for a request, nil if there can be none. The caller holds s.mu.
func (s *spares) find(m *managedUpstream, request route.Origin) *spare {
	if s.closed {
		return nil
	}
	for _, one := range s.all {
		if st := one.up.Status().State; st != upstream.Failed && st != upstream.Closed && one.users.freeFor(request) {
			if one.idle != nil {
				one.idle.Stop()
				one.idle = nil
			}
			return one
		}
	}
	if len(s.all) >= maxSpares || time.Since(s.failed) < spareRetry {
		return nil
	}
	m.env.Log.Info("another process of the server is started: a call of a client without a token waits for answers in the others",
		"upstream", m.name, "processes", len(s.all)+2)
	one := &spare{up: m.startSpare(s.level), users: users{}}
	s.all = append(s.all, one)
	return one
}

// spareSpec returns how to start a spare of a server.
func spareSpec(spec upstream.Spec) upstream.Spec {
	spec.Restart, spec.Protocol = upstream.RestartNever, upstream.ProtocolLegacy
	return spec
}

// startSpare starts a spare, and tells it the log level if there are params for that. Its
// lists are of no interest: those of the upstream's own connection count.
func (m *managedUpstream) startSpare(level []byte) *upstream.Upstream {
	receiver := m.env.Receiver(m.name, m.own)
	opts := upstream.Options{
		Log: m.env.Log, Budget: m.env.Budget, InitializeParams: m.client.initializeParams,
		ClientName: m.client.name, ClientVersion: m.client.version, Resolve: m.resolve,
		OnRequest: receiver.OnRequest,
		OnNotification: func(n wire.Inbound) {
			switch n.Method {
			case protocol.NotificationMessage, protocol.NotificationElicitationDone:
				receiver.OnNotification(n)
			}
		},
	}
	started := make(chan *upstream.Upstream, 1)
	if level != nil {
		opts.OnReady = func() {
			up := <-started
			// The call ends with the upstream.
			if _, err := up.Call(context.Background(), wire.Call{Method: protocol.MethodSetLevel, Params: level}); err != nil {
				m.env.Log.Debug("log level not set", "upstream", m.name, "err", err)
			}
		}
	}
	up := upstream.Start(spareSpec(m.spec), opts)
	started <- up
	return up
}

// setLevel passes a request for a log level on to the spares, and keeps it for others.
func (s *spares) setLevel(ctx context.Context, call wire.Call) {
	s.mu.Lock()
	s.level = call.Params
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, one := range all {
		_, _ = one.up.Call(ctx, call) // the upstream itself has accepted it
	}
}

// expire closes a spare that has no calls.
func (s *spares) expire(one *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(one.users) == 0 && one.idle != nil {
		s.remove(one)
	}
}

// giveUp closes a spare that has failed to start.
func (s *spares) giveUp(one *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = time.Now()
	s.remove(one)
}

// remove closes a spare, unless that has been done. The caller holds s.mu.
func (s *spares) remove(one *spare) {
	at := slices.Index(s.all, one)
	if at < 0 || s.closed {
		return
	}
	s.all = slices.Delete(s.all, at, at+1)
	s.closing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_ = one.up.Close(ctx) // it is killed if need be
	})
}

// close closes all spares.
func (s *spares) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := s.all
	for _, one := range all {
		if one.idle != nil {
			one.idle.Stop()
		}
	}
	s.mu.Unlock()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, one := range all {
		closing.Go(func() { errs[i] = one.up.Close(ctx) })
	}
	closing.Wait()
	s.closing.Wait()
	return errors.Join(errs...)
}
