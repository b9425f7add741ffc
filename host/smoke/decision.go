package smoke

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
)

// readDecision reads the expected policy decision about the call: an action, or a table with the
// deciding rule and the client.
func readDecision(r *fileReader, s *config.Section, key string) (matcher, updater) {
	var action, rule, client string
	var ok bool
	if s.IsTable(key) {
		t := s.Section(key)
		action, ok = t.String("action")
		rule, _ = t.String("rule")
		client, _ = t.String("client")
		t.Close(map[string]string{"decision": "action", "name": "rule", "token": "client"})
	} else {
		action, ok = s.String(key)
	}
	if !ok {
		if s.IsTable(key) {
			s.Problem(key, `has no action ("allow", "ask" or "deny")`)
		}
		return nil, nil
	}
	switch policy.Action(action) {
	case policy.Allow:
	case policy.Ask:
		r.check.refused = client == "" && r.check.Approve != approveAllow
	case policy.Deny:
		r.check.refused = client == ""
	default:
		s.Problem(key, `%q is not one of "allow", "ask", "deny"`, action)
		return nil, nil
	}
	return func(a *answer) *expect.Mismatch {
		if a.decide == nil {
			return &expect.Mismatch{Message: "only a call without mocks has a decision: policy is not asked about the others"}
		}
		d := a.decide(client)
		switch {
		case d.Action != policy.Action(action):
			return &expect.Mismatch{Message: fmt.Sprintf("policy decides otherwise, by rule %q", d.Rule), Want: action, Got: string(d.Action)}
		case rule != "" && d.Rule != rule:
			return &expect.Mismatch{Message: "another rule decides", Want: rule, Got: d.Rule}
		case d.Action == policy.Deny && client == "" && a.result != nil && !a.isError():
			return &expect.Mismatch{Message: "policy denies the call, but it was made"}
		}
		return nil
	}, nil
}
