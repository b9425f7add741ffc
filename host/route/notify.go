package route

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// notifyTime is how long a notification of a client waits for an upstream that
// is starting, or that does not read.
const notifyTime = 10 * time.Second

// Notified takes a notification of a client, all but those about a single
// request. Each upstream gets those of a session in order. It waits only when
// many are on their way to an upstream that does not take them.
func (r *Router) Notified(s Session, method string, params []byte) {
	if method == protocol.NotificationTaskStatus {
		r.clientTaskStatus(s, params)
		return
	}
	for _, server := range r.Catalog.Upstreams() {
		r.notifyUpstream(s, server, method, params)
	}
}

// clientTaskStatus takes the status of a task that the client made to the
// upstream that it was made for. The task may not be known yet: the answer that
// tells of it is on its way to us.
func (r *Router) clientTaskStatus(s Session, params []byte) {
	id, _ := wire.GetString(params, "taskId")
	server, known := "", false
	r.with(s, func(c *client) {
		if server, known = c.ownTasks.get(id); !known {
			keep(&c.early, id, id, params)
		}
	})
	if known {
		r.notifyUpstream(s, server, protocol.NotificationTaskStatus, params)
	}
}

// notifyUpstream sends a notification of a session, after those before it.
func (r *Router) notifyUpstream(s Session, server, method string, params []byte) {
	var way *line
	r.with(s, func(c *client) {
		if c.lines[server] == nil {
			c.lines[server] = newLine()
		}
		way = c.lines[server]
	})
	if way == nil {
		return // the session has left
	}
	deadline := time.Now().Add(notifyTime)
	way.add(r.ctx, func() {
		ctx, cancel := context.WithDeadline(r.ctx, deadline)
		defer cancel()
		c, ok := r.to(s, server)
		if !ok {
			return
		}
		if err := c.Notify(ctx, method, params); err != nil {
			r.warn(r.ctx, err, "notification of a client not sent", "upstream", server, "method", method)
		}
	})
}

// hangUp waits until the notifications of a client are on their way.
func (r *Router) hangUp(c *client) {
	r.mu.Lock()
	lines := make([]*line, 0, len(c.lines))
	for _, l := range c.lines {
		lines = append(lines, l)
	}
	r.mu.Unlock()
	for _, l := range lines {
		l.close()
	}
}
