package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Preview returns the decision of the Gate about a call of a script that is not made now. The error
// is the reason why the call may not be made, even with approval.
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

// PassBuiltin decides about a call of a built-in tool whose own arguments stand for something else,
// described by arguments, a raw object. about is a decision about the described thing: if about is
// to ask, a person is asked, whatever is decided about the tool. PassBuiltin waits for the
// approval; asked reports that a person was asked. The error is the reason why the tool may not be
// called, or the cause of ctx.
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
