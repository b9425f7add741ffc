package compile

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
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
