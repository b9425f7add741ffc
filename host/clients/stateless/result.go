package stateless

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// complete returns the reply to a request with the additions of this era. Additions that the reply
// has already stay unchanged.
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

// MethodStream is an rpc.Stream that tells the client whether this server has the method of the
// request (over HTTP, by the status).
type MethodStream interface {
	// LacksMethod tells the stream that this server does not have the method. LacksMethod is called
	// before the answer is sent.
	LacksMethod()
}

// noteLacked tells the stream of a request if this server does not have the method. An error with
// the same code of a server behind us is about the other server only, unless the method is unknown
// to us.
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

// inputRequired returns a result with questions to the client.
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
