package stateless

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Bounds of subscriptions.
const (
	// maxUpdates bounds the updates of resources that wait for a client that does not read. Beyond
	// maxUpdates the client's subscription ends.
	maxUpdates = 4096
	// subscribeTime is how long the acknowledgement waits for the servers of the resources.
	// Resources without a subscription by then are left out.
	subscribeTime = 5 * time.Second
	// atOnce is how many servers are asked at a time.
	atOnce = 16
)

// listener is a request for subscriptions/listen, which is answered when the subscription
// ends.
type listener struct {
	principal *Principal
	request   *rpc.Request
	filter    filter        // pending may hold more than the honoured filter
	honoured  filter        // the filter in effect; of run
	stops     []func()      // end watching the tasks of honoured; of run
	wake      chan struct{} // holds a token while something is pending

	mu      sync.Mutex              // guards the fields below; a leaf
	changes map[wire.Surface][]byte // with the params of the notifications
	updates []update
	over    bool // too many updates
}

// update is the update of a resource or task, with the params of the notification.
type update struct {
	method string
	id     string // URI of the resource, or id of the task
	params []byte
}

// listen begins a subscription.
func (p *Principal) listen(r *rpc.Request, e envelope.Envelope) {
	f, bad := parseFilter(r.Params)
	if bad == nil && len(f.tasks) > 0 && !has(e.Capabilities, "extensions", protocol.ExtensionTasks) {
		bad = route.TasksUndeclared(r.Method)
	}
	if bad != nil {
		r.Reply(wire.Reply{Error: bad.Raw()})
		return
	}
	f.supported(capabilities(p.opts.Backend.Discover(p)))
	l := &listener{principal: p, request: r, filter: f, wake: make(chan struct{}, 1), changes: map[wire.Surface][]byte{}}
	p.mu.Lock()
	p.listeners[l] = true
	p.mu.Unlock()
	p.open.Add(1)
	r.Start(l.run)
}

// run sends notifications until the client or the server ends the subscription. The answer reports
// the end.
func (l *listener) run(ctx context.Context, _ *rpc.Request) wire.Reply {
	defer l.principal.open.Done()
	defer l.leave()
	l.honoured = l.filter
	l.honoured.uris = l.subscribe(ctx, l.filter.uris)
	l.honoured.tasks = l.watch(ctx, l.filter.tasks)
	var ack wire.Object
	ack.Raw("_meta", l.meta())
	ack.Raw("notifications", l.honoured.bytes())
	l.send(ctx, protocol.NotificationAcknowledged, ack.Bytes())
	for l.sendPending(ctx) {
		select {
		case <-l.wake:
		case <-ctx.Done():
		case <-l.principal.ctx.Done():
			return l.end()
		}
	}
	return l.end()
}

func (l *listener) end() wire.Reply {
	meta, _ := wire.Set(l.meta(), l.principal.serverInfo, envelope.KeyServerInfo)
	var result wire.Object
	result.Text("resultType", envelope.TypeComplete)
	result.Raw("_meta", meta)
	return wire.Reply{Result: result.Bytes()}
}

func (l *listener) meta() []byte {
	var meta wire.Object
	meta.Raw(envelope.KeySubscription, l.request.ID)
	return meta.Bytes()
}

// sendPending sends the pending notifications. sendPending returns false if the subscription must
// end.
func (l *listener) sendPending(ctx context.Context) bool {
	l.mu.Lock()
	changes, updates, over := l.changes, l.updates, l.over
	l.changes, l.updates = map[wire.Surface][]byte{}, nil
	l.mu.Unlock()
	for _, surface := range wire.Surfaces {
		if notice, due := changes[surface]; due {
			l.sendTagged(ctx, surface.ChangedMethod(), notice)
		}
	}
	for _, u := range updates {
		wanted := l.honoured.wants(u.id)
		if u.method == protocol.NotificationTask {
			wanted = l.honoured.watches(u.id)
		}
		if wanted {
			l.sendTagged(ctx, u.method, u.params)
		}
	}
	return !over && ctx.Err() == nil
}

// sendTagged sends a notification with the id of the subscription.
func (l *listener) sendTagged(ctx context.Context, method string, params []byte) {
	tagged, err := wire.Set(params, l.request.ID, "_meta", envelope.KeySubscription)
	if err != nil { // the params of the server's notification, or their _meta, are no objects
		if tagged, err = wire.Set(nil, l.request.ID, "_meta", envelope.KeySubscription); err != nil {
			return
		}
	}
	l.send(ctx, method, tagged)
}

func (l *listener) send(ctx context.Context, method string, params []byte) {
	if err := l.request.Notify(ctx, method, params); err != nil {
		l.principal.opts.Log.Debug("notification to a subscriber lost", "method", method, "err", err)
	}
}

func (l *listener) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // wake holds a token already
	}
}

// changed adds a changed list. Several changes of a list are merged, and the notice is dropped if
// the notices differ.
func (l *listener) changed(surface wire.Surface, notice []byte) {
	l.mu.Lock()
	if before, due := l.changes[surface]; due && string(before) != string(notice) {
		notice = nil
	}
	l.changes[surface] = notice
	l.mu.Unlock()
	l.signal()
}

// updated adds the update of a resource or task. Several updates of the same resource or task are
// merged.
func (l *listener) updated(method, id string, params []byte) {
	l.mu.Lock()
	at := slices.IndexFunc(l.updates, func(u update) bool { return u.method == method && u.id == id })
	switch {
	case at >= 0:
		l.updates[at].params = params
	case len(l.updates) >= maxUpdates:
		l.over = true
	default:
		l.updates = append(l.updates, update{method, id, params})
	}
	l.mu.Unlock()
	l.signal()
}

// Changed implements route.Session.
func (p *Principal) Changed(surface wire.Surface, notice []byte) {
	if surface == wire.Templates { // templates have no notification of their own
		surface = wire.Resources
	}
	for _, l := range p.matching(func(l *listener) bool { return l.filter.lists[surface] }) {
		l.changed(surface, notice)
	}
}

// Notify implements route.Origin. Notifications that belong to no request reach only subscribers.
func (p *Principal) Notify(method string, params []byte) {
	member, wants := "uri", filter.wants
	switch method {
	case protocol.NotificationResourceUpdated:
	case protocol.NotificationTask:
		member, wants = "taskId", filter.watches
	default:
		return
	}
	id, ok := wire.GetString(params, member)
	if !ok {
		return
	}
	for _, l := range p.matching(func(l *listener) bool { return wants(l.filter, id) }) {
		l.updated(method, id, params)
	}
}

// matching returns the listeners for which f is true.
func (p *Principal) matching(f func(l *listener) bool) []*listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []*listener
	for l := range p.listeners {
		if f(l) {
			some = append(some, l)
		}
	}
	return some
}

// subscription is a resource with subscribed listeners. The server is told only of the first and
// the last listener.
type subscription struct {
	count   int
	settled chan struct{} // closed when the server has been told
}

// subscribe subscribes to resources and returns the resources with a successful subscription.
func (l *listener) subscribe(ctx context.Context, uris []string) []string {
	ctx, cancel := context.WithTimeout(ctx, subscribeTime)
	defer cancel()
	done := make([]bool, len(uris))
	places := make(chan struct{}, atOnce)
	var asked sync.WaitGroup
	for i, uri := range uris {
		places <- struct{}{}
		asked.Go(func() {
			done[i] = l.principal.subscribe(ctx, uri)
			<-places
		})
	}
	asked.Wait()
	var all []string
	for i, uri := range uris {
		if done[i] {
			all = append(all, uri)
		}
	}
	return all
}

// leave ends the subscription.
func (l *listener) leave() {
	p := l.principal
	p.mu.Lock()
	delete(p.listeners, l)
	p.mu.Unlock()
	for _, uri := range l.honoured.uris {
		p.unsubscribe(uri)
	}
	for _, stop := range l.stops {
		stop()
	}
}

// watch begins to watch tasks, and returns the successfully watched tasks.
func (l *listener) watch(ctx context.Context, ids []string) []string {
	watcher, ok := l.principal.opts.Backend.(TaskWatcher)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeTime)
	defer cancel()
	stops := make([]func(), len(ids))
	places := make(chan struct{}, atOnce)
	var asked sync.WaitGroup
	for i, id := range ids {
		places <- struct{}{}
		asked.Go(func() {
			if stop, ok := watcher.WatchTask(ctx, l.principal, id); ok {
				stops[i] = stop
			}
			<-places
		})
	}
	asked.Wait()
	var all []string
	for i, id := range ids {
		if stops[i] != nil {
			all = append(all, id)
			l.stops = append(l.stops, stops[i])
		}
	}
	return all
}

// subscribe adds a subscriber of a resource. subscribe returns false if the subscription is
// impossible, or if ctx ends first.
func (p *Principal) subscribe(ctx context.Context, uri string) bool {
	for {
		p.mu.Lock()
		s := p.uris[uri]
		if s != nil && s.count > 0 {
			s.count++
			p.mu.Unlock()
			return true
		}
		if s == nil {
			s = &subscription{settled: make(chan struct{})}
			p.uris[uri] = s
			p.mu.Unlock()
			return p.settle(uri, s, p.tell(ctx, protocol.MethodResourcesSubscribe, uri))
		}
		p.mu.Unlock()
		select {
		case <-s.settled: // now the role of the first subscriber is decided
		case <-ctx.Done():
			return false
		}
	}
}

// settle records the outcome of telling the server.
func (p *Principal) settle(uri string, s *subscription, subscribed bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if subscribed {
		s.count = 1
	} else {
		delete(p.uris, uri)
	}
	close(s.settled)
	return subscribed
}

// unsubscribe removes a subscriber of a resource.
func (p *Principal) unsubscribe(uri string) {
	p.mu.Lock()
	s := p.uris[uri]
	s.count--
	last := s.count == 0
	if last {
		s.settled = make(chan struct{})
	}
	p.mu.Unlock()
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, subscribeTime)
	defer cancel()
	p.tell(ctx, protocol.MethodResourcesUnsubscribe, uri)
	p.settle(uri, s, false)
}

// tell subscribes or unsubscribes at the server of a resource.
func (p *Principal) tell(ctx context.Context, method, uri string) bool {
	var params wire.Object
	params.Text("uri", uri)
	reply := p.opts.Backend.Handle(ctx, route.Call{Method: method, Origin: p, Params: params.Bytes()})
	return reply.Error == nil
}

// maxURIs bounds the resources of a subscription, and maxTasks the tasks.
const (
	maxURIs  = 1024
	maxTasks = 256
)

// filter says which notifications a client wants (revision 2026-07-28,
// basic/patterns/subscriptions, "Filter").
type filter struct {
	lists map[wire.Surface]bool
	uris  []string
	tasks []string // ids of tasks of the extension
}

// parseFilter reads the params of subscriptions/listen. Unknown types are left out, since the
// acknowledgement lists the supported types.
func parseFilter(params []byte) (filter, *wire.RPCError) {
	f := filter{lists: map[wire.Surface]bool{}}
	raw, ok := wire.Get(params, "notifications")
	if !ok || !wire.IsObject(raw) {
		return f, wrongFilter("notifications must be an object")
	}
	for _, m := range envelope.ListMembers {
		value, ok := wire.Get(raw, m.Name)
		switch {
		case !ok || string(value) == "false":
		case string(value) == "true":
			f.lists[m.Surface] = true
		default:
			return f, wrongFilter("notifications.%s must be true or false", m.Name)
		}
	}
	var bad *wire.RPCError
	if f.uris, bad = texts(raw, "resourceSubscriptions", maxURIs); bad == nil {
		f.tasks, bad = texts(raw, "taskIds", maxTasks)
	}
	return f, bad
}

// texts returns the distinct strings in an array that is a member of a filter.
func texts(raw []byte, name string, most int) (all []string, bad *wire.RPCError) {
	array, ok := wire.Get(raw, name)
	if !ok {
		return nil, nil
	}
	items, err := wire.Elements(array)
	if err != nil || len(items) > most {
		return nil, wrongFilter("notifications.%s must be an array of at most %d strings", name, most)
	}
	for _, item := range items {
		text, ok := wire.Text(item)
		if !ok {
			return nil, wrongFilter("notifications.%s must have strings only", name)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, nil
}

func wrongFilter(format string, args ...any) *wire.RPCError {
	return wire.Errorf(wire.CodeInvalidParams, protocol.MethodListen+": params."+format, args...)
}

// supported leaves out the types that the server does not have, according to capabilities.
func (f *filter) supported(capabilities []byte) {
	for surface := range f.lists {
		if !has(capabilities, surface.Capability(), "listChanged") {
			delete(f.lists, surface)
		}
	}
	if !has(capabilities, "resources", "subscribe") {
		f.uris = nil
	}
	if !has(capabilities, "extensions", protocol.ExtensionTasks) {
		f.tasks = nil
	}
}

func has(capabilities []byte, path ...string) bool {
	value, ok := wire.Get(capabilities, path...)
	return ok && string(value) != "null" && string(value) != "false"
}

// bytes returns the filter in the form of the acknowledgement.
func (f filter) bytes() []byte {
	var o wire.Object
	for _, m := range envelope.ListMembers {
		if f.lists[m.Surface] {
			o.Bool(m.Name, true)
		}
	}
	o.Texts("resourceSubscriptions", f.uris)
	o.Texts("taskIds", f.tasks)
	return o.Bytes()
}

// wants reports whether the filter has a resource or a resource above, with the rules of route for
// subscriptions of the handshake era.
func (f filter) wants(uri string) bool {
	return slices.ContainsFunc(f.uris, func(above string) bool {
		rest, below := strings.CutPrefix(uri, above)
		return below && above != "" && (rest == "" || strings.HasSuffix(above, "/") || strings.IndexByte("/?#", rest[0]) >= 0)
	})
}

// watches reports whether the filter has a task.
func (f filter) watches(id string) bool { return slices.Contains(f.tasks, id) }
