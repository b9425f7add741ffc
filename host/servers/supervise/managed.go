package supervise

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// managedUpstream is an upstream, perhaps before the start, if the configuration has start =
// "lazy". Before the first reading of the lists, the snapshot of an earlier run is used. It
// implements route.Upstream and health.Connection.
type managedUpstream struct {
	env    *environment
	name   string
	spec   servers.Spec                    // for the start
	conf   atomic.Pointer[config.Upstream] // the current configuration; only parts missing in spec may change
	own    route.Session                   // the only session of the upstream; nil: shared
	client *clientIdentity
	round  atomic.Pointer[secret.Source] // for the first start; nil: a separate source
	key    string                        // of the snapshot
	lists  *keptLists
	opened sync.Once // see open
	waits  bool      // the snapshot is read when the client is known; only for open and introduce
	spares spares

	// publishing is held while a list is set in the catalog. All upstreams of the same name share
	// publishing, so that a retired upstream cannot overwrite a list of the replacement. The lock
	// may be held for long, so no goroutine waits for publishing with another lock.
	publishing *sync.Mutex
	asking     sync.Mutex // held while the server is asked for the eras; see findEras
	saving     sync.Mutex // held while the snapshot is saved, so that the newest snapshot is kept
	saved      [32]byte   // SHA-256 of the last known content of the snapshot's file; guarded by saving
	failure    Failure    // the last saved failure; guarded by saving

	mu      sync.Mutex // guards the fields below
	up      *servers.Upstream
	begun   time.Time // when up was started
	closed  bool
	retired bool // takes no more calls
	// replacement finds the upstream that takes the calls of a session (nil: of no session) after
	// the retirement of this upstream.
	replacement func(s route.Session, server string) (*managedUpstream, bool)
	spoken      protocol.Era  // of the last handshake in this run; 0 for none
	known       Snapshot      // the known snapshot; parts still unknown in this run are of an earlier run
	wasReady    bool          // the upstream has been ready in this run
	wasLate     bool          // the upstream was late in the last run before this run
	remembered  bool          // known is of an earlier run, and the upstream has not been ready in this run
	busy        int           // calls in flight
	idle        chan struct{} // made by retire; closed when no call is in flight
}

// newManaged makes a managed upstream. The caller calls open without holding a lock.
func newManaged(env *environment, conf *config.Upstream, own route.Session, client *clientIdentity) *managedUpstream {
	cfg := env.config()
	m := &managedUpstream{env: env, name: conf.Name, spec: Spec(cfg, conf), own: own, client: client}
	publishing, _ := env.publishing.LoadOrStore(conf.Name, &sync.Mutex{})
	m.publishing = publishing.(*sync.Mutex)
	m.key = snapshotKey(m.spec, cfg.NewMasker())
	m.lists = newKeptLists(env.Budget, m)
	m.conf.Store(conf)
	return m
}

// open reads the snapshot, and starts the upstream unless the start can wait. Only the first call
// acts; other calls wait for the first call.
func (m *managedUpstream) open() {
	m.opened.Do(func() {
		m.waits = !m.client.known()
		restored := m.restore()
		if restored {
			m.waits = false
		}
		if !lazy(m.conf.Load()) || !restored && !m.waits {
			m.start()
		}
	})
}

// publish calls set, which sets a list in the catalog, unless the upstream has been
// retired.
func (m *managedUpstream) publish(set func()) {
	m.publishing.Lock()
	defer m.publishing.Unlock()
	if !m.isRetired() {
		set()
	}
}

// publishList sets a list in the catalog. The pins get the list first, so that no item can be used
// before the comparison with the pins.
func (m *managedUpstream) publishList(l catalog.List) {
	m.publish(func() {
		if m.env.Pins != nil {
			m.env.Pins.Offer(m.name, l.Surface, l.Items)
		}
		m.env.Catalog.SetList(m.name, l)
	})
}

// publishHandshake gives the pins a handshake.
func (m *managedUpstream) publishHandshake(result []byte) {
	if m.env.Pins != nil {
		m.publish(func() { m.env.Pins.OfferHandshake(m.name, result) })
	}
}

// start starts the upstream if necessary. start returns nil if the upstream was closed or retired
// before the start.
func (m *managedUpstream) start() *servers.Upstream {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.startLocked()
}

// startLocked is start for a caller that holds m.mu.
func (m *managedUpstream) startLocked() *servers.Upstream {
	if m.up != nil || m.closed || m.retired {
		return m.up
	}
	receiver := m.env.Receiver(m.name, m.own)
	m.begun = time.Now()
	m.up = servers.Start(m.spec, servers.Options{
		Log: m.env.Log, Budget: m.env.Budget, Observer: m.env.Observer, InitializeParams: m.client.initializeParams, Streams: m.env.Streams,
		ClientName: m.client.name, ClientVersion: m.client.version, Resolve: m.resolve, Accept: m.accept, Verdict: m.known.Verdict, OnVerdict: m.updateVerdict, Era: m.client.clientEra,
		OnHandshake: m.updateHandshake, OnList: m.updateList, KeepList: m.lists.keep,
		OnNotification: receiver.OnNotification, OnRequest: receiver.OnRequest, OnFailed: func() { m.saveLate(); m.noteFailure() },
		OnReady: func() {
			if m.becomeReady() {
				receiver.OnReady()
			}
		},
	})
	return m.up
}

// accept implements servers.Options.Accept: we must not be our own upstream.
func (m *managedUpstream) accept(result []byte) error {
	return CheckNestedResult(result, m.env.config())
}

// resolve implements servers.Options.Resolve: resolve adds secrets and the mark of nested proxies.
func (m *managedUpstream) resolve(ctx context.Context, spec servers.Spec) (servers.Spec, error) {
	if invalid := m.conf.Load().Invalid; invalid != nil {
		return servers.Spec{}, invalid
	}
	spec, err := m.withSecrets(ctx, spec)
	if err == nil && spec.Command != "" {
		spec.Env = append(slices.Clone(spec.Env), NestedEnv(m.env.config()))
	}
	return spec, err
}

func (m *managedUpstream) withSecrets(ctx context.Context, spec servers.Spec) (servers.Spec, error) {
	var source secret.Source = m.env.fetcher
	if round := m.round.Swap(nil); round != nil {
		source = *round
	}
	conf := m.conf.Load()
	if len(conf.References) == 0 {
		return spec, nil
	}
	cfg := m.env.config()
	filled, err := secret.Fill(ctx, source, cfg, conf)
	if err != nil {
		return servers.Spec{}, err
	}
	out := Spec(cfg, filled)
	out.Restart, out.Protocol = spec.Restart, spec.Protocol // a spare has separate values
	return out, nil
}

// updateHandshake gets the result of each initialize.
func (m *managedUpstream) updateHandshake(result []byte) {
	before := m.snapshot().Handshake
	name, _ := wire.GetString(result, "protocolVersion")
	revision, _ := protocol.Lookup(name)
	m.mu.Lock()
	m.spoken = revision.Era()
	m.mu.Unlock()
	m.update(func(s *Snapshot) { s.Handshake = result })
	m.publishHandshake(result)
	if m.isRemembered() && !sameForClients(before, result) {
		m.env.Log.Info("the upstream announces other capabilities or instructions than in the last run: existing sessions got the old values", "upstream", m.name)
	}
}

// updateList gets each list of the upstream.
func (m *managedUpstream) updateList(l servers.List) {
	m.update(func(s *Snapshot) { s.Lists[l.Surface] = List{l.Items, l.Meta} })
	list := catalog.List{
		Surface: l.Surface, Items: l.Items, Meta: l.Meta, Announced: l.Announced, Notice: l.Notice,
		Stateless: m.snapshot().stateless(), Fresh: l.Fresh,
	}
	if hints := list.Fresh.Hints; m.own != nil && hints != nil { // other sessions have separate instances
		list.Fresh.Hints = &envelope.Hints{TTL: hints.TTL, Scope: envelope.ScopePrivate}
	}
	m.publishList(list)
	if m.own != nil && l.Surface == wire.Prompts && !m.isRetired() { // the last list; becomeReady is later than a session's answer
		m.env.listed.Store(m.name, true)
	}
	if m.Status().State == servers.Ready { // else becomeReady will save the snapshot
		m.save()
	}
}

// becomeReady is called after each start. becomeReady returns false if the upstream has been
// retired and only finishes the calls in flight.
func (m *managedUpstream) becomeReady() bool {
	if m.isRetired() {
		return false
	}
	m.mu.Lock()
	m.remembered, m.wasReady, m.wasLate = false, true, false
	m.mu.Unlock()
	m.update(func(s *Snapshot) { s.Late = false })
	m.save()
	if m.own != nil {
		m.env.listed.Store(m.name, true)
	}
	return true
}

// startWait returns how long to wait for the upstream; wait is the time for an upstream without a
// history. An upstream that was late in the last run will probably be late again. This run does not
// count: a client that has given up waiting for the handshake asks for the lists next, and may
// still get them in time.
func (m *managedUpstream) startWait(wait time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wasLate {
		return wait / 5
	}
	return wait
}

// listWait is startWait for the first lists. With NoClient, which commands have, listWait returns
// the whole wait: the only call of a command may be the call of a tool in these lists, and a
// command cannot be notified of the lists later.
func (m *managedUpstream) listWait(wait time.Duration) time.Duration {
	if m.env.Clients == NoClient {
		return wait
	}
	return m.startWait(wait)
}

// sameForClients reports whether two handshakes lead to the same initialize result
// for clients.
func sameForClients(a, b []byte) bool {
	for _, member := range []string{"capabilities", "instructions", "_meta"} {
		before, _ := wire.Get(a, member)
		now, _ := wire.Get(b, member)
		if !bytes.Equal(before, now) {
			return false
		}
	}
	return true
}

func (m *managedUpstream) isRemembered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.remembered
}

// update changes the known snapshot. Maps are replaced, not modified, because other goroutines may
// be reading them.
func (m *managedUpstream) update(change func(s *Snapshot)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = m.known.clone()
	change(&m.known)
}

// snapshot returns the known snapshot.
func (m *managedUpstream) snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// running returns the upstream, nil before the start.
func (m *managedUpstream) running() *servers.Upstream {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.up
}

// Status implements health.Connection.
func (m *managedUpstream) Status() servers.Status {
	if up := m.running(); up != nil {
		return up.Status()
	}
	st := servers.Status{Name: m.name, State: health.Asleep}
	known := m.snapshot()
	st.ServerName, _ = wire.GetString(known.Handshake, "serverInfo", "name")
	st.ServerVersion, _ = wire.GetString(known.Handshake, "serverInfo", "version")
	st.ProtocolVersion, _ = wire.GetString(known.Handshake, "protocolVersion")
	st.Tools, st.Resources = len(known.Lists[wire.Tools].Items), len(known.Lists[wire.Resources].Items)
	st.Templates, st.Prompts = len(known.Lists[wire.Templates].Items), len(known.Lists[wire.Prompts].Items)
	return st
}

// reconfigure makes c the configuration of the upstream, without a start. reconfigure returns
// false, and changes nothing, if the upstream would have to be restarted.
func (m *managedUpstream) reconfigure(cfg *config.Config, c *config.Upstream) bool {
	if !sameSpec(m.spec, Spec(cfg, c)) || !sameRest(m.conf.Load(), c) {
		return false
	}
	m.conf.Store(c)
	return true
}

func (m *managedUpstream) isRetired() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.retired
}

// retire makes the upstream take no more calls; the upstream found by replacement gets them. The
// channel is closed when the calls in flight have ended.
func (m *managedUpstream) retire(replacement func(s route.Session, server string) (*managedUpstream, bool)) (idle <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retired, m.replacement = true, replacement
	over := make(chan struct{})
	if m.busy == 0 {
		close(over)
	} else {
		m.idle = over
	}
	return over
}

// successor returns the upstream that takes the calls of a session (nil: of no session) after the
// retirement of this upstream. The error means that no such upstream exists.
func (m *managedUpstream) successor(session route.Session) (*managedUpstream, error) {
	m.mu.Lock()
	find := m.replacement
	m.mu.Unlock()
	if session == nil {
		session = m.own
	}
	if find != nil {
		if next, ok := find(session, m.name); ok {
			return next, nil
		}
	}
	return nil, m.closedError()
}

// closedError returns the error of calls to a closed upstream.
func (m *managedUpstream) closedError() error {
	reason := "closed"
	if m.isRetired() {
		reason = "it was removed from the configuration"
	}
	return &servers.DownError{Upstream: m.name, Reason: reason, Err: wire.ErrClosed}
}

// close shuts the upstream down.
func (m *managedUpstream) close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	up := m.up
	m.mu.Unlock()
	defer m.lists.close()
	if up == nil {
		return nil
	}
	var spares error
	var closing sync.WaitGroup
	closing.Go(func() { spares = m.spares.close(ctx) })
	err := up.Close(ctx)
	closing.Wait()
	return errors.Join(err, spares)
}

// Ready implements route.Upstream, and starts the upstream if needed.
func (m *managedUpstream) Ready(ctx context.Context) error {
	err := m.closedError()
	if up := m.start(); up != nil {
		err = m.masked(up.Ready(ctx))
	}
	if err == nil || ctx.Err() != nil || !m.isRetired() {
		return err
	}
	next, err := m.successor(nil)
	if err != nil {
		return err
	}
	return next.Ready(ctx)
}

// Handshake implements route.Upstream. A handshake of an earlier run is sufficient. For an upstream
// that was late in the last run, the wait is shorter than ctx allows.
func (m *managedUpstream) Handshake(ctx context.Context) ([]byte, error) {
	if result, ok := m.Server(); ok {
		return result, nil
	}
	up := m.start()
	if up == nil {
		return nil, m.closedError()
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.startWait(time.Until(deadline)))
		defer cancel()
	}
	result, err := up.Handshake(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		m.noteLate()
	}
	return result, err
}

// Server implements route.Upstream.
func (m *managedUpstream) Server() (result []byte, ok bool) {
	known := m.snapshot()
	return known.Handshake, known.Handshake != nil
}

// lazyReplies are the results of requests that do not start an upstream. An upstream gets the log
// level at the start, and before the start has no tasks and no subscriptions.
var lazyReplies = map[string]string{
	protocol.MethodSetLevel: `{}`, protocol.MethodTasksList: `{"tasks":[]}`, protocol.MethodResourcesUnsubscribe: `{}`,
}

// lazyReply returns the result of a request that does not need the upstream. ok is false if the
// request needs the upstream.
func (m *managedUpstream) lazyReply(method string) (result string, ok bool) {
	result, ok = lazyReplies[method]
	m.mu.Lock()
	up, remembered, retired := m.up, m.remembered, m.retired
	m.mu.Unlock()
	if retired || !ok {
		return "", false
	}
	return result, up == nil || remembered && method == protocol.MethodSetLevel && up.Status().State != servers.Ready
}

// Call implements route.Upstream, and starts the upstream if needed. A call just after the
// retirement of the upstream is passed to the successor.
func (m *managedUpstream) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return m.callIn(ctx, 0, call)
}

// callIn is Call for a client of an era; 0 for none.
func (m *managedUpstream) callIn(ctx context.Context, era protocol.Era, call wire.Call) (wire.Reply, error) {
	if result, ok := m.lazyReply(call.Method); ok {
		return wire.Reply{Result: []byte(result)}, nil
	}
	begin, end := m.beginCall, m.endCall
	if call.Method == protocol.MethodListen { // the subscription lasts until the caller is told to begin anew
		begin, end = m.taking, func() {}
	}
	up := begin()
	if up == nil {
		var session route.Session
		if o, ok := call.Owner.(route.Origin); ok {
			session = o.Session()
		}
		next, err := m.successor(session)
		if err != nil {
			return wire.Reply{}, err
		}
		return next.callIn(ctx, era, call)
	}
	defer end()
	if err := m.awaitChanges(ctx, up, call.Method); err != nil {
		return wire.Reply{}, err
	}
	reply, err := m.callPlaced(ctx, up, era, call)
	return reply, m.masked(err)
}

var _ route.Submitter = (*managedUpstream)(nil)

// Submit implements route.Submitter.
func (m *managedUpstream) Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool) {
	return m.submitIn(0, call, complete)
}

// submitIn is Submit for a client of an era; 0 for none.
func (m *managedUpstream) submitIn(era protocol.Era, call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool) {
	if _, known := m.otherEra(era, call.Method); !known {
		return nil, false
	}
	up := m.beginCall()
	if up == nil {
		return nil, false
	}
	if m.changing(up, call.Method) {
		m.endCall()
		return nil, false
	}
	spare, leave := m.place(era, call, true)
	end := func() {
		leave()
		m.endCall()
	}
	if spare != nil { // the spare may still be starting
		end()
		return nil, false
	}
	cancel, ok = up.Submit(call, func(reply wire.Reply, next wire.Continuation) {
		if next == nil {
			end()
			complete(reply, nil)
			return
		}
		complete(reply, func(ctx context.Context) (wire.Reply, error) {
			defer end()
			reply, err := next(ctx)
			return reply, m.masked(err)
		})
	})
	if !ok {
		end()
	}
	return cancel, ok
}

// usedBy are the surfaces with definitions that decide about a request.
var usedBy = map[string][]wire.Surface{
	protocol.MethodToolsCall:          {wire.Tools},
	protocol.MethodPromptsGet:         {wire.Prompts},
	protocol.MethodComplete:           {wire.Prompts, wire.Templates},
	protocol.MethodResourcesRead:      {wire.Templates},
	protocol.MethodResourcesSubscribe: {wire.Templates},
}

// changing reports whether pins of the server are enforced, and a definition that decides about a
// request may have changed since the comparison with the pins.
func (m *managedUpstream) changing(up *servers.Upstream, method string) bool {
	surfaces := usedBy[method]
	return surfaces != nil && m.env.Pins != nil && m.env.Pins.Mode(m.name) == pins.Enforce && up.Changing(surfaces...)
}

// awaitChanges waits until the changed definitions have been read, as long as Refreshed does. The
// error is a *wire.DeniedError if the definitions could not be read in time.
func (m *managedUpstream) awaitChanges(ctx context.Context, up *servers.Upstream, method string) error {
	if !m.changing(up, method) {
		return nil
	}
	up.AwaitLists(ctx, m.env.changeWait, usedBy[method]...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if m.changing(up, method) {
		return &wire.DeniedError{Err: &pins.Finding{
			Item: pins.Item{Server: m.name, Surface: pins.About}, Reason: pins.Unread, Withheld: true,
		}}
	}
	return nil
}

// beginCall counts a call as in flight and returns the upstream. endCall must follow,
// unless beginCall returns nil because the upstream takes no more calls.
func (m *managedUpstream) beginCall() *servers.Upstream {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.retired {
		return nil
	}
	m.busy++
	return m.startLocked()
}

// taking is beginCall for requests that do not count as calls in flight. The replacement of the
// upstream does not wait for them.
func (m *managedUpstream) taking() *servers.Upstream {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.retired {
		return nil
	}
	return m.startLocked()
}

// endCall is the counterpart of beginCall.
func (m *managedUpstream) endCall() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy--
	if m.busy == 0 && m.idle != nil {
		close(m.idle)
		m.idle = nil
	}
}

// Notify implements route.Upstream. An upstream before the start needs no notification: the
// upstream asks for everything when started. A notification about a request of the server goes to
// the process that has made the request, other notifications to all processes.
func (m *managedUpstream) Notify(ctx context.Context, method string, params []byte) error {
	if from := servers.Asking(ctx); from != nil {
		return from.Notify(ctx, method, params)
	}
	up := m.running()
	if up == nil {
		return nil
	}
	return m.spares.notifyAll(ctx, up, method, params)
}

// masked removes secrets from the error of a downed upstream, because clients see the error.
func (m *managedUpstream) masked(err error) error {
	var down *servers.DownError
	if !errors.As(err, &down) {
		return err
	}
	masked := *down
	masked.Reason = m.env.mask(down.Reason)
	return &masked
}

// keptLists counts the lists of an upstream in the budget, which bounds the lists of all upstreams
// together, so that no server takes the memory of other servers.
type keptLists struct {
	account *budget.Account

	mu sync.Mutex // held while the account is changed
	of map[wire.Surface]int64
}

// newKeptLists returns the lists of an upstream. The lists of a server for several sessions are a
// group.
func newKeptLists(b *budget.Budget, m *managedUpstream) *keptLists {
	return &keptLists{account: b.OpenList(budget.Member{Group: m.name, Of: m}), of: map[wire.Surface]int64{}}
}

// keep counts a list that replaces the previous list. After a *budget.FullError the previous list
// still counts.
func (k *keptLists) keep(surface wire.Surface, bytes int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := bytes
	for s, n := range k.of {
		if s != surface {
			all += n
		}
	}
	if err := k.account.Set(all); err != nil {
		return err
	}
	k.of[surface] = bytes
	return nil
}

// close ends the counting. No list is kept afterwards.
func (k *keptLists) close() { k.account.Close() }
