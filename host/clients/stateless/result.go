package stateless

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// complete returns the reply to a request with what this era adds to it. What it has of
// that already stays as it is.
func (x *Exchange) complete(r *rpc.Request, reply wire.Reply) wire.Reply {
	if reply.Error != nil {
		x.noteLacked(r, reply)
		return reply
	}
	hints := x.principal.opts.Backend.Hints(route.Call{Method: x.method, Origin: x})
	if hints != nil {
		if kind, _ := envelope.ResultType(reply.Result); kind != envelope.TypeComplete {
			hints = nil
		}
	}
	result, err := x.principal.stamp.Complete(reply.Result, hints)
	if err != nil {
		return fail(wire.CodeInternal, "%s: the result is not an object: %v", x.method, err)
	}
	reply.Result = result
	return reply
}

// MethodStream is an rpc.Stream over which the client gets to know whether this server has
// the method of its request (over HTTP, by the status).
type MethodStream interface {
	// LacksMethod says that this server does not have the method. It is called before
	// the answer is sent.
	LacksMethod()
}

// noteLacked tells the stream of a request if this server does not have its method. An
// error of a server behind us with the same code is about that server only, unless the
// method is unknown to us.
func (x *Exchange) noteLacked(r *rpc.Request, reply wire.Reply) {
	if wire.ParseError(reply.Error).Code != wire.CodeMethodNotFound {
		return
	}
	x.mu.Lock()
	_, known := x.said.revision.Method(protocol.Client, x.method)
	x.mu.Unlock()
	if out, ok := r.Stream().(MethodStream); ok && (reply.Own || !known) {
		out.LacksMethod()
	}
}

// inputRequired returns a result that asks the client something.
func inputRequired(requests []byte, state string, serverInfo []byte) []byte {
	var meta wire.Object
	meta.Raw(envelope.KeyServerInfo, serverInfo)
	result := wire.NewObject(len(requests) + len(state) + len(serverInfo) + 150)
	result.Text("resultType", envelope.TypeInputRequired)
	result.Raw("inputRequests", requests)
	result.Text("requestState", state)
	result.Raw("_meta", meta.Bytes())
	return result.Bytes()
}
