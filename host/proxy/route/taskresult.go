package route

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// handshakeTask returns the id of the task in a reply to a call, if the result of the task is to be
// waited for.
func (c *toolCall) handshakeTask(reply wire.Reply) (id string, ok bool) {
	if !c.viaTask || c.takesTasks() || reply.Stateless || reply.Result == nil {
		return "", false
	}
	return wire.GetString(reply.Result, "task", "taskId")
}

// awaitHandshakeTask returns the result of a task of the handshake era, for a script or a client
// that does not know these tasks. Meanwhile the upstream can ask the client, as in any call.
func (c *toolCall) awaitHandshakeTask(ctx context.Context, id string) (wire.Reply, error) {
	r, s := c.router, sessionOf(c.origin)
	if s != nil {
		r.takeTask(s, taskKey{c.server, id})
	}
	var params wire.Object
	params.Text("taskId", id)
	about := params.Bytes()
	ctx, cancel := context.WithTimeoutCause(ctx, taskWait, errTaskWait)
	defer cancel()
	request := func(ctx context.Context, method string) (wire.Reply, error) {
		to, ok := r.to(s, c.server)
		if !ok {
			return wire.Reply{}, fmt.Errorf("upstream %q is not configured", c.server)
		}
		out := wire.Call{Method: method, Params: about}
		if method != protocol.MethodTasksCancel {
			out.Permit = present{s}
		}
		r.onBehalf(&out, c.origin)
		reply, err := to.Call(ctx, out)
		return reply, c.unattended(err)
	}
	reply, err := request(ctx, protocol.MethodTasksResult)
	if err != nil {
		r.inBackground(func() {
			ctx, cancel := context.WithTimeout(r.ctx, cancelLimit)
			defer cancel()
			if _, err := request(ctx, protocol.MethodTasksCancel); err != nil {
				r.warn(ctx, err, "a task could not be cancelled", "upstream", c.server)
			}
		})
		return wire.Reply{}, err
	}
	if reply.Result != nil {
		if reply.Result, err = withoutRelated(reply.Result); err != nil {
			return wire.Reply{}, err
		}
	}
	return reply, nil
}
