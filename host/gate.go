package host

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/approval"
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
