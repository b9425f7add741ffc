package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Preview returns what the Gate decides about a call of a script that is not made now. The
// error says why the call may not be made, whoever allows it.
func (r *Router) Preview(_ context.Context, o Origin, call ScriptCall) (policy.Decision, error) {
	if err := r.scope(sessionOf(o)).Permitted(call.Server, call.Tool, false); err != nil {
		return policy.Decision{}, err
	}
	c := &toolCall{router: r, call: Call{Params: call.Params}, origin: o, server: call.Server, tool: call.Tool, script: &call}
	c.gate()
	g := c.gated.Load()
	d := g.decided()
	if g == nil || d.Action == policy.Ask {
		return d, nil
	}
	return d, g.refusal(d, false)
}

// PassBuiltin decides about a call of a built-in tool whose arguments stand for something
// else: arguments, a raw object, say what that is. about is a decision about it: if that
// is to ask, a person is asked, whatever is decided about the tool. PassBuiltin waits for
// the approval; asked reports that somebody has given it. The error says why the tool may
// not be called, or is the cause of ctx.
func (r *Router) PassBuiltin(ctx context.Context, call Call, name string, definition, arguments []byte, about policy.Decision) (asked bool, err error) {
	g := r.decide(call.Origin, policy.Request{
		Kind: policy.KindTool, Server: policy.BuiltinTools, Name: name, Arguments: arguments, Definition: definition,
	}, nil)
	if g == nil {
		return false, nil
	}
	if r.gates() && g.decision.Allowed() && about.Action == policy.Ask {
		g.decision = about
	}
	asked = g.decision.Action == policy.Ask
	if err := g.pass(ctx, call.Origin, &waiter{progress: call.Progress}); err != nil {
		return asked, err
	}
	if err := g.Permitted(); err != nil {
		return asked, &wire.DeniedError{Err: err}
	}
	return asked, nil
}
