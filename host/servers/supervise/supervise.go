// Package supervise keeps the upstreams of a proxy running as configured. The package starts the
// upstreams, replaces and ends them when the configuration changes, and remembers their lists, so
// that clients need not wait for them at the next start. Begin with Upstreams, then
// managedUpstream.
package supervise

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
)

// Catalog gets the lists of upstreams; see catalog.Catalog.
type Catalog interface {
	// SetList replaces a list.
	SetList(server string, list catalog.List)
	// Odd returns a server's items that strict clients refuse, in short lines.
	Odd(server string) []string
}

// Receiver gets the messages of an upstream; see route.Peer.
type Receiver interface {
	OnNotification(m wire.Inbound)
	OnRequest(ctx context.Context, m wire.Inbound) wire.Reply
	// OnReady is called after each start.
	OnReady()
	// OnAsleep is called if a snapshot of an earlier run of the upstream exists and the upstream
	// has not started yet.
	OnAsleep()
}

// Pins trust the first offers of servers, and compare later ones; see pins.Keeper.
type Pins interface {
	// Offer gets a list, before the list is set in the Catalog.
	Offer(server string, surface wire.Surface, items [][]byte)
	// OfferHandshake gets a raw handshake, before the server's lists.
	OfferHandshake(server string, handshake []byte)
	// Drift returns the differences from the pinned state, in short lines without text of the
	// server but names.
	Drift(server string) []string
	// Mode returns the effect of a server's pins.
	Mode(server string) pins.Mode
	// Accepts reports whether another process of a server may be used, judging by a list, or by the
	// process's handshake as the only item of pins.About.
	Accepts(server string, surface wire.Surface, items [][]byte) bool
	// Permitted returns why a tool may not be called, or nil.
	Permitted(server, tool string) error
}

// Options of Upstreams. All but Budget, Observer, Pins and Streams must be set.
type Options struct {
	// Clients says who is behind the sessions.
	Clients Clients
	// Name and Version are our clientInfo, unless Clients is OneClient.
	Name, Version string
	// Dir is the directory in which the lists of upstreams are remembered.
	Dir string
	// Catalog gets the lists of upstreams.
	Catalog Catalog
	// Pins get the offers of upstreams first; nil: nothing is pinned.
	Pins Pins
	// Receiver returns the receiver of the messages of a shared upstream (own is nil), or of an
	// upstream that belongs to the session own.
	Receiver func(server string, own route.Session) Receiver
	Budget   *budget.Budget // see servers.Options
	// Observer sees the connections with upstreams; may be nil.
	Observer servers.Observer
	Log      *slog.Logger
	Streams  func(servers.Spec) (io.ReadCloser, io.WriteCloser, bool) // see servers.Options
}

// closeTime bounds the end of an upstream closed in the background.
const closeTime = 2300 * time.Millisecond

// Upstreams are the upstreams of a proxy: an upstream for each shared server, and an upstream for
// each session and server with isolation = "session". They implement route.Upstreams,
// route.Availability and the interfaces of built-in tools for upstreams. They are safe for
// concurrent use.
type Upstreams struct {
	env    environment
	cfg    atomic.Pointer[config.Config] // the current configuration
	client *clientIdentity               // of shared upstreams

	mu     sync.Mutex // guards the fields below
	closed bool
	order  []*config.Upstream // the enabled ones, in the order of the configuration
	shared map[string]*managedUpstream
	own    map[route.Session]map[string]*managedUpstream // by session

	stop    chan struct{}  // closed by Close
	closing sync.WaitGroup // upstreams being closed in the background
}

// environment is the shared environment of all managed upstreams.
type environment struct {
	Options
	snapshots  *snapshotStore
	fetcher    *secret.Fetcher
	config     func() *config.Config
	changeWait time.Duration // see Refreshed
	eraWait    time.Duration // see the constant
	// listed has the names of the servers with isolation = "session" that have listed for some
	// session.
	listed     sync.Map
	publishing sync.Map // *sync.Mutex by name; see managedUpstream.publishing
}

// mask replaces the secrets of the configuration in text.
func (e *environment) mask(text string) string { return e.config().NewMasker().Mask(text) }

// New makes the upstreams of a configuration. None is started before Apply. The
// caller must Close them.
func New(cfg *config.Config, opts Options) *Upstreams {
	u := &Upstreams{
		client: newClientIdentity(opts.Clients, opts.Name, opts.Version),
		shared: map[string]*managedUpstream{}, own: map[route.Session]map[string]*managedUpstream{},
		stop: make(chan struct{}),
	}
	u.env = environment{
		Options: opts, snapshots: newSnapshotStore(opts.Dir, opts.Log), fetcher: secret.NewFetcher(opts.Log),
		config: u.cfg.Load, changeWait: changeWait, eraWait: eraWait,
	}
	u.cfg.Store(cfg)
	return u
}

// find returns the configuration of an upstream, or nil for an unknown name. The caller holds u.mu.
func (u *Upstreams) find(name string) *config.Upstream {
	at := slices.IndexFunc(u.order, func(c *config.Upstream) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return u.order[at]
}

// isolated reports whether each session has a separate instance of an upstream.
func (u *Upstreams) isolated(c *config.Upstream) bool { return isolated(u.env.Clients, c) }

// Apply changes the upstreams to the upstreams of cfg. An upstream without changes for a start is
// not interrupted. Other upstreams finish the calls in flight, while their replacements take new
// calls. Apply returns false if the upstreams are closed.
func (u *Upstreams) Apply(cfg *config.Config) bool {
	if !u.apply(cfg) {
		return false
	}
	for _, m := range u.all() {
		if !lazy(m.conf.Load()) {
			m.start()
		}
	}
	return true
}

// apply is Apply without starting upstreams.
func (u *Upstreams) apply(cfg *config.Config) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.cfg.Store(cfg)
	u.order = Enabled(cfg)
	for name, m := range u.shared {
		if c := u.find(name); c == nil || u.isolated(c) || !m.reconfigure(cfg, c) {
			u.retire(m)
			delete(u.shared, name)
		}
	}
	round := u.env.fetcher.NewRound()
	for _, c := range u.order {
		if !u.isolated(c) && u.shared[c.Name] == nil {
			m := newManaged(&u.env, c, nil, u.client)
			if !lazy(c) { // else the values might be old at the start
				m.round.Store(&round)
			}
			u.shared[c.Name] = m
		}
	}
	for session, own := range u.own {
		for name, m := range own {
			c := u.find(name)
			switch {
			case c == nil || !u.isolated(c):
				u.retire(m)
				delete(own, name)
			case !m.reconfigure(cfg, c):
				u.retire(m)
				own[name] = u.newOwn(c, session)
			}
		}
	}
	return true
}

// Introduced reports whether the client identity for upstreams is known. With OneClient, the first
// session determines the identity.
func (u *Upstreams) Introduced() bool { return u.client.known() }

// BeginSession adds a session.
func (u *Upstreams) BeginSession(s route.Session) {
	u.client.adoptSession(s, u.introduce)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.own[s] == nil {
		u.own[s] = map[string]*managedUpstream{}
	}
}

// introduce has the shared upstreams read their snapshots for the only client.
func (u *Upstreams) introduce() {
	for _, m := range u.listAll() {
		if m.client == u.client {
			m.introduce()
		}
	}
}

// EndSession ends the upstreams of a session.
func (u *Upstreams) EndSession(s route.Session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return // Close ends them all
	}
	for _, own := range u.own[s] {
		u.closing.Go(func() { u.end(own) })
	}
	delete(u.own, s)
}

// For implements route.Upstreams. A session's own upstream is created at the first use, but not for
// a session that has left, although some of the session's work may still be in progress.
func (u *Upstreams) For(s route.Session, server string) (route.Connection, bool) {
	m, ok := u.managed(s, server)
	if !ok {
		return route.Connection{}, false
	}
	if s == nil {
		return route.Connection{Upstream: m, Own: m.own}, true
	}
	return route.Connection{Upstream: inEra{m, s.Revision().Era()}, Own: m.own}, true
}

// managed is For without the interface.
func (u *Upstreams) managed(s route.Session, server string) (*managedUpstream, bool) {
	m, ok := u.lookup(s, server)
	if ok {
		m.open() // without u.mu, which every request takes
	}
	return m, ok
}

// lookup is managed without opening the upstream.
func (u *Upstreams) lookup(s route.Session, server string) (*managedUpstream, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if shared, ok := u.shared[server]; ok {
		return shared, true
	}
	own, found := u.own[s]
	c := u.find(server)
	if !found || c == nil || !u.isolated(c) || u.closed {
		return nil, false
	}
	if own[server] == nil {
		own[server] = u.newOwn(c, s)
	}
	return own[server], true
}

// newOwn makes an upstream of a session.
func (u *Upstreams) newOwn(c *config.Upstream, s route.Session) *managedUpstream {
	client := newClientIdentity(OneClient, u.env.Name, u.env.Version)
	client.adoptSession(s, nil)
	return newManaged(&u.env, c, s, client)
}

// retire ends an upstream when the calls in flight have ended. No call takes longer than the
// upstream's max_timeout, unless the client does not read. The caller holds u.mu.
func (u *Upstreams) retire(m *managedUpstream) {
	idle := m.retire(u.managed)
	u.env.listed.Delete(m.name)
	u.closing.Go(func() {
		late := time.NewTimer(cmp.Or(m.spec.MaxTimeout, time.Duration(limits.RequestTotalTime.Default)) + time.Minute)
		defer late.Stop()
		select {
		case <-idle:
		case <-late.C:
			u.env.Log.Warn("calls of an upstream that was removed or replaced do not end, and are abandoned", "upstream", m.name)
		case <-u.stop:
		}
		u.end(m)
	})
}

// end closes an upstream within closeTime.
func (u *Upstreams) end(m *managedUpstream) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := m.close(ctx); err != nil {
		u.env.Log.Warn("end of an upstream", "err", err)
	}
}

// all opens and returns the current upstreams in the order of the configuration, first the shared
// upstreams, then the upstreams of sessions.
func (u *Upstreams) all() []*managedUpstream {
	all := u.listAll()
	for _, m := range all {
		m.open()
	}
	return all
}

// listAll is all without opening the upstreams.
func (u *Upstreams) listAll() []*managedUpstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []*managedUpstream
	for _, c := range u.order {
		if m, ok := u.shared[c.Name]; ok {
			all = append(all, m)
		}
	}
	for _, own := range u.own {
		for _, c := range u.order {
			if m, ok := own[c.Name]; ok {
				all = append(all, m)
			}
		}
	}
	return all
}

// Running returns the current number of upstreams, including the upstreams of sessions.
func (u *Upstreams) Running() int { return len(u.listAll()) }

// States returns the current states of the shared upstreams, in the order of the configuration,
// without waiting.
func (u *Upstreams) States() []servers.Status {
	var all []servers.Status
	for _, m := range u.listAll() {
		if m.own == nil {
			all = append(all, m.Status())
		}
	}
	return all
}

// sharedUpstream returns the shared upstream of a server.
func (u *Upstreams) sharedUpstream(server string) (*managedUpstream, error) {
	m, ok := u.managed(nil, server)
	if !ok {
		return nil, fmt.Errorf("upstream %q is not configured, or has an instance for each session", server)
	}
	return m, nil
}

// Request sends a request of no session to a shared upstream.
func (u *Upstreams) Request(ctx context.Context, server string, call wire.Call) (wire.Reply, error) {
	m, err := u.sharedUpstream(server)
	if err != nil {
		return wire.Reply{}, err
	}
	return m.Call(ctx, call)
}

// Snapshot waits until a shared upstream has started, and returns the upstream's snapshot. The
// error is the reason for the upstream's failure, or the cause of ctx.
func (u *Upstreams) Snapshot(ctx context.Context, server string) (Snapshot, error) {
	m, err := u.sharedUpstream(server)
	if err != nil {
		return Snapshot{}, err
	}
	if err := m.Ready(ctx); err != nil {
		return Snapshot{}, err
	}
	return m.snapshot(), nil
}

// Status returns the state of a shared upstream; false for an unknown name.
func (u *Upstreams) Status(server string) (servers.Status, bool) {
	m, err := u.sharedUpstream(server)
	if err != nil {
		return servers.Status{}, false
	}
	return m.Status(), true
}

// Close ends all upstreams. When ctx ends, Close kills them. The error joins the errors of the
// upstreams that did not end in time. Close may be called again, also concurrently, and then waits
// for the rest.
func (u *Upstreams) Close(ctx context.Context) error {
	u.mu.Lock()
	if !u.closed {
		u.closed = true
		close(u.stop)
	}
	u.mu.Unlock()
	all := u.listAll()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, m := range all {
		closing.Go(func() { errs[i] = m.close(ctx) })
	}
	closing.Wait()
	u.closing.Wait()
	return errors.Join(errs...)
}

// Clients is the number of clients. The number determines our client identity in the upstream
// handshake.
type Clients int

const (
	// NoClient: no client could answer requests of upstreams. We offer upstreams no client
	// capabilities.
	NoClient Clients = iota
	// OneClient: a single session (stdio). Handshakes wait for the session's initialize, and
	// upstreams get the params: capabilities, clientInfo, _meta.
	OneClient
	// ManyClients: sessions share the upstreams (HTTP). We offer upstreams every client capability.
	// If the client of a session does not support a request, the request is refused on arrival.
	ManyClients
)

// allCapabilities has all client capabilities of our newest revision.
const allCapabilities = `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},` +
	`"elicitation":{"form":{},"url":{}},` +
	`"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`

// clientIdentity is our client identity in the upstream handshake.
type clientIdentity struct {
	clients       Clients
	name, version string // our own

	once    sync.Once
	adopted chan struct{} // closed when params is set
	mu      sync.Mutex
	// params are the params of the client's initialize request, with the negotiated revision, and
	// era is the era of the client. mu guards them until adopted is closed.
	params []byte
	era    protocol.Era
}

func newClientIdentity(clients Clients, name, version string) *clientIdentity {
	return &clientIdentity{clients: clients, name: name, version: version, adopted: make(chan struct{})}
}

// adopt sets the identity to the identity of the client, given the params of the client's
// initialize request, or the result of route.Origin.Client for the client. many means several
// clients with different capabilities: each request of an upstream is checked on arrival. ready,
// unless nil, is called before upstreams get the identity. Only the first call of adopt counts.
func (c *clientIdentity) adopt(params []byte, revision protocol.Revision, many bool, ready func()) {
	c.once.Do(func() {
		defer close(c.adopted)
		if ready != nil {
			defer ready()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.era = revision.Era()
		if many {
			params, _ = wire.Set(params, []byte(allCapabilities), "capabilities")
		}
		if revision.Era() == protocol.Stateless {
			revision = protocol.Handshake.Newest()
		}
		// params is an object: the revision was read from params.
		c.params, _ = wire.Set(params, wire.Quote(revision.String()), "protocolVersion")
	})
}

// mark stands for the client capabilities that upstreams are told; "" while unknown.
func (c *clientIdentity) mark() string {
	capabilities := []byte(map[Clients]string{NoClient: "{}", ManyClients: allCapabilities}[c.clients])
	if c.clients == OneClient {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.params == nil {
			return ""
		}
		capabilities, _ = wire.Get(c.params, "capabilities")
	}
	sum := sha256.Sum256(capabilities)
	return hex.EncodeToString(sum[:8])
}

// adoptSession is adopt for the client of a session, or for the clients with a token.
func (c *clientIdentity) adoptSession(s route.Session, ready func()) {
	several, ok := s.(interface{ ManyClients() bool })
	c.adopt(s.Client(), s.Revision(), ok && several.ManyClients(), ready)
}

// clientEra is servers.Options.Era.
func (c *clientIdentity) clientEra() protocol.Era {
	if c.clients == OneClient && c.known() {
		return c.era
	}
	return protocol.Handshake
}

// known reports whether upstreams can get the identity already.
func (c *clientIdentity) known() bool {
	if c.clients != OneClient {
		return true
	}
	select {
	case <-c.adopted:
		return true
	default:
		return false
	}
}

// initializeParams is servers.Options.InitializeParams.
func (c *clientIdentity) initializeParams(ctx context.Context) ([]byte, error) {
	if c.clients == OneClient {
		select {
		case <-c.adopted:
			return c.params, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	capabilities := "{}"
	if c.clients == ManyClients {
		capabilities = allCapabilities
	}
	return servers.ClientParams{Name: c.name, Version: c.version, Capabilities: []byte(capabilities)}.Params(), nil
}

// Spec returns how to start or reach u. References in u stay as they are; see secret.Fill.
func Spec(cfg *config.Config, u *config.Upstream) servers.Spec {
	env := make([]string, 0, len(u.Env))
	for k, v := range u.Env {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	spec := servers.Spec{
		Name: u.Name, Transport: string(u.Transport), Command: u.Command, Args: u.Args, Env: env, Dir: u.Dir,
		URL: u.URL, Headers: u.Headers,
		Timeout: u.Timeout, MaxTimeout: u.MaxTimeout, MaxMessage: int(cfg.MaxMessage), MaxList: int(cfg.MaxList), Restart: string(u.Restart),
		Protocol: string(u.Protocol),
	}
	if u.Sandbox != nil {
		spec.Sandbox, spec.Own = u.Sandbox, cfg.OwnFiles(u)
	}
	if u.Invalid != nil { // a restart would fail in the same way
		spec.Restart = servers.RestartNever
	}
	if u.Detect {
		spec.Transport = "" // package upstream finds out
	}
	if o := u.OAuth; o != nil {
		spec.OAuth = &oauth.Config{
			Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes,
			ClientMetadata: o.ClientMetadata, AssumePKCE: o.AssumePKCE,
			RedirectPort: o.RedirectPort, TokenFile: cfg.TokenFile(),
		}
	}
	return spec
}

// Enabled returns the enabled upstreams, in the order of the configuration.
func Enabled(cfg *config.Config) []*config.Upstream {
	var enabled []*config.Upstream
	for i := range cfg.Upstreams {
		if c := &cfg.Upstreams[i]; !c.Disabled {
			enabled = append(enabled, c)
		}
	}
	return enabled
}

// Restarts reports whether an upstream running with the configuration old must be restarted for the
// configuration next. Everything outside of the upstream's own table is taken from cfg.
func Restarts(clients Clients, cfg *config.Config, old, next *config.Upstream) bool {
	return isolated(clients, old) != isolated(clients, next) || !sameSpec(Spec(cfg, old), Spec(cfg, next)) || !sameRest(old, next)
}

// sameRest reports whether two upstreams are equal in the settings that decide about a start and
// are not in a Spec.
func sameRest(a, b *config.Upstream) bool {
	return slices.Equal(a.References, b.References) && config.SameInvalid(a, b)
}

// lazy reports whether an upstream is started at the first use. An upstream with a mistake in the
// configuration fails at once.
func lazy(c *config.Upstream) bool { return c.Start == config.Lazy && c.Invalid == nil }

// isolated reports whether each session has a separate instance of an upstream. A single client has
// no other session to be isolated from.
func isolated(clients Clients, c *config.Upstream) bool {
	return c.Isolation == config.PerSession && clients == ManyClients
}

func sameSpec(a, b servers.Spec) bool { return reflect.DeepEqual(a, b) }
