package route

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// CallTool answers a call of a tool that agents see. A name that is not in
// the catalog is looked up again once all upstreams have started.
func (r *Router) CallTool(ctx context.Context, call Call) wire.Reply {
	name, task, bad := calledTool(call)
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	entry, ok := r.Catalog.Tool(name)
	if !ok || entry.Kind == catalog.Composite {
		r.Refresh()
		entry, ok = r.Catalog.Tool(name)
	}
	if !ok {
		r.awaitLists(ctx, call.Origin.Session(), wire.Tools)
		entry, ok = r.Catalog.Tool(name)
	}
	switch {
	case !ok:
		why, sure := r.absentOwner(call, name)
		if sure { // not the client's fault, but a tool that fails
			return wire.Reply{Result: ErrorResult(fmt.Sprintf("tool %q cannot be called: %s", name, why))}
		}
		return wire.Reply{Error: r.unknown("tool", name, wire.Tools, why).Raw()}
	case entry.Kind == catalog.Proxied:
		return r.agentCall(call, entry, task).answer(ctx, call.Params, call.Progress)
	}
	if task && r.offered(call.Origin.Session(), "tasks") {
		// Revision 2025-11-25, basic/utilities/tasks, "Tool-Level Negotiation":
		// without execution.taskSupport.
		return fail(wire.CodeMethodNotFound, "tools/call: tool %q cannot be called as a task", name)
	}
	return known(call, r.handlers[entry.Kind].CallTool(ctx, name, call))
}

// toolParams are the members of the params of tools/call that matter.
var toolParams = []string{"_meta", "name", "arguments", "task"}

// calledTool is the name of the tool that a call is of, and whether it is to be a
// task.
func calledTool(call Call) (name string, task bool, bad *wire.RPCError) {
	var found [4][]byte
	wire.Pick(call.Params, toolParams, found[:])
	name, bad = textOf(call.Method, "name", found[0], found[1])
	if args := found[2]; bad == nil && args != nil && args[0] != '{' && string(args) != "null" { // which some clients write for none
		bad = wire.Errorf(wire.CodeInvalidParams, "tools/call: params.arguments must be an object")
	}
	return name, found[3] != nil, bad
}

// known takes out of a result that we have made what the session's revision
// does not know; the text says the same.
func known(call Call, reply wire.Reply) wire.Reply {
	if reply.Result == nil || call.Origin.Session().Revision().Has(protocol.StructuredContent) {
		return reply
	}
	if plain, err := wire.Delete(reply.Result, "structuredContent"); err == nil {
		reply.Result = plain
	}
	return reply
}

// unknown is a protocol error, not a tool's (revision 2025-11-25,
// server/tools and server/prompts, "Error Handling"). why is what else there is to
// say, "" for nothing.
func (r *Router) unknown(noun, name string, surface wire.Surface, why string) *wire.RPCError {
	hint := ""
	if why != "" {
		hint = "; " + why
	} else if near := nearest.Names(name, r.Catalog.Visible(surface)); len(near) > 0 {
		hint = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
	}
	return wire.Errorf(wire.CodeInvalidParams, "unknown %s: %s%s", noun, name, hint)
}

// absentOwner is Absences.AbsentOwner.
func (r *Router) absentOwner(call Call, name string) (why string, sure bool) {
	if r.Absences == nil {
		return "", false
	}
	return r.Absences.AbsentOwner(call.Origin.Session(), name)
}

// Ready waits until an upstream has started and listed its tools. The error
// says why it is down, or is the cause of ctx's end. Of an upstream that
// sessions have for themselves, it is that of origin's session.
func (r *Router) Ready(ctx context.Context, origin Origin, server string) error {
	up, ok := r.to(sessionOf(origin), server)
	if !ok {
		return fmt.Errorf("upstream %q is not configured", server)
	}
	return up.Ready(ctx)
}

// CallUpstream calls a tool of an upstream by their real names, on behalf of a
// script of origin. params is the params object of tools/call; its name is
// replaced, and its progress token by the connection. When no answer comes, the
// reply is an isError result that says why: the failure of one upstream is a
// failed tool, not a failed protocol. An answer that is no answer is one, though:
// a JSON-RPC error. Whether the tool may be called is looked up when the call
// leaves, however long that takes: if not, the reply has Denied.
func (r *Router) CallUpstream(ctx context.Context, origin Origin, server, tool string, params []byte, progress func([]byte)) wire.Reply {
	_, task := wire.Get(params, "task")
	c := &toolCall{router: r, origin: origin, server: server, tool: tool, task: task}
	return c.answer(ctx, params, progress)
}

// sessionOf is the session of an origin, which may be nil.
func sessionOf(o Origin) Session {
	if o == nil {
		return nil
	}
	return o.Session()
}
