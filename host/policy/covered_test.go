package policy

import (
	"fmt"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// conditional is any condition.
type conditional struct{ Condition }

func (conditional) Reads() Reads { return Reads{} }

func TestCovered(t *testing.T) {
	all := []string{"*"}
	for name, c := range map[string]struct {
		first, second Rule
		covered       bool
	}{
		"everything":         {Rule{Action: Deny}, Rule{Action: Allow, Resources: all}, true},
		"not everything":     {Rule{Action: Deny, Tools: all}, Rule{Action: Allow}, false},
		"the same":           {Rule{Action: Deny, Tools: []string{"a.[xy]*"}}, Rule{Action: Allow, Tools: []string{"a.[xy]*"}}, true},
		"a whole server":     {Rule{Action: Deny, Tools: []string{"a.*"}}, Rule{Action: Allow, Tools: []string{"a.x", "a.get_?", "a.*"}}, true},
		"another server":     {Rule{Action: Deny, Tools: []string{"a.*"}}, Rule{Action: Allow, Tools: []string{"a.x", "ab.x"}}, false},
		"a wildcard before":  {Rule{Action: Deny, Tools: []string{"a.get_*"}}, Rule{Action: Allow, Tools: []string{"a.*_x"}}, false},
		"a pattern":          {Rule{Action: Deny, Tools: []string{"a.*_x"}}, Rule{Action: Allow, Tools: []string{"a.get_x"}}, true},
		"a shorter prefix":   {Rule{Action: Deny, Tools: []string{"a.get_*"}}, Rule{Action: Allow, Tools: []string{"a.g*"}}, false},
		"a condition":        {Rule{Action: Deny, When: "true"}, Rule{Action: Allow}, false},
		"other kinds":        {Rule{Action: Deny, Tools: all}, Rule{Action: Allow, Tools: all, Prompts: []string{"a.x"}}, false},
		"some clients":       {Rule{Action: Deny, Clients: []string{"ci"}}, Rule{Action: Allow}, false},
		"its clients":        {Rule{Action: Deny, Clients: []string{"ci-*"}}, Rule{Action: Allow, Clients: []string{"ci-1"}}, true},
		"all clients":        {Rule{Action: Deny}, Rule{Action: Allow, Clients: []string{"ci-1"}}, true},
		"URIs allowed":       {Rule{Action: Allow, Resources: all}, Rule{Action: Deny, Resources: []string{"file:///etc/*"}}, false},
		"URIs allowed twice": {Rule{Action: Allow, Resources: all}, Rule{Action: Allow, Resources: []string{"file:///etc/*"}}, true},
		"URIs denied":        {Rule{Action: Deny, Resources: []string{"file:*"}}, Rule{Action: Allow, Resources: []string{"file:///etc/*"}}, true},
	} {
		c.first.Name, c.second.Name = "first", "second"
		p, errs := Compile(Allow, []Rule{{Name: "other", Action: Deny, Tools: []string{"z.z"}}, c.first, c.second}, func(string) (Condition, []*RuleError) { return conditional{}, nil })
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
	rules := []Rule{
		{Name: "a", Tools: []string{"files.read", "files.raed", "files.*_x", "asleep.x", "tools.no"}, Clients: []string{"ci-*", "laptop"}},
		{Name: "b", Prompts: []string{"files.none"}, Clients: []string{"laptop-?", "zzz"}},
	}
	tools := func(server string) ([]string, bool) {
		return map[string][]string{"files": {"read", "write"}, "tools": nil}[server], server != "asleep"
	}
	var unknown, clients []UnknownName
	for _, r := range rules {
		unknown = append(unknown, UnknownTools(r.Name, r.Tools, tools)...)
		clients = append(clients, UnknownClients(r.Name, r.Clients, []string{"ci-1", "laptop-1"})...)
	}
	got := fmt.Sprint(unknown, clients)
	const want = `[policy rule "a": there is no files.raed (did you mean files.read?) policy rule "a": there is no tools.no] ` +
		`[policy rule "a": there is no laptop (did you mean laptop-1?) policy rule "b": there is no zzz]`
	if got != want {
		t.Errorf("%s", got)
	}
}
