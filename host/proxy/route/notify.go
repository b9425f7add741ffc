package route

import (
	"bytes"
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// notifyTime is how long a notification of a client waits for an upstream that is starting or does
// not read.
const notifyTime = 10 * time.Second

// Notified delivers a notification of a client that is not about a single request. Each upstream
// gets the notifications of a session in order. Notified waits only if an upstream does not read
// and has many queued notifications, or the client has no memory for more of them.
func (r *Router) Notified(s Session, method string, params []byte) {
	if method == protocol.NotificationTaskStatus {
		r.clientTaskStatus(s, params)
		return
	}
	for _, server := range r.scope(s).Upstreams() {
		var g *gated
		if method != protocol.NotificationRootsChanged { // an unknown notification can have any meaning
			g = r.decide(s, policy.Request{Kind: policy.KindMethod, Server: server, Name: method}, nil)
		}
		r.notifyUpstream(s, server, method, params, g)
	}
}

// clientTaskStatus delivers the status of a client's task to the upstream for which the task was
// created. The task may not be known yet, because the answer with the id of the task has not
// arrived.
func (r *Router) clientTaskStatus(s Session, params []byte) {
	id, _ := wire.GetString(params, "taskId")
	server, known := "", false
	r.with(s, func(c *client) {
		if server, known = c.ownTasks.get(id); !known {
			keepStatus(&c.early, id, id, params)
		}
	})
	if known {
		r.notifyUpstream(s, server, protocol.NotificationTaskStatus, params, nil)
	}
}

// notifyUpstream queues a notification of a session for an upstream. The notification is not sent
// unless g permits it; no person can be asked. Queued notifications are counted for the session,
// since the memory of the message is given back meanwhile; notifyUpstream waits for room in the
// session's memory.
func (r *Router) notifyUpstream(s Session, server, method string, params []byte, g *gated) {
	var queue *serialQueue
	var kept *budget.Account
	r.with(s, func(c *client) {
		if c.outgoing[server] == nil {
			c.outgoing[server] = newSerialQueue()
		}
		queue, kept = c.outgoing[server], c.kept
	})
	if queue == nil {
		return // the session has ended
	}
	size := len(params)
	counted := kept.Add(size) == nil
	if counted {
		params = bytes.Clone(params)
	}
	deadline, sent := time.Now().Add(notifyTime), make(chan struct{})
	added := queue.add(r.ctx, func() {
		defer close(sent)
		if counted {
			defer kept.Sub(size)
		}
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
	switch {
	case added && !counted:
		<-sent // sent has a deadline
	case !added && counted:
		kept.Sub(size)
	}
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
