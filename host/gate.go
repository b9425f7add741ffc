package host

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/policy"
	"github.com/mcp-metatool/mcp-metatool/host/route"
)

// policyGate implements route.Gate.
type policyGate struct{ *policy.Engine }

func newPolicyGate(p *policy.Policy) policyGate { return policyGate{policy.NewEngine(p, time.Now)} }

// Approve implements route.Gate: nobody can be asked.
func (policyGate) Approve(_ context.Context, a route.Asking) (policy.Approval, error) {
	return policy.Approval{}, &policy.DeniedError{Target: a.Request.Target(), Decision: a.Decision, Why: "nobody can be asked"}
}
