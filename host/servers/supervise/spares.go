package supervise

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
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

// callSpare makes a call over a spare. unsent means that the server has certainly not acted on the
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
	if err := m.awaitChanges(ctx, sp.up, call.Method); err != nil || sp.deviates.Load() {
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
				m.noteEra(sp.era, !sp.deviates.Load())
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

// spare is an additional process of a server. spares.mu guards users, idle, worked and retired.
type spare struct {
	up       *servers.Upstream
	era      protocol.Era // the spare's era; 0: the handshake era, for calls that must not be mixed up
	deviates atomic.Bool  // an item differs from the pinned item, and the spare is not used; only for another era
	begun    time.Time
	users    users
	idle     *time.Timer // closes the spare; nil while the spare has calls, and for another era
	worked   bool        // the spare has started
	retired  bool        // the spare gets no more calls, and is closed after the last call

	telling chan struct{} // has room for a token: held while told changes
	told    told          // the messages that the spare has been told
}

// told are the messages of clients to a server with an effect beyond the request.
type told struct {
	level []byte              // params of the last logging/setLevel; nil for none
	uris  map[string]struct{} // of the subscribed resources
}

// tellTime is how long a call waits until a spare has been told everything that the upstream's own
// process has been told.
const tellTime = 2 * time.Second

// tell tells a started spare everything that the upstream's own process has been told since. The
// spare is told each message once, whatever the answer.
func (sp *spare) tell(ctx context.Context, s *spares) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	select {
	case sp.telling <- struct{}{}:
		defer func() { <-sp.telling }()
	case <-ctx.Done():
		return
	}
	want := s.toldSoFar()
	if want.level != nil && !bytes.Equal(sp.told.level, want.level) {
		sp.told.level = want.level
		_, _ = sp.up.Call(ctx, wire.Call{Method: protocol.MethodSetLevel, Params: want.level})
	}
	for uri := range want.uris {
		if _, ok := sp.told.uris[uri]; !ok && ctx.Err() == nil {
			sp.told.uris[uri] = struct{}{}
			sp.subscribe(ctx, protocol.MethodResourcesSubscribe, uri)
		}
	}
	for uri := range sp.told.uris {
		if _, ok := want.uris[uri]; !ok && ctx.Err() == nil {
			delete(sp.told.uris, uri)
			sp.subscribe(ctx, protocol.MethodResourcesUnsubscribe, uri)
		}
	}
}

// tellAll tells a restarted spare everything.
func (sp *spare) tellAll(s *spares) {
	sp.telling <- struct{}{}
	sp.told = told{uris: map[string]struct{}{}}
	<-sp.telling
	sp.tell(context.Background(), s) // for tellTime at most
}

// subscribe begins or ends a subscription.
func (sp *spare) subscribe(ctx context.Context, method, uri string) {
	_, _ = sp.up.Call(ctx, wire.Call{Method: method, Params: wire.Marshal(map[string]string{"uri": uri})})
}

// toldSoFar returns the messages that the upstream's own process has been told. The result is not
// modified.
func (s *spares) toldSoFar() told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// note keeps the message of a call to the upstream's own process, and tells the spares. A spare
// with calls may announce changes because of the message at any time.
func (s *spares) note(call wire.Call, ok bool) {
	switch call.Method {
	case protocol.MethodSetLevel, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe:
	default:
		return
	}
	uri, _ := wire.GetString(call.Params, "uri")
	s.mu.Lock()
	defer s.mu.Unlock()
	_, subscribed := s.told.uris[uri]
	switch {
	case call.Method == protocol.MethodSetLevel && ok:
		s.told.level = call.Params
	case call.Method == protocol.MethodResourcesSubscribe && ok && !subscribed:
		uris := map[string]struct{}{uri: {}}
		maps.Copy(uris, s.told.uris)
		s.told.uris = uris
	case call.Method == protocol.MethodResourcesUnsubscribe && subscribed: // no client wants updates, whatever the answer
		s.told.uris = maps.Clone(s.told.uris)
		delete(s.told.uris, uri)
	default:
		return
	}
	if s.closed {
		return
	}
	for _, sp := range s.workedLocked() {
		s.background.Go(func() { sp.tell(context.Background(), s) }) // for tellTime at most
	}
}

// workedLocked returns the spares that have started and have not ended. The caller holds s.mu.
func (s *spares) workedLocked() []*spare {
	return slices.DeleteFunc(slices.Concat(s.all, s.retiring), func(sp *spare) bool { return !sp.worked || sp.hasEnded() })
}

// hasEnded reports whether the process has ended, or has failed to start.
func (sp *spare) hasEnded() bool {
	st := sp.up.Status().State
	return st == servers.Failed || st == servers.Closed
}

// started notes that a spare has started.
func (s *spares) started(sp *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp.worked = true
}

// notifyAll sends a notification to the upstream's own process and to the started spares. Each of
// these processes is the server for the clients with calls at the process.
func (s *spares) notifyAll(ctx context.Context, own *servers.Upstream, method string, params []byte) error {
	s.mu.Lock()
	to := []*servers.Upstream{own}
	for _, sp := range s.workedLocked() {
		to = append(to, sp.up)
	}
	s.mu.Unlock()
	errs := make([]error, len(to))
	var all sync.WaitGroup
	for i, up := range to {
		all.Go(func() { errs[i] = up.Notify(ctx, method, params) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// compareHandshake gets the handshake of a spare. A handshake of another server than the pinned
// server takes the place of the upstream's own handshake, so that nothing more is called.
func (m *managedUpstream) compareHandshake(result []byte) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, pins.About, [][]byte{result}) {
		m.publishHandshake(result)
	}
}

// compareList gets the lists of a spare, before the spare has calls. A list with a definition that
// differs from the pinned definition takes the place of the upstream's own list, so that the
// definition is withheld.
func (m *managedUpstream) compareList(l servers.List) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, l.Surface, l.Items) {
		m.publishList(catalog.List{Surface: l.Surface, Items: l.Items, Meta: l.Meta, Stateless: m.snapshot().stateless(), Fresh: l.Fresh})
	}
}

// A server with both eras of the protocol is used in the era of the client that a request is made
// for: the questions of the server's tools, and their form, depend on the era. Each era has a
// separate connection, and over stdio a separate process, because few servers can change the era of
// a connection: servers of the Go SDK 1.8 take every request of a connection for a request of the
// first request's era, and server/discover changes the era for good. The other connection is begun
// when a client needs the other era. Clients see the lists of the upstream's own connection.

// eraWait is how long the first calls of clients wait for a connection of their era, from the start
// of the connection. Later calls go over the upstream's own connection until the other connection
// is ready.
const eraWait = 5 * time.Second

// inEra is an upstream as seen by clients of an era.
type inEra struct {
	*managedUpstream
	era protocol.Era
}

var _ route.Submitter = inEra{}

// Server implements route.Upstream.
func (m inEra) Server() (result []byte, ok bool) {
	if sp := m.spares.inEra(m.era); sp != nil {
		if result, ok := sp.up.Server(); ok {
			return result, true
		}
	}
	return m.managedUpstream.Server()
}

// Call implements route.Upstream.
func (m inEra) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return m.callIn(ctx, m.era, call)
}

// Submit implements route.Submitter.
func (m inEra) Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool) {
	return m.submitIn(m.era, call, complete)
}

// ofConnection are the requests about a connection, made for no particular client.
var ofConnection = map[string]bool{
	protocol.MethodSetLevel: true, protocol.MethodResourcesSubscribe: true, protocol.MethodResourcesUnsubscribe: true,
}

// otherEra reports whether a request belongs to a connection of another era than the own
// connection. known is false if findEras has to find the eras of the server.
func (m *managedUpstream) otherEra(era protocol.Era, method string) (other, known bool) {
	if era == 0 || ofConnection[method] {
		return false, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	may, ask := m.spec.MaySpeak(era, m.known.Verdict)
	switch {
	case !may && !ask, m.spoken == era:
		return false, true
	case m.spoken == 0, ask:
		return false, false
	}
	return true, true
}

// findEras waits until the own connection has an era, and finds out whether a server in use in the
// handshake era speaks the other era too. The error is the reason for the upstream's failure, or
// the cause of ctx.
func (m *managedUpstream) findEras(ctx context.Context, up *servers.Upstream, era protocol.Era, method string) error {
	if _, err := up.Handshake(ctx); err != nil {
		return err
	}
	m.asking.Lock()
	defer m.asking.Unlock()
	if _, known := m.otherEra(era, method); known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.env.eraWait)
	defer cancel()
	if also, err := up.AlsoStateless(ctx); err == nil {
		m.noteEra(protocol.Stateless, also)
	}
	return nil // without an answer, the next call asks again
}

// noteEra notes whether the server speaks an era that a connection was begun for. The server speaks
// the era of the own connection.
func (m *managedUpstream) noteEra(era protocol.Era, speaks bool) {
	v := servers.Verdict{Era: protocol.Stateless, At: time.Now()}
	switch {
	case speaks:
	case era == protocol.Stateless:
		v.Era = protocol.Handshake
	default:
		v.Only = true
	}
	if now := m.snapshot().Verdict; now.Era != v.Era || now.Only != v.Only {
		m.updateVerdict(v)
	}
}

// compareEra gets the list of a spare of another era. If an item differs from the pinned item, the
// spare is not used: definitions may differ between the eras, and clients see the definitions of
// the own connection.
func (m *managedUpstream) compareEra(sp *spare, surface wire.Surface, items [][]byte) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, surface, items) {
		m.env.Log.Warn("the server's offer in another era differs from the pins: clients of the other era use the connection of this era",
			"upstream", m.name, "list", string(surface))
		sp.deviates.Store(true)
		m.noteEra(sp.era, false)
	}
}

// inEra returns the spare begun for an era, or nil.
func (s *spares) inEra(era protocol.Era) *spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.all {
		if sp.era == era && !sp.deviates.Load() {
			return sp
		}
	}
	return nil
}

// findInEra returns the spare for an era, or nil if a spare is impossible. The caller holds s.mu.
func (s *spares) findInEra(m *managedUpstream, era protocol.Era) *spare {
	for _, sp := range s.all {
		if sp.era == era {
			return sp
		}
	}
	if s.closed || time.Since(s.failed) < spareRetry {
		return nil
	}
	m.env.Log.Info("a connection of another era is begun, for the clients of the other era", "upstream", m.name)
	return s.add(m, era)
}

// awaitSpare waits until a spare has started. The wait for a spare of another era is short: then
// the error is the error of an ended context, and the spare is not to be retired.
func (m *managedUpstream) awaitSpare(ctx context.Context, sp *spare) (err error, late bool) {
	select {
	case <-sp.up.Started():
	default:
		if sp.era != 0 {
			until, cancel := context.WithDeadline(ctx, sp.begun.Add(m.env.eraWait))
			defer cancel()
			err = sp.up.Ready(until)
			return err, until.Err() != nil
		}
	}
	return sp.up.Ready(ctx), ctx.Err() != nil
}
