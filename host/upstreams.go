package host

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/oauth"
)

// UpstreamSpec is how to reach u.
func UpstreamSpec(cfg *config.Config, u *config.Upstream) upstream.Spec {
	env := make([]string, 0, len(u.Env))
	for k, v := range u.Env {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	spec := upstream.Spec{
		Name: u.Name, Transport: string(u.Transport), Command: u.Command, Args: u.Args, Env: env, Dir: u.Dir,
		URL: u.URL, Headers: u.Headers,
		Timeout: u.Timeout, MaxTimeout: u.MaxTimeout, MaxMessage: int(cfg.MaxMessage), Restart: string(u.Restart),
	}
	if o := u.OAuth; o != nil {
		spec.OAuth = &oauth.Config{
			Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes,
			RedirectPort: o.RedirectPort, TokenFile: cfg.TokenFile(),
		}
	}
	return spec
}

// upstreams are the connections of a Host: one for each server that sessions
// share, and one for each session and server with isolation = "session". They
// implement route.Upstreams.
type upstreams struct {
	host  *Host
	hello *hello // for those that sessions share

	mu     sync.Mutex // guards what follows
	closed bool
	order  []*config.Upstream // those that are enabled, as configured
	shared map[string]*slot
	own    map[route.Session]map[string]*slot // of every session there is

	// listed has the names of those that have started for a session of their own.
	listed sync.Map

	stop    chan struct{}  // closed by close
	closing sync.WaitGroup // shutdowns that nobody else waits for
}

func newUpstreams(h *Host) *upstreams {
	return &upstreams{
		host: h, hello: newHello(h.opts.Clients, h.opts.Version),
		shared: map[string]*slot{}, own: map[route.Session]map[string]*slot{}, stop: make(chan struct{}),
	}
}

func enabled(cfg *config.Config) []*config.Upstream {
	var order []*config.Upstream
	for i := range cfg.Upstreams {
		if c := &cfg.Upstreams[i]; !c.Disabled {
			order = append(order, c)
		}
	}
	return order
}

// isolated tells whether each session has the upstream for itself. With one
// client there is nobody to be kept apart from.
func (h *Host) isolated(c *config.Upstream) bool {
	return c.Isolation == config.PerSession && h.opts.Clients == ManyClients
}

// find is the upstream with a name, nil if there is none. The caller holds u.mu.
func (u *upstreams) find(name string) *config.Upstream {
	at := slices.IndexFunc(u.order, func(c *config.Upstream) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return u.order[at]
}

// apply makes the upstreams those of the Host's configuration. Those that stay
// go on undisturbed, if they are reached as before; others finish the calls
// under way, while what replaces them takes the new ones. It is false when it
// is too late.
func (u *upstreams) apply(cfg *config.Config) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.order = enabled(cfg)
	for name, s := range u.shared {
		if c := u.find(name); c == nil || u.host.isolated(c) || !s.takes(cfg, c) {
			u.retire(s)
			delete(u.shared, name)
		}
	}
	for _, c := range u.order {
		if !u.host.isolated(c) && u.shared[c.Name] == nil {
			u.shared[c.Name] = newSlot(u.host, c, nil, u.hello)
		}
	}
	for session, own := range u.own {
		for name, s := range own {
			c := u.find(name)
			switch {
			case c == nil || !u.host.isolated(c):
				u.retire(s)
				delete(own, name)
			case !s.takes(cfg, c):
				u.retire(s)
				own[name] = u.newOwn(c, session)
			}
		}
	}
	return true
}

// takes has the slot work as c says from now on, if that is possible without
// starting anew.
func (s *slot) takes(cfg *config.Config, c *config.Upstream) bool {
	if !sameUpstream(s.spec, UpstreamSpec(cfg, c)) {
		return false
	}
	s.conf.Store(c)
	if c.Start != config.Lazy {
		s.wake()
	}
	return true
}

// sameUpstream tells whether what is started, or connected to, is the same.
func sameUpstream(a, b upstream.Spec) bool { return reflect.DeepEqual(a, b) }

// welcome takes on a session.
func (u *upstreams) welcome(s route.Session) {
	u.hello.welcome(s.Client(), s.Revision())
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.own[s] == nil {
		u.own[s] = map[string]*slot{}
	}
}

// For implements route.Upstreams. A session's own upstream is made when it is
// first asked for; not for a session that has left, which some work is still
// done for.
func (u *upstreams) For(s route.Session, server string) (route.Connection, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if shared, ok := u.shared[server]; ok {
		return route.Connection{Upstream: shared}, true
	}
	mine, here := u.own[s]
	c := u.find(server)
	if !here || c == nil || !u.host.isolated(c) || u.closed {
		return route.Connection{}, false
	}
	if mine[server] == nil {
		mine[server] = u.newOwn(c, s)
	}
	return route.Connection{Upstream: mine[server], Own: s}, true
}

func (u *upstreams) newOwn(c *config.Upstream, s route.Session) *slot {
	hello := newHello(OneClient, u.host.opts.Version)
	hello.welcome(s.Client(), s.Revision())
	return newSlot(u.host, c, s, hello)
}

// left ends what a session has for itself.
func (u *upstreams) left(s route.Session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return // close ends all
	}
	for _, own := range u.own[s] {
		u.closing.Go(func() { u.end(own) })
	}
	delete(u.own, s)
}

// retire ends a slot when the calls under way on it are over. None of them
// takes longer than the upstream's max_timeout, unless its client does not read
// what it is told. The caller holds u.mu.
func (u *upstreams) retire(s *slot) {
	idle := s.retire()
	u.listed.Delete(s.name)
	u.closing.Go(func() {
		late := time.NewTimer(cmp.Or(s.spec.MaxTimeout, config.DefaultMaxTimeout) + time.Minute)
		defer late.Stop()
		select {
		case <-idle:
		case <-late.C:
			u.host.opts.Log.Warn("calls of an upstream that was removed or replaced do not end, and are given up", "upstream", s.name)
		case <-u.stop:
		}
		u.end(s)
	})
}

// end closes a slot that nobody else closes.
func (u *upstreams) end(s *slot) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := s.close(ctx); err != nil {
		u.host.opts.Log.Warn("end of an upstream", "err", err)
	}
}

// all are those there are now, in the order of the configuration: those that
// are shared, then those of sessions.
func (u *upstreams) all() []*slot {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []*slot
	for _, c := range u.order {
		if s, ok := u.shared[c.Name]; ok {
			all = append(all, s)
		}
	}
	for _, own := range u.own {
		for _, c := range u.order {
			if s, ok := own[c.Name]; ok {
				all = append(all, s)
			}
		}
	}
	return all
}

// started waits until none is starting any more, or has been for as long as most
// (0: however long that takes), or ctx ends. It does not wait for what a session
// has for itself where what another session has was listed; nor, with known, for
// one of which it is remembered what it has.
func (u *upstreams) started(ctx context.Context, most time.Duration, known bool) {
	for _, s := range u.all() {
		if known && s.isEarly() {
			continue
		}
		if _, listed := u.listed.Load(s.name); s.own == nil || !listed {
			s.awaitStart(ctx, most)
			// What a reload has put into its place is to list instead of it.
			for next := s; next.isRetired() && ctx.Err() == nil; {
				if next = next.successor(); next == nil {
					break
				}
				next.awaitStart(ctx, most)
			}
		}
	}
}

// close ends them all.
func (u *upstreams) close(ctx context.Context) []error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	close(u.stop)
	all := u.all()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, s := range all {
		closing.Go(func() { errs[i] = s.close(ctx) })
	}
	closing.Wait()
	u.closing.Wait()
	return errs
}
