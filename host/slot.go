package host

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/health"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// slot is the place of one upstream in a Host: of one that runs, or of one with
// start = "lazy" that is not needed yet. Until it has said and listed what it
// has, it stands there with what is remembered of it. It implements
// route.Upstream.
type slot struct {
	host  *Host
	name  string
	spec  upstream.Spec                   // what is started
	conf  atomic.Pointer[config.Upstream] // of now; what is not in spec may change
	own   route.Session                   // whose it is alone; nil: shared
	hello *hello
	of    string // identity

	// publishing is held while the catalog is told of a list, for a retired slot
	// not to speak after the one in its place.
	publishing sync.Mutex
	saving     sync.Mutex // held while the memory is told, for what is newest to stay

	mu      sync.Mutex // guards what follows
	up      *upstream.Upstream
	begun   time.Time // when up was started
	closed  bool
	retired bool          // takes no more calls
	known   remembered    // of the last start; what has not been heard yet, from before
	early   bool          // there is something from before, and it has not been ready since
	saved   []byte        // what the memory has
	busy    int           // calls under way
	idle    chan struct{} // made by retire; closed when no call is under way
}

// newSlot makes a slot, and starts its upstream unless that can wait.
func newSlot(h *Host, conf *config.Upstream, own route.Session, hello *hello) *slot {
	s := &slot{host: h, name: conf.Name, spec: UpstreamSpec(h.config(), conf), own: own, hello: hello}
	s.of = identity(s.spec, h.config().NewMasker())
	s.conf.Store(conf)
	recalled := s.recall()
	if !recalled || conf.Start != config.Lazy {
		s.wake()
	}
	return s
}

// recall has the slot stand there with what is remembered of its upstream; false
// if there is nothing. With nobody behind us, only those are remembered that are
// not started: for a check, what a server says now counts.
func (s *slot) recall() bool {
	if s.host.opts.Clients == NoClient && s.conf.Load().Start != config.Lazy {
		return false
	}
	known, ok := s.host.memory.load(s.name, s.of)
	if !ok {
		return false
	}
	s.known, s.early, s.saved = known, true, known.file(s.of)
	s.host.router.Peer(s.name, s.own).OnAsleep()
	for surface, l := range known.Lists {
		s.publish(surface, l, s.host.catalog.SetRemembered)
	}
	return true
}

// publish tells the catalog of a list, unless the slot is retired.
func (s *slot) publish(surface wire.Surface, l list, set func(string, wire.Surface, [][]byte, []byte)) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	if !s.isRetired() {
		set(s.name, surface, l.Items, l.Meta)
	}
}

// wake starts the upstream if it has not been; nil when it is too late for that.
func (s *slot) wake() *upstream.Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started()
}

// started is wake for a caller that holds s.mu.
func (s *slot) started() *upstream.Upstream {
	if s.up != nil || s.closed || s.retired {
		return s.up
	}
	peer := s.host.router.Peer(s.name, s.own)
	s.begun = time.Now()
	s.up = upstream.Start(s.spec, upstream.Options{
		Log: s.host.opts.Log, Budget: s.host.budget, InitializeParams: s.hello.say,
		OnHandshake: s.shaken,
		OnList: func(surface wire.Surface, items [][]byte, meta []byte) {
			s.learn(func(r *remembered) { r.Lists[surface] = list{items, meta} })
			s.publish(surface, list{items, meta}, s.host.catalog.SetUpstream)
			if s.Status().State == upstream.Ready { // else OnReady is to come
				s.remember()
			}
		},
		OnNotification: peer.OnNotification, OnRequest: peer.OnRequest,
		OnReady: func() {
			if s.isRetired() {
				return // it has only a few calls to finish
			}
			s.mu.Lock()
			s.early = false
			s.mu.Unlock()
			s.remember()
			if s.own != nil {
				s.host.upstreams.listed.Store(s.name, true)
			}
			peer.OnReady()
		},
	})
	return s.up
}

// remember saves what is known for the next time. Where nobody is behind us who
// could answer requests of the upstream, it may have less than for others, and
// what they remember stays.
func (s *slot) remember() {
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.isRetired() {
		return
	}
	if s.host.opts.Clients == NoClient {
		if _, ok := s.host.memory.load(s.name, s.of); ok {
			return
		}
	}
	if now := s.remembered().file(s.of); !bytes.Equal(now, s.saved) {
		s.saved = now
		s.host.memory.save(s.name, now)
	}
}

// shaken takes what the upstream says in the handshake.
func (s *slot) shaken(result []byte) {
	before := s.remembered().Handshake
	s.learn(func(r *remembered) { r.Handshake = result })
	if s.isEarly() && !sameWelcome(before, result) {
		s.host.opts.Log.Info("the upstream says another thing of itself than when it ran last: sessions that have begun were told the old one", "upstream", s.name)
	}
}

// sameWelcome tells whether clients are told the same because of two handshakes.
func sameWelcome(a, b []byte) bool {
	for _, member := range []string{"capabilities", "instructions", "_meta"} {
		before, _ := wire.Get(a, member)
		now, _ := wire.Get(b, member)
		if !bytes.Equal(before, now) {
			return false
		}
	}
	return true
}

func (s *slot) isEarly() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.early
}

// learn changes what is known. Maps are replaced, not changed: others may read
// them.
func (s *slot) learn(change func(r *remembered)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = s.known.clone()
	change(&s.known)
}

func (s *slot) remembered() remembered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// running is the upstream, nil while it sleeps.
func (s *slot) running() *upstream.Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

// Status implements health.Connection.
func (s *slot) Status() upstream.Status {
	if up := s.running(); up != nil {
		return up.Status()
	}
	st := upstream.Status{Name: s.name, State: health.Asleep}
	known := s.remembered()
	st.ServerName, _ = wire.GetString(known.Handshake, "serverInfo", "name")
	st.ServerVersion, _ = wire.GetString(known.Handshake, "serverInfo", "version")
	st.ProtocolVersion, _ = wire.GetString(known.Handshake, "protocolVersion")
	st.Tools, st.Resources = len(known.Lists[wire.Tools].Items), len(known.Lists[wire.Resources].Items)
	st.Templates, st.Prompts = len(known.Lists[wire.Templates].Items), len(known.Lists[wire.Prompts].Items)
	return st
}

// closedError says that a slot's upstream has been taken down.
func (s *slot) closedError() error {
	reason := "closed"
	if s.isRetired() {
		reason = "it was removed from the configuration"
	}
	return &upstream.DownError{Upstream: s.name, Reason: reason, Err: wire.ErrClosed}
}

// Ready implements route.Upstream. It wakes the upstream.
func (s *slot) Ready(ctx context.Context) error {
	err := s.closedError()
	if up := s.wake(); up != nil {
		err = s.ready(ctx, up)
	}
	if err == nil || ctx.Err() != nil || !s.isRetired() {
		return err
	}
	next, err := s.next(s.own)
	if err != nil {
		return err
	}
	return next.Ready(ctx)
}

// Handshake implements route.Upstream. Of an upstream that sleeps, the last one
// will do.
func (s *slot) Handshake(ctx context.Context) ([]byte, error) {
	if result, ok := s.Server(); ok {
		return result, nil
	}
	up := s.wake()
	if up == nil {
		return nil, s.closedError()
	}
	return up.Handshake(ctx)
}

// Server implements route.Upstream.
func (s *slot) Server() (result []byte, ok bool) {
	known := s.remembered()
	return known.Handshake, known.Handshake != nil
}

// inItsSleep are the answers to requests that an upstream need not be started
// for: it is told the log level when it is there, and one that has not been
// started has no tasks and no subscriptions.
var inItsSleep = map[string]string{
	protocol.MethodSetLevel: `{}`, protocol.MethodTasksList: `{"tasks":[]}`, protocol.MethodResourcesUnsubscribe: `{}`,
}

// withoutIt is the answer to a request that the upstream need not be there for;
// not ok if it has to.
func (s *slot) withoutIt(method string) (answer string, ok bool) {
	answer, ok = inItsSleep[method]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired || !ok {
		return "", false
	}
	return answer, s.up == nil || s.early && method == protocol.MethodSetLevel
}

// Call implements route.Upstream. It wakes the upstream, unless the answer is
// known without it. A call for a slot that has just been retired goes to the one
// in its place.
func (s *slot) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	if answer, ok := s.withoutIt(call.Method); ok {
		return wire.Reply{Result: []byte(answer)}, nil
	}
	up := s.enter()
	if up == nil {
		var session route.Session
		if o, ok := call.Owner.(route.Origin); ok {
			session = o.Session()
		}
		next, err := s.next(session)
		if err != nil {
			return wire.Reply{}, err
		}
		return next.Call(ctx, call)
	}
	defer s.leave()
	reply, err := up.Call(ctx, call)
	return reply, s.plain(err)
}

// Begin implements route.Beginner.
func (s *slot) Begin(call wire.Call, landed wire.CompletionFunc) (cancel func(cause error), ok bool) {
	up := s.enter()
	if up == nil {
		return nil, false
	}
	cancel, ok = up.Begin(call, func(reply wire.Reply, rest wire.Continuation) {
		if rest == nil {
			s.leave()
			landed(reply, nil)
			return
		}
		landed(reply, func(ctx context.Context) (wire.Reply, error) {
			defer s.leave()
			reply, err := rest(ctx)
			return reply, s.plain(err)
		})
	})
	if !ok {
		s.leave()
	}
	return cancel, ok
}

// enter counts in a call; leave must follow unless it returns nil.
func (s *slot) enter() *upstream.Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.retired {
		return nil
	}
	s.busy++
	return s.started()
}

func (s *slot) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if s.busy == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// next is what is in the place of a slot that takes no calls, for a session or
// for nobody.
func (s *slot) next(session route.Session) (route.Upstream, error) {
	if session == nil {
		session = s.own
	}
	c, ok := s.host.upstreams.For(session, s.name)
	if !ok || c.Upstream == s {
		return nil, s.closedError()
	}
	return c.Upstream, nil
}

// successor is the slot in the place of one that is retired, nil if there is none.
func (s *slot) successor() *slot {
	next, err := s.next(s.own)
	if err != nil {
		return nil
	}
	return next.(*slot)
}

func (s *slot) isRetired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retired
}

// retire makes the slot take no more calls, and returns what is closed when
// those under way are over.
func (s *slot) retire() (idle <-chan struct{}) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	over := make(chan struct{})
	if s.busy == 0 {
		close(over)
	} else {
		s.idle = over
	}
	return over
}

// Notify implements route.Upstream. An upstream that sleeps has nothing to
// forget, and will ask when it wakes.
func (s *slot) Notify(ctx context.Context, method string, params []byte) error {
	up := s.running()
	if up == nil {
		return nil
	}
	return up.Notify(ctx, method, params)
}

// awaitStart waits until the upstream's first start is over, or has taken as long as
// most (0: however long that takes), or ctx ends; not for one that sleeps.
func (s *slot) awaitStart(ctx context.Context, most time.Duration) {
	s.mu.Lock()
	up, begun := s.up, s.begun
	s.mu.Unlock()
	if up == nil {
		return
	}
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, begun.Add(most))
		defer cancel()
	}
	select {
	case <-up.Started():
	case <-ctx.Done():
	}
}

// close takes the upstream down.
func (s *slot) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	up := s.up
	s.mu.Unlock()
	if up == nil {
		return nil
	}
	return up.Close(ctx)
}
