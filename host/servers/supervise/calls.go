package supervise

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

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
