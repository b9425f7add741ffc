package compile

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// write writes a file with a policy.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

var readyPolicy = regexp.MustCompile("(?s)```toml\n# policy: ([^\n]*)\n(.*?)```")

// TestReadyPolicies checks what the policies in docs/policy.md decide.
func TestReadyPolicies(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	ready := map[string]*policy.Policy{}
	for _, m := range readyPolicy.FindAllSubmatch(data, -1) {
		file := write(t, string(m[2]))
		p, err := config.LoadPolicy(config.LoadOptions{Policies: Policy}, file)
		if err != nil {
			t.Fatal(err)
		}
		ready[string(m[1])] = Of(p)
	}
	named := func(target, args string, annotations ...string) policy.Request {
		server, name, _ := strings.Cut(target, ".")
		r := policy.Request{Kind: policy.KindTool, Server: server, Name: name, Arguments: []byte(args)}
		r.Definition = []byte(`{"name":"x","annotations":{` + strings.Join(annotations, ",") + `}}`)
		return r
	}
	by := func(r policy.Request, client, script string) policy.Request {
		r.Caller.Client, r.Caller.Script = client, script
		return r
	}
	after := func(r policy.Request, server string, calls int) policy.Request {
		r.Caller.SessionCalls, r.Caller.RunCalls = &policy.History{}, &policy.History{}
		for range calls {
			r.Caller.SessionCalls.Add(server, "x")
			r.Caller.RunCalls.Add(server, "x")
		}
		return r
	}
	const read = `"readOnlyHint":true`
	for _, test := range []struct {
		policy  string
		request policy.Request
		want    policy.Action
	}{
		{"read only", named("a.get", `{}`, read), policy.Allow},
		{"read only", named("a.put", `{}`), policy.Deny},
		{"read only", named("a.put", `{}`, `"readOnlyHint":"true"`), policy.Deny},
		{"read only", named("tools.report", `{}`), policy.Allow},
		{"read only", named("builtin.eval_starlark", `{}`), policy.Allow},
		{"read only", named("builtin.save_tool", `{}`), policy.Deny},
		{"read only", policy.Request{Kind: policy.KindResource, Server: "a", Name: "file:///x"}, policy.Allow},
		{"read only", policy.Request{Kind: policy.KindMethod, Server: "a", Name: "new/method"}, policy.Deny},
		{"ask before writes", named("a.get", `{}`, read), policy.Allow},
		{"ask before writes", named("a.put", `{}`), policy.Ask},
		{"ask before writes", named("tools.x", `{}`), policy.Allow},
		{"ask before writes", after(named("a.get", `{}`, read), "a", 100), policy.Ask},
		{"ci", named("tools.triage", `{}`), policy.Allow},
		{"ci", named("tools.other", `{}`), policy.Deny},
		{"ci", named("github.get_issue", `{}`, read), policy.Allow},
		{"ci", by(named("github.add_comment", `{"repo":"our-team/x"}`), "ci", "triage"), policy.Allow},
		{"ci", by(named("github.add_comment", `{"repo":"others/x"}`), "ci", "triage"), policy.Deny},
		{"ci", by(named("github.add_comment", `{"repo":"our-team/x"}`), "ci", ""), policy.Deny},
		{"ci", after(named("github.get_issue", `{}`, read), "github", 200), policy.Deny},
		{"one team, two tokens", by(named("crm.find", `{}`, read), "team", ""), policy.Allow},
		{"one team, two tokens", by(named("crm.find", `{}`, read), "stranger", ""), policy.Deny},
		{"one team, two tokens", after(by(named("web.get", `{}`, read), "team", ""), "crm", 1), policy.Deny},
		{"one team, two tokens", by(named("web.get", `{}`, read), "team", ""), policy.Allow},
		{"one team, two tokens", by(named("deploy.start", `{"environment":"staging"}`), "pipeline", ""), policy.Allow},
		{"one team, two tokens", by(named("deploy.start", `{"environment":"production"}`), "pipeline", ""), policy.Deny},
		{"one team, two tokens", by(named("deploy.start", `{"environment":"production"}`), "team", ""), policy.Ask},
	} {
		p := ready[test.policy]
		if p == nil {
			t.Fatalf("docs/policy.md has no policy %q", test.policy)
		}
		if d, steps := p.Explain(test.request); d.Action != test.want {
			t.Errorf("%s: %s %s: %s, want %s: %+v", test.policy, test.request.Target(), test.request.Arguments, d.Action, test.want, steps)
		}
	}
}

// TestPlacesOfPolicyMistakes checks that mistakes in conditions have their places in the
// file, however the text is written.
func TestPlacesOfPolicyMistakes(t *testing.T) {
	for when, want := range map[string]string{
		`when = 'true && clint'`:                        ":5:17: ",
		`when = "true && clint"`:                        ":5:17: ",
		`when = "'\u00e9' == '\t' && clint"`:            ":5:29: ",
		"when = '''\ntrue &&\n  clint'''":               ":7:3: ",
		"when = \"\"\"\\\n   true && clint\"\"\"":       ":6:12: ",
		"when = \"\"\"true && \\\n\n     clint\"\"\"":   ":7:6: ",
		`"when" = 'tool.annotations.readonlyHint == 1'`: ":5:11: ",
	} {
		file := write(t, "[policy]\n[[policy.rule]]\nname = \"x\"\naction = \"ask\"\n"+when+"\n")
		_, err := config.LoadPolicy(config.LoadOptions{Policies: Policy}, file)
		if err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
}

// TestUncompiled checks that a policy which was loaded without being compiled denies
// everything, and that no policy allows everything.
func TestUncompiled(t *testing.T) {
	const rules = "[policy]\n[[policy.rule]]\nname = \"x\"\naction = \"allow\"\n"
	for text, want := range map[string]bool{rules: true, "[policy]\n": true, "": false} {
		cfg, _, err := config.Parse(config.LoadOptions{}, "config.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		p := Of(&cfg.Policy)
		if p == nil {
			if want {
				t.Errorf("%q: no policy", text)
			}
			continue
		}
		for _, kind := range []policy.Kind{policy.KindTool, policy.KindResource, policy.KindPrompt, policy.KindCompletion, policy.KindMethod} {
			if d, _ := p.Explain(policy.Request{Kind: kind, Server: "a", Name: "b"}); !want || d.Action != policy.Deny {
				t.Errorf("%q: %s %s", text, kind, d.Action)
			}
		}
	}
	file := write(t, rules)
	p, err := config.LoadPolicy(config.LoadOptions{}, file)
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := Of(p).Explain(tool("a", "b", "")); d.Action != policy.Deny {
		t.Errorf("of a file: %s", d.Action)
	}
}

// TestNamesAgree checks that the configuration has the same words as the policy.
func TestNamesAgree(t *testing.T) {
	for _, same := range [][2]string{
		{string(config.PolicyAllow), string(policy.Allow)}, {string(config.PolicyAsk), string(policy.Ask)}, {string(config.PolicyDeny), string(policy.Deny)},
	} {
		if same[0] != same[1] {
			t.Errorf("%q, want %q", same[0], same[1])
		}
	}
	for _, text := range []string{
		"[[policy.rule]]\nname = \"" + policy.DefaultRule + "\"\naction = \"deny\"\n",
		"[[policy.rule]]\nname = \"x\"\naction = \"deny\"\ntools = [\"" + policy.SavedTools + ".x\", \"" + policy.BuiltinTools + ".x\"]\n",
	} {
		cfg, _, err := config.Parse(config.LoadOptions{Policies: Policy}, "config.toml", []byte(text))
		if reserved := strings.Contains(text, policy.DefaultRule); (err != nil) != reserved {
			t.Errorf("%s: %v", text, err)
		} else if err == nil && len(cfg.Warnings()) > 0 {
			t.Errorf("%s: %v", text, cfg.Warnings())
		}
	}
}

// FuzzPolicy checks that no file of rules is compiled into something that panics.
func FuzzPolicy(f *testing.F) {
	f.Add("[policy]\ndefault = \"deny\"\n[[policy.rule]]\nname = \"a\"\ntools = [\"a.*\"]\nwhen = 'args.x > 1'\naction = \"allow\"\n", `{"x":2}`)
	f.Add("[policy]\n[[policy.rule]]\nname = \"a\"\nresources = [\"file:///[a-z]*\"]\nwhen = \"\"\"\\\n true\"\"\"\naction = \"ask\"\n", `{}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, rules, args string) {
		file := filepath.Join(dir, "policy.toml")
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := config.LoadPolicy(config.LoadOptions{Policies: Policy}, file)
		if err != nil {
			return
		}
		for _, kind := range []policy.Kind{policy.KindTool, policy.KindResource} {
			d, _ := Of(p).Explain(policy.Request{Kind: kind, Server: "a", Name: "b", Arguments: []byte(args)})
			if d.Action != policy.Allow && d.Action != policy.Ask && d.Action != policy.Deny {
				t.Errorf("%q", d.Action)
			}
		}
	})
}

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

// TestLimitsAreNotOvertaken checks that calls at the same time do not get past a counter, and
// that a call which is decided about again is counted once.
func TestLimitsAreNotOvertaken(t *testing.T) {
	e := policy.NewEngine(compile(t, policy.Allow, policy.Rule{Name: "ten", Tools: []string{"a.b"}, When: "calls.run >= 10", Action: policy.Deny}), time.Now)
	run, session := &policy.History{}, &policy.History{}
	var allowed sync.Map
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			r := tool("a", "b", `{}`)
			r.Caller.RunCalls, r.Caller.SessionCalls = run, session
			first := e.Decide(r)
			r.Before, r.Commit = &first, true
			if d := e.Decide(r); d.Allowed() {
				r.Before = &d
				if again := e.Decide(r); !again.Allowed() { // the request is written again
					t.Error("denied when it is sent again")
				}
				allowed.Store(i, true)
			}
		})
	}
	calls.Wait()
	n := 0
	allowed.Range(func(any, any) bool { n++; return true })
	if got := run.Counts().Total; n != 10 || got != 10 {
		t.Errorf("%d allowed, %d counted, want 10", n, got)
	}
}

// TestCountedOnce checks that a call which is sent again counts once, also if the policy was
// replaced between.
func TestCountedOnce(t *testing.T) {
	rule := policy.Rule{Name: "one", Tools: []string{"a.b"}, When: "calls.session > 1", Action: policy.Deny}
	e := policy.NewEngine(compile(t, policy.Allow, rule), time.Now)
	r := tool("a", "b", "")
	r.Commit, r.Caller.SessionCalls = true, &policy.History{}
	for range 3 {
		d := e.Decide(r)
		if !d.Allowed() {
			t.Fatal(d)
		}
		r.Before = &d
		e.SetPolicy(compile(t, policy.Allow, rule))
	}
	if n := r.Caller.SessionCalls.Counts().Total; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestCallsPerMinute checks that reconnecting does not help, and that the window moves.
func TestCallsPerMinute(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	e := policy.NewEngine(compile(t, policy.Allow, policy.Rule{Name: "two", When: "calls.tool.minute >= 2", Action: policy.Deny}), func() time.Time { return now })
	decide := func() bool {
		r := tool("a", "b", "")
		r.Commit, r.Caller.SessionCalls = true, &policy.History{} // a session of its own
		return e.Decide(r).Allowed()
	}
	for i, want := range []bool{true, true, false} {
		if decide() != want {
			t.Errorf("call %d: %v", i, !want)
		}
		now = now.Add(20 * time.Second)
	}
	now = now.Add(time.Second) // the first is over a minute ago
	if !decide() || decide() {
		t.Error("the window does not move")
	}
}

// FuzzArguments checks that numbers have the value with which they are written.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{"0", "-0", "1e400", "9007199254740993", "9007199254740993.0", "18446744073709551616", "0.1", "1E-7", "-1.50e+3", "1e9999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var number json.Number
		if json.Unmarshal([]byte(text), &number) != nil || number == "" || len(text) > 400 {
			return
		}
		a, err := policy.ParseArguments([]byte(`{"n":` + number.String() + `}`))
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(number.String())
		if !ok {
			t.Fatalf("%s is accepted", text)
		}
		got := new(big.Rat)
		switch n := a.Object["n"].(type) {
		case int64:
			got.SetInt64(n)
		case uint64:
			got.SetUint64(n)
		case float64: // stands for its shortest decimal, as everywhere
			raw, _ := json.Marshal(n)
			got.SetString(string(raw))
		}
		if got.Cmp(want) != 0 {
			t.Errorf("%s is %s", text, got)
		}
	})
}
