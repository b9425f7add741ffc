package compile

import (
	"fmt"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// conditional is any condition.
type conditional struct{ policy.Condition }

func (conditional) Reads() policy.Reads { return policy.Reads{} }

func TestCovered(t *testing.T) {
	all := []string{"*"}
	for name, c := range map[string]struct {
		first, second policy.Rule
		covered       bool
	}{
		"everything":         {policy.Rule{Action: policy.Deny}, policy.Rule{Action: policy.Allow, Resources: all}, true},
		"not everything":     {policy.Rule{Action: policy.Deny, Tools: all}, policy.Rule{Action: policy.Allow}, false},
		"the same":           {policy.Rule{Action: policy.Deny, Tools: []string{"a.[xy]*"}}, policy.Rule{Action: policy.Allow, Tools: []string{"a.[xy]*"}}, true},
		"a whole server":     {policy.Rule{Action: policy.Deny, Tools: []string{"a.*"}}, policy.Rule{Action: policy.Allow, Tools: []string{"a.x", "a.get_?", "a.*"}}, true},
		"another server":     {policy.Rule{Action: policy.Deny, Tools: []string{"a.*"}}, policy.Rule{Action: policy.Allow, Tools: []string{"a.x", "ab.x"}}, false},
		"a wildcard before":  {policy.Rule{Action: policy.Deny, Tools: []string{"a.get_*"}}, policy.Rule{Action: policy.Allow, Tools: []string{"a.*_x"}}, false},
		"a pattern":          {policy.Rule{Action: policy.Deny, Tools: []string{"a.*_x"}}, policy.Rule{Action: policy.Allow, Tools: []string{"a.get_x"}}, true},
		"a shorter prefix":   {policy.Rule{Action: policy.Deny, Tools: []string{"a.get_*"}}, policy.Rule{Action: policy.Allow, Tools: []string{"a.g*"}}, false},
		"a condition":        {policy.Rule{Action: policy.Deny, When: "true"}, policy.Rule{Action: policy.Allow}, false},
		"other kinds":        {policy.Rule{Action: policy.Deny, Tools: all}, policy.Rule{Action: policy.Allow, Tools: all, Prompts: []string{"a.x"}}, false},
		"some clients":       {policy.Rule{Action: policy.Deny, Clients: []string{"ci"}}, policy.Rule{Action: policy.Allow}, false},
		"its clients":        {policy.Rule{Action: policy.Deny, Clients: []string{"ci-*"}}, policy.Rule{Action: policy.Allow, Clients: []string{"ci-1"}}, true},
		"all clients":        {policy.Rule{Action: policy.Deny}, policy.Rule{Action: policy.Allow, Clients: []string{"ci-1"}}, true},
		"URIs allowed":       {policy.Rule{Action: policy.Allow, Resources: all}, policy.Rule{Action: policy.Deny, Resources: []string{"file:///etc/*"}}, false},
		"URIs allowed twice": {policy.Rule{Action: policy.Allow, Resources: all}, policy.Rule{Action: policy.Allow, Resources: []string{"file:///etc/*"}}, true},
		"URIs denied":        {policy.Rule{Action: policy.Deny, Resources: []string{"file:*"}}, policy.Rule{Action: policy.Allow, Resources: []string{"file:///etc/*"}}, true},
	} {
		c.first.Name, c.second.Name = "first", "second"
		p, errs := policy.Compile(policy.Allow, []policy.Rule{{Name: "other", Action: policy.Deny, Tools: []string{"z.z"}}, c.first, c.second}, func(string) (policy.Condition, []*policy.RuleError) { return conditional{}, nil })
		if errs != nil {
			t.Fatal(name, errs)
		}
		at, ok := p.Covered()[2]
		if ok != c.covered || ok && at != 1 || len(p.Covered()) > 1 {
			t.Errorf("%s: %v", name, p.Covered())
		}
	}
}

func TestUnknown(t *testing.T) {
	rules := []policy.Rule{
		{Name: "a", Tools: []string{"files.read", "files.raed", "files.*_x", "asleep.x", "tools.no"}, Clients: []string{"ci-*", "laptop"}},
		{Name: "b", Prompts: []string{"files.none"}, Clients: []string{"laptop-?", "zzz"}},
	}
	tools := func(server string) ([]string, bool) {
		return map[string][]string{"files": {"read", "write"}, "tools": nil}[server], server != "asleep"
	}
	var unknown, clients []policy.UnknownName
	for _, r := range rules {
		unknown = append(unknown, policy.UnknownTools(r.Name, r.Tools, tools)...)
		clients = append(clients, policy.UnknownClients(r.Name, r.Clients, []string{"ci-1", "laptop-1"})...)
	}
	got := fmt.Sprint(unknown, clients)
	const want = `[policy rule "a": there is no files.raed (did you mean files.read?) policy rule "a": there is no tools.no] ` +
		`[policy rule "a": there is no laptop (did you mean laptop-1?) policy rule "b": there is no zzz]`
	if got != want {
		t.Errorf("%s", got)
	}
}
