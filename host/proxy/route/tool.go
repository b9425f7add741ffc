package route

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// CallTool answers a call of a tool that agents see. A name missing in the catalog is looked up
// again once all upstreams have started.
func (r *Router) CallTool(ctx context.Context, call Call) wire.Reply {
	name, task, bad := calledTool(call)
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	s := call.Origin.Session()
	entry, ok := r.scope(s).Tool(name)
	switch {
	case !ok:
		r.Refresh(s)
		entry, ok = r.scope(s).Tool(name)
	case entry.Kind == catalog.Composite:
		r.RefreshCalled(s)
		entry, ok = r.scope(s).Tool(name)
	}
	if !ok {
		r.awaitLists(ctx, s, wire.Tools)
		entry, ok = r.scope(s).Tool(name)
	}
	switch {
	case !ok:
		if f := r.scope(s).Withheld(wire.Tools, name); f != nil {
			return wire.Reply{Result: ErrorResult(f.Error()), Denied: f}
		}
		why, sure := r.ownerUnavailable(call, name)
		if sure { // the tool probably exists: the failure is not a protocol error
			return wire.Reply{Result: ErrorResult(fmt.Sprintf("tool %q cannot be called: %s", name, why))}
		}
		return wire.Reply{Error: r.unknown(call, "tool", name, wire.Tools, why).Raw()}
	case call.Resume != nil && entry.Kind == catalog.Proxied:
		return wire.Reply{Error: invalidState(call.Method).Raw()}
	case entry.Kind == catalog.Proxied:
		call, task, ok := r.taskParam(call, entry.Server, task)
		if !ok {
			return noTask(name)
		}
		return r.agentCall(call, entry, task).answer(ctx)
	}
	start := time.Now()
	g, err := r.passTool(ctx, call, entry)
	if err != nil {
		reply := r.unanswered(ctx, ownServer(entry), name, err)
		g.observe(ctx, call, start, reply)
		return reply
	}
	if task && r.offered(call.Origin.Session(), "tasks") {
		return noTask(name) // our tools have no execution.taskSupport
	}
	call.Version = g.permittedVersion()
	reply := r.runTool(ctx, entry.Kind, name, call)
	g.observe(ctx, call, start, reply)
	return r.sealRun(call, forRevision(call, reply))
}

// noTask refuses to make a task of a call (revision 2025-11-25, basic/utilities/tasks,
// "Tool-Level Negotiation").
func noTask(tool string) wire.Reply {
	return fail(wire.CodeMethodNotFound, "tools/call: tool %q cannot be called as a task", tool)
}

// toolParams are the members of the params of tools/call that calledTool reads.
var toolParams = []string{"_meta", "name", "arguments", "task"}

// calledTool returns the name of the tool in a request, and whether the call is to become a task.
func calledTool(call Call) (name string, task bool, bad *wire.RPCError) {
	var found [4][]byte
	wire.Pick(call.Params, toolParams, found[:])
	name, bad = textOf(call.Method, "name", found[0], found[1])
	if args := found[2]; bad == nil && args != nil && args[0] != '{' && string(args) != "null" { // some clients send null for no arguments
		bad = wire.Errorf(wire.CodeInvalidParams, "tools/call: params.arguments must be an object")
	}
	return name, found[3] != nil, bad
}

// forRevision removes the members from a result of our own that the request's revision does not
// have. The text content has the same information.
func forRevision(call Call, reply wire.Reply) wire.Reply {
	if reply.Result == nil || call.Origin.Revision().Has(protocol.StructuredContent) {
		return reply
	}
	if plain, err := wire.Delete(reply.Result, "structuredContent"); err == nil {
		reply.Result = plain
	}
	return reply
}

// unknown returns the error for an unknown name of a tool or prompt: a protocol error, not a tool's
// (revision 2025-11-25, server/tools and server/prompts, "Error Handling"). why is an explanation,
// "" for none.
func (r *Router) unknown(call Call, noun, name string, surface wire.Surface, why string) *wire.RPCError {
	scope, hint := r.scope(call.Origin.Session()), ""
	if surface == wire.Tools {
		hint = scope.InScripts(name)
	}
	switch {
	case why != "":
		hint = "; " + why
	case hint != "":
		hint = "; it is for scripts only, which call " + hint + " (expose in the configuration hides it from clients)"
	default:
		if near := nearest.Names(name, scope.Visible(surface)); len(near) > 0 {
			hint = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
		}
	}
	return wire.Errorf(wire.CodeInvalidParams, "unknown %s: %s%s", noun, name, hint)
}

// ownerUnavailable is Availability.OwnerUnavailable, if set.
func (r *Router) ownerUnavailable(call Call, name string) (why string, sure bool) {
	if r.Availability == nil {
		return "", false
	}
	return r.Availability.OwnerUnavailable(call.Origin.Session(), name)
}

// Ready waits until an upstream has started and listed the tools. If each session has an own
// instance of the upstream, Ready waits for the instance of origin's session. The error is the
// reason why the upstream is down, or the cause of ctx.
func (r *Router) Ready(ctx context.Context, origin Origin, server string) error {
	up, ok := r.to(sessionOf(origin), server)
	if !ok {
		return fmt.Errorf("upstream %q is not configured", server)
	}
	return up.Ready(ctx)
}

// ScriptCall is a call of a script.
type ScriptCall struct {
	Server, Tool string // real names
	// Params is the params object of tools/call. CallUpstream replaces the name in the object, and
	// the connection replaces the progress token.
	Params   []byte
	Progress func([]byte) // as in Call; may be nil

	Script string          // the calling saved tool or eval_starlark
	Run    string          // id of the run of Script
	Called *policy.History // the calls of the run, with all runs of saved tools in it; may be nil
	// Approved reports that a person has allowed the call, if approval was asked for.
	Approved bool
	// Version, if set, returns the current policy.Request.Version of the saved tool. Version is
	// only called if there is something to decide. The call must not go on with another version
	// than the last result.
	Version func() string
	// Decided, if set, is called with the decision of the Gate before the reply is returned, unless
	// Gate is nil.
	Decided func(policy.Decision)
	// Pause, if set, is called when a person is asked about the call, and goOn after the answer.
	// The time between does not count for the caller.
	Pause func() (goOn func())
	// Before, if set, is called when the call is permitted and is about to be sent. Before may
	// wait. After an error, which becomes the error of the call, the call is not sent.
	Before func(ctx context.Context) error
	// Permit, if set, is called just before the request is written, and again for each repetition.
	// Permit does not block. After an error, which becomes the error of the call, the request is
	// not written.
	Permit func() error
	// Compute, if set, does work that is not done for a server: finding the answer of a mock. The
	// work costs the fuel of the run; see tools.Spend. The error is from work.
	Compute func(work func(tools.Spend) error) error
}

// caller returns the caller without the origin of the call.
func (c *ScriptCall) caller() policy.Caller {
	return policy.Caller{Script: c.Script, Run: c.Run, RunCalls: c.Called}
}

// Pass decides whether a script may call a saved tool, and waits for the approval of a person if
// required. The error is the reason why the tool may not be called, or the cause of ctx.
func (r *Router) Pass(ctx context.Context, o Origin, call ScriptCall) error {
	if !r.gates() && !RightsOf(sessionOf(o)).Narrows() {
		return nil
	}
	entry, _ := r.scope(sessionOf(o)).Owner(call.Tool)
	if entry.Kind != catalog.Composite {
		entry.Definition = nil
	}
	g, err := r.passOwn(ctx, o, policy.Request{
		Kind: policy.KindTool, Server: policy.SavedTools, Name: call.Tool, Arguments: argumentsOf(call.Params),
		Definition: entry.Definition, Caller: call.caller(), Approved: call.Approved,
	}, call.Version, &waiter{progress: call.Progress, pause: call.Pause})
	if call.Decided != nil {
		call.Decided(g.decided())
	}
	return err
}

// CallUpstream calls a tool of an upstream for a script that runs on behalf of origin. A tool that
// can only be called as a task of the handshake era is called as a task, and CallUpstream waits for
// the result.
//
// Without a response, the reply is an isError result with the reason, since the failure of an
// upstream is the failure of a tool. A response that cannot be used is a JSON-RPC error. The right
// to call the tool is checked when the request is written, however late. For a call without this
// right, Reply.Denied is set.
func (r *Router) CallUpstream(ctx context.Context, origin Origin, call ScriptCall) wire.Reply {
	_, task := wire.Get(call.Params, "task")
	made := Call{Method: protocol.MethodToolsCall, Origin: origin, Params: call.Params, Progress: call.Progress}
	c := &toolCall{router: r, call: made, origin: origin, server: call.Server, tool: call.Tool, task: task, pause: call.Pause, script: &call}
	c.viaTask = !task && taskSupport(r.Catalog.Definition(call.Server, call.Tool)) == "required"
	c.gate()
	reply := c.answer(ctx)
	if g := c.gated.Load(); g != nil && call.Decided != nil {
		call.Decided(g.decided())
	}
	return reply
}

// sessionOf returns the session of an origin, nil for a nil origin.
func sessionOf(o Origin) Session {
	if o == nil {
		return nil
	}
	return o.Session()
}
