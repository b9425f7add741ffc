package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// topic is a resource to which sessions are subscribed over a connection.
type topic struct {
	conn connKey
	uri  string
}

// subscribe subscribes the session to a resource at the upstream with the resource.
func (r *Router) subscribe(ctx context.Context, call Call) wire.Reply {
	uri, bad := stringParam(call, "uri")
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	return r.askForURI(ctx, call, uri, func(c serverConn) wire.Reply {
		return r.subscribeAt(ctx, call, c, uri)
	}, "resources", "subscribe")
}

// subscribeAt subscribes at an upstream. The session becomes a subscriber before the upstream is
// asked, since the first update may come with the answer.
func (r *Router) subscribeAt(ctx context.Context, call Call, c serverConn, uri string) wire.Reply {
	s, t := call.Origin.Session(), topic{c.key(), uri}
	if len(uri) > maxSubscribed {
		return fail(wire.CodeInvalidParams, "%s: params.uri is longer than %d bytes", call.Method, maxSubscribed)
	}
	release, err := r.subscribing.lock(ctx, t)
	if err != nil {
		return fail(wire.CodeInternal, "%s: %v", call.Method, err)
	}
	defer release()
	before, err := r.addSubscriber(t, s)
	if err != nil {
		return fail(wire.CodeInternal, "resources/subscribe: %v (unsubscribe from some)", err)
	}
	decided := r.resource(call, c, uri)
	reply := r.forward(ctx, call, c, call.Params, decided)
	switch {
	case reply.Error == nil:
		r.keepSubscriber(t, s, decided)
	case !before:
		r.removeSubscriber(t, s)
	}
	return reply
}

// keepSubscriber notes the decision about a subscription accepted by the upstream. If policy has
// changed meanwhile, the subscription ends, since Recheck leaves out subscriptions without a
// decision.
func (r *Router) keepSubscriber(t topic, s Session, decided *gated) {
	decided.origin = s // the request need not be kept
	r.mu.Lock()
	if _, ok := r.topics[t][s]; ok {
		r.topics[t][s] = decided
	}
	r.mu.Unlock()
	if !decided.lasts() {
		r.endSubscription(t, s)
	}
}

// memory returns the memory of a subscription, in bytes.
func (t topic) memory() int { return 2*len(t.uri) + 2*entryMemory }

// addSubscriber makes a session a subscriber. before reports that the session was a subscriber
// already. The error is the reason why the session may not have another subscription.
func (r *Router) addSubscriber(t topic, s Session) (before bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.clients[s]
	if !ok {
		return false, nil // the session has ended, and the answer is ignored
	}
	if c.topics[t] {
		return true, nil
	}
	if len(c.topics) >= maxSubscriptions {
		return false, fmt.Errorf("this session has %d subscriptions, which is the maximum", maxSubscriptions)
	}
	if err := c.kept.Add(t.memory()); err != nil {
		return false, errors.New(limits.Explain(err))
	}
	c.topics[t] = true
	if r.topics[t] == nil {
		r.topics[t] = map[Session]*gated{}
	}
	r.topics[t][s] = nil
	return false, nil
}

// removeSubscriber undoes addSubscriber, and reports whether s was the last subscriber.
func (r *Router) removeSubscriber(t topic, s Session) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.clients[s]; ok && c.topics[t] {
		delete(c.topics, t)
		c.kept.Sub(t.memory())
	}
	if _, ok := r.topics[t][s]; !ok {
		return false
	}
	delete(r.topics[t], s)
	if len(r.topics[t]) > 0 {
		return false
	}
	delete(r.topics, t)
	return true
}

// unsubscribe ends a subscription. The upstream is told after the end of the last subscription.
// If no session is subscribed, the request is left to the upstream to answer.
func (r *Router) unsubscribe(ctx context.Context, call Call) wire.Reply {
	uri, bad := stringParam(call, "uri")
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	s := call.Origin.Session()
	var mine []topic
	others := false
	r.mu.Lock()
	for t, subscribers := range r.topics {
		if t.uri != uri {
			continue
		}
		if _, ok := subscribers[s]; ok {
			mine = append(mine, t)
		} else {
			others = true
		}
	}
	r.mu.Unlock()
	if len(mine) == 0 && !others {
		return r.askForURI(ctx, call, uri, func(c serverConn) wire.Reply {
			return r.forward(ctx, call, c, call.Params, nil)
		}, "resources", "subscribe")
	}
	reply := empty()
	for _, t := range mine { // a single topic, unless the URI has moved to another upstream
		reply = r.unsubscribeFrom(ctx, t, s, &call)
	}
	return reply
}

// unsubscribeFrom ends a subscription of s. If s was the last subscriber, the upstream is told,
// with the client's own request if given.
func (r *Router) unsubscribeFrom(ctx context.Context, t topic, s Session, call *Call) wire.Reply {
	release, err := r.subscribing.lock(ctx, t)
	if err != nil {
		return fail(wire.CodeInternal, "resources/unsubscribe: %v", err)
	}
	defer release()
	if !r.removeSubscriber(t, s) {
		return empty()
	}
	return r.unsubscribeUpstream(ctx, t, call)
}

// endSubscription ends a subscription of s at once. If s was the last subscriber, the upstream is
// told in the background.
func (r *Router) endSubscription(t topic, s Session) {
	if !r.removeSubscriber(t, s) {
		return
	}
	r.inBackground(func() {
		release, err := r.subscribing.lock(r.ctx, t)
		if err != nil {
			return
		}
		defer release()
		if !r.subscribed(t) { // by another session since then
			r.unsubscribeUpstream(r.ctx, t, nil)
		}
	})
}

// subscribed reports whether a resource has subscribers.
func (r *Router) subscribed(t topic) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.topics[t]) > 0
}

// unsubscribeUpstream tells an upstream that no subscribers are left, with the client's own request
// if given. The caller holds the lock of t in r.subscribing.
func (r *Router) unsubscribeUpstream(ctx context.Context, t topic, call *Call) wire.Reply {
	c, ok := r.to(t.conn.own, t.conn.server)
	if !ok {
		return empty()
	}
	if call != nil {
		return r.forward(ctx, *call, c, call.Params, nil)
	}
	if up, ok := c.Server(); !ok || !declares(up, "resources", "subscribe") {
		return empty()
	}
	params := wire.Marshal(map[string]string{"uri": t.uri})
	if _, err := c.Call(ctx, wire.Call{Method: protocol.MethodResourcesUnsubscribe, Params: params}); err != nil {
		r.Log.Debug("unsubscribing for a session that has ended or may not be subscribed any more", "upstream", t.conn.server, "uri", t.uri, "err", err)
	}
	return empty()
}

// resubscribe renews the subscriptions of sessions at a restarted upstream. The resources may have
// changed unwatched, so the sessions are told that the resources have been updated; so the sessions
// also notice resources that no longer exist.
func (r *Router) resubscribe(at connKey) {
	var topics []topic
	r.mu.Lock()
	for t := range r.topics {
		if t.conn == at {
			topics = append(topics, t)
		}
	}
	r.mu.Unlock()
	for _, t := range topics {
		if err := r.subscribeAgain(t); err != nil {
			r.Log.Warn("subscription lost: the restarted upstream refuses it", "upstream", t.conn.server, "uri", t.uri, "err", err)
		}
		r.tellUpdated(t)
	}
}

// tellUpdated tells the subscribers of a resource about an update.
func (r *Router) tellUpdated(t topic) {
	r.mu.Lock()
	subscribers := slices.Collect(maps.Keys(r.topics[t]))
	r.mu.Unlock()
	params := wire.Marshal(map[string]string{"uri": t.uri})
	for _, s := range subscribers {
		if r.scope(s).PermittedResource(t.conn.server, t.uri) == nil {
			s.Notify(protocol.NotificationResourceUpdated, params)
		}
	}
}

func (r *Router) subscribeAgain(t topic) error {
	release, err := r.subscribing.lock(r.ctx, t)
	if err != nil {
		return err
	}
	defer release()
	if err := r.Catalog.PinnedURI(t.conn.server, t.uri); err != nil {
		return err
	}
	c, ok := r.to(t.conn.own, t.conn.server)
	if !r.subscribed(t) || !ok {
		return nil
	}
	reply, err := c.Call(r.ctx, wire.Call{
		Method: protocol.MethodResourcesSubscribe, Params: wire.Marshal(map[string]string{"uri": t.uri}), Permit: subscribers{r, t},
	})
	if err == nil && reply.Error != nil {
		err = wire.ParseError(reply.Error)
	}
	return err
}

// subscribers is the wire.Permit of a request on behalf of the subscribers of a resource: the
// request is sent as long as a subscriber may use the resource.
type subscribers struct {
	router *Router
	topic  topic
}

// Permitted implements wire.Permit.
func (p subscribers) Permitted() (err error) {
	p.router.mu.Lock()
	all := slices.Collect(maps.Keys(p.router.topics[p.topic]))
	p.router.mu.Unlock()
	for _, s := range all {
		if err = p.router.scope(s).PermittedResource(p.topic.conn.server, p.topic.uri); err == nil {
			return nil
		}
	}
	return err
}
