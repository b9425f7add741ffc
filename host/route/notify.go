package route

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/policy"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// notifyTime is how long a notification of a client waits for an upstream that is
// starting or does not read.
const notifyTime = 10 * time.Second

// Notified delivers a notification of a client that is not about a single request.
// Each upstream gets the notifications of a session in order. Notified waits only if
// an upstream does not read and many notifications for it are queued.
func (r *Router) Notified(s Session, method string, params []byte) {
	if method == protocol.NotificationTaskStatus {
		r.clientTaskStatus(s, params)
		return
	}
	for _, server := range r.scope(s).Upstreams() {
		var g *gated
		if method != protocol.NotificationRootsChanged { // it may mean anything
			g = r.decide(s, policy.Request{Kind: policy.KindMethod, Server: server, Name: method}, nil)
		}
		r.notifyUpstream(s, server, method, params, g)
	}
}

// clientTaskStatus delivers the status of a client's task to the upstream for which
// it was created. The task may not be known yet, because the answer that names it has
// not arrived.
func (r *Router) clientTaskStatus(s Session, params []byte) {
	id, _ := wire.GetString(params, "taskId")
	server, known := "", false
	r.with(s, func(c *client) {
		if server, known = c.ownTasks.get(id); !known {
			keep(&c.early, id, id, params)
		}
	})
	if known {
		r.notifyUpstream(s, server, protocol.NotificationTaskStatus, params, nil)
	}
}

// notifyUpstream queues a notification of a session for an upstream. It is not sent unless g
// permits it; nobody can be asked about it.
func (r *Router) notifyUpstream(s Session, server, method string, params []byte, g *gated) {
	var queue *serialQueue
	r.with(s, func(c *client) {
		if c.outgoing[server] == nil {
			c.outgoing[server] = newSerialQueue()
		}
		queue = c.outgoing[server]
	})
	if queue == nil {
		return // the session has ended
	}
	deadline := time.Now().Add(notifyTime)
	queue.add(r.ctx, func() {
		ctx, cancel := context.WithDeadline(r.ctx, deadline)
		defer cancel()
		c, ok := r.to(s, server)
		if !ok {
			return
		}
		err := present{s}.Permitted()
		if err == nil {
			err = g.Permitted()
		}
		if err == nil {
			err = c.Notify(ctx, method, params)
		}
		if err != nil {
			r.warn(r.ctx, err, "notification of a client not sent", "upstream", server, "method", method)
		}
	})
}

// drainNotifications waits until the queued notifications of a client are sent.
func (r *Router) drainNotifications(c *client) {
	r.mu.Lock()
	queues := make([]*serialQueue, 0, len(c.outgoing))
	for _, q := range c.outgoing {
		queues = append(queues, q)
	}
	r.mu.Unlock()
	for _, q := range queues {
		q.close()
	}
}
