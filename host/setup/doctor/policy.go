package doctor

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// policy looks at names in the rules, and at the queue of approvals. Faults that show in the
// configuration alone, such as rules that never decide, are among its warnings.
func (e *examination) policy() {
	for _, u := range e.UnknownTools {
		e.find(idPolicyTool, "policy", "correct the name, or remove it; "+e.command("tools")+" lists the tools", "%s", u)
	}
	var tokens []string
	for _, t := range e.Config.HTTP.Tokens {
		if t.Name != "" {
			tokens = append(tokens, t.Name)
		}
	}
	if len(tokens) > 0 {
		for _, r := range e.Config.Policy.Rules {
			for _, u := range policy.UnknownClients(r.Name, r.Clients, tokens) {
				e.find(idPolicyClient, "policy", "correct it if it should be the name of a token: "+e.command("token", "list")+" lists them",
					"%s among the tokens, so the rule is for clients without a token that call themselves so", u)
			}
		}
	}
	if e.Waiting > 0 {
		calls := "1 call waits"
		if e.Waiting > 1 {
			calls = fmt.Sprintf("%d calls wait", e.Waiting)
		}
		e.find(idApprovalsWaiting, "approvals", e.command("approvals", "list")+" shows what they are", "%s for your approval", calls)
	}
}
