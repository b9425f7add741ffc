package host

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// policyGate implements route.Gate.
type policyGate struct {
	*policy.Engine
	*approval.Approver
}

func newPolicyGate(p *policy.Policy, a *approval.Approver) policyGate {
	return policyGate{policy.NewEngine(p, time.Now), a}
}

// Explain returns the decision of policy about a client's first call, of the tool with a public
// name. Without a policy the call is allowed. Explain reports false for an unknown tool.
func (h *Host) Explain(client, public string, args []byte) (policy.Decision, bool) {
	r, ok := h.toolRequest(client, public, args)
	if !ok {
		return policy.Decision{}, false
	}
	p := compile.Of(&h.config().Policy)
	if p == nil {
		return policy.Decision{Action: policy.Allow, Rule: policy.DefaultRule}, true
	}
	d, _ := p.Explain(r)
	return d, true
}

// Decide is Explain for the first call in a new session of [Host.Connect]: calls of other sessions
// of Connect in the last minute count. Decide itself does not count as a call.
func (h *Host) Decide(public string, args []byte) (policy.Decision, bool) {
	r, ok := h.toolRequest(Name, public, args)
	if !ok {
		return policy.Decision{}, false
	}
	if !h.gate.Active() {
		return policy.Decision{Action: policy.Allow, Rule: policy.DefaultRule}, true
	}
	return h.gate.Engine.Decide(r), true
}

// toolRequest returns the policy request for a client's call of the tool with a public name.
func (h *Host) toolRequest(client, public string, args []byte) (policy.Request, bool) {
	entry, ok := h.catalog.Tool(public)
	r := policy.Request{
		Kind: policy.KindTool, Server: entry.Server, Name: entry.Tool, Arguments: args, Definition: entry.Definition,
		Caller: policy.Caller{Client: client},
	}
	switch entry.Kind {
	case catalog.Builtin:
		r.Server, r.Name = policy.BuiltinTools, entry.Name
	case catalog.Composite:
		r.Server, r.Name = policy.SavedTools, entry.Name
	}
	return r, ok
}

// denies returns why policy denies a client's call of a saved tool whose durable run continues; nil
// for an allowed call. The call was counted and approved when the run began.
func (h *Host) denies(o route.Origin, name string, args []byte) error {
	p := compile.Of(&h.config().Policy)
	if p == nil {
		return nil
	}
	s := o.Session()
	entry, _ := h.catalog.For(route.RightsOf(s)).Tool(name)
	r := policy.Request{
		Kind: policy.KindTool, Server: policy.SavedTools, Name: name, Arguments: args, Definition: entry.Definition,
		Caller: policy.Caller{Client: s.TokenName(), Token: s.TokenName() != "", Session: s.ID(), Principal: s.Principal()},
	}
	if r.Caller.Client == "" && r.Caller.Principal == "" {
		info, _ := wire.Get(o.Client(), "clientInfo")
		r.Caller.Client, _ = wire.GetString(info, "name")
	}
	if d, _ := p.Explain(r); !d.Allowed() && d.Action != policy.Ask {
		return &policy.DeniedError{Target: r.Target(), Decision: d}
	}
	return nil
}
