package host

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/approval"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/policy"
)

// policyGate implements route.Gate.
type policyGate struct {
	*policy.Engine
	*approval.Approver
}

func newPolicyGate(p *policy.Policy, a *approval.Approver) policyGate {
	return policyGate{policy.NewEngine(p, time.Now), a}
}

// Explain returns what policy decides about a client's call of the tool with a public name,
// if nothing was called before. Without a policy it is allowed. It is false if there is no
// such tool.
func (h *Host) Explain(client, public string, args []byte) (policy.Decision, bool) {
	entry, ok := h.catalog.Tool(public)
	if !ok {
		return policy.Decision{}, false
	}
	p := h.config().Policy.Compiled()
	if p == nil {
		return policy.Decision{Action: policy.Allow, Rule: policy.DefaultRule}, true
	}
	r := policy.Request{Kind: policy.KindTool, Server: entry.Server, Name: entry.Tool, Arguments: args, Definition: entry.Definition}
	switch entry.Kind {
	case catalog.Builtin:
		r.Server, r.Name = policy.BuiltinTools, entry.Name
	case catalog.Composite:
		r.Server, r.Name = policy.SavedTools, entry.Name
	}
	r.Caller.Client = client
	d, _ := p.Explain(r)
	return d, true
}
