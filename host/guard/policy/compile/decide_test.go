package compile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// compile compiles rules that must be right.
func compile(t testing.TB, fallback policy.Action, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, errs := Rules(fallback, rules...)
	for _, e := range errs {
		t.Fatal(e)
	}
	return p
}

func tool(server, name, args string) policy.Request {
	r := policy.Request{Kind: policy.KindTool, Server: server, Name: name}
	if args != "" {
		r.Arguments = []byte(args)
	}
	return r
}

func TestDecide(t *testing.T) {
	p := compile(t, policy.Allow,
		policy.Rule{Name: "no force", Tools: []string{"git.push"}, When: `has(args.force) && args.force == true`, Action: policy.Deny},
		policy.Rule{Name: "production", Clients: []string{"ci", "laptop-*"}, Tools: []string{"github.merge_*", "db.execute"},
			When: `args.repo.startsWith("prod/") || !tool.annotations.readOnlyHint`, Action: policy.Ask, Reason: "changes production"},
		policy.Rule{Name: "large", Tools: []string{"bank.*"}, When: `args.amount > 9007199254740992`, Action: policy.Deny},
		policy.Rule{Name: "secrets", Resources: []string{"file:///secret/*"}, Action: policy.Deny},
		policy.Rule{Name: "prompts", Prompts: []string{"*.admin"}, Action: policy.Deny},
		policy.Rule{Name: "completions", Completions: []string{"files.*"}, Action: policy.Deny},
		policy.Rule{Name: "dots", Clients: []string{".ci"}, Action: policy.Deny},
		policy.Rule{Name: "by name", Tools: []string{"set.*"}, When: `args.exists(k, k == "force") || ["all"].exists(k, k in args)`, Action: policy.Deny},
		policy.Rule{Name: "null", Tools: []string{"null.*"}, When: `args.x == null && args.l.exists(i, i == null) && args.o.y == null`, Action: policy.Deny},
		policy.Rule{Name: "scripts", Tools: []string{"web.post"}, When: `script != "" && script != "report"`, Action: policy.Deny},
	)
	readOnly := []byte(`{"name":"x","annotations":{"readOnlyHint":true}}`)
	for _, test := range []struct {
		request policy.Request
		client  string
		script  string
		want    string // action, rule
	}{
		{tool("git", "push", `{"force":true}`), "", "", "deny no force"},
		{tool("git", "push", `{"force":false}`), "", "", "allow default"},
		{tool("git", "push", ``), "", "", "allow default"},
		{tool("git", "push", `{"force":true,"force":false}`), "", "", "deny no force"},
		{tool("git", "push", `{"Force":true}`), "", "", "deny no force"},
		{tool("git", "push", `{"for_ce":true}`), "", "", "deny no force"},
		{tool("git", "push", `{"a":[{"fo\u0072ce":true}],"force":false}`), "", "", "allow default"},
		{tool("git", "push", `{"force":1e400}`), "", "", "deny no force"},
		{tool("git", "pull", `{"force":true}`), "", "", "allow default"},
		{tool("set", "x", `{"force":1}`), "", "", "deny by name"},
		{tool("set", "x", `{"Force":1}`), "", "", "deny by name"},
		{tool("set", "x", `{"ALL":1}`), "", "", "deny by name"},
		{tool("set", "x", `{"other":"force"}`), "", "", "allow default"},
		{tool("github", "merge_pr", `{"repo":"dev/x"}`), "ci", "", "ask production"},
		{tool("github", "merge_pr", `{"repo":"dev/x"}`), "laptop-7", "", "ask production"},
		{tool("github", "merge_pr", `{"repo":"dev/x"}`), "phone", "", "allow default"},
		{policy.Request{Kind: policy.KindTool, Server: "db", Name: "execute", Arguments: []byte(`{"repo":"dev/x"}`), Definition: readOnly}, "ci", "", "allow default"},
		{policy.Request{Kind: policy.KindTool, Server: "db", Name: "execute", Arguments: []byte(`{"repo":"prod/x"}`), Definition: readOnly}, "ci", "", "ask production"},
		{policy.Request{Kind: policy.KindTool, Server: "db", Name: "execute", Arguments: []byte(`{}`), Definition: readOnly}, "ci", "", "deny production"},
		{tool("bank", "pay", `{"amount":9007199254740993}`), "", "", "deny large"},
		{tool("bank", "pay", `{"amount":9007199254740992}`), "", "", "allow default"},
		{tool("bank", "pay", `{"amount":9007199254740992.0}`), "", "", "allow default"},
		{tool("bank", "pay", `{"amount":9007199254740993.0}`), "", "", "deny large"},
		{tool("bank", "pay", `{"amount":18446744073709551615}`), "", "", "deny large"},
		{tool("bank", "pay", `{"amount":123456789012345678901234567890}`), "", "", "deny large"},
		{tool("bank", "pay", `{"amount":"9007199254740993"}`), "", "", "deny large"},
		{tool("bank", "pay", `{"amount":0.5}`), "", "", "allow default"},
		{policy.Request{Kind: policy.KindResource, Server: "files", Name: "file:///secret/a/b"}, "", "", "deny secrets"},
		{policy.Request{Kind: policy.KindResource, Server: "files", Name: "file:///public/a"}, "", "", "allow default"},
		{policy.Request{Kind: policy.KindResource, Server: "files", Name: "file:///%73ecret/a"}, "", "", "deny secrets"},
		{policy.Request{Kind: policy.KindResource, Server: "files", Name: "File:///public/../secret/a"}, "", "", "deny secrets"},
		{policy.Request{Kind: policy.KindCompletion, Server: "files", Name: "FILE:///{path}"}, "", "", "deny completions"},
		{policy.Request{Kind: policy.KindPrompt, Server: "a", Name: "user"}, ".ci", "", "deny dots"},
		{policy.Request{Kind: policy.KindPrompt, Server: "a", Name: "user"}, "ci", "", "allow default"},
		{policy.Request{Kind: policy.KindTool, Server: "files", Name: "file:///secret/a/b"}, "", "", "allow default"},
		{policy.Request{Kind: policy.KindPrompt, Server: "a", Name: "admin"}, "", "", "deny prompts"},
		{policy.Request{Kind: policy.KindCompletion, Server: "files", Name: "file:///{path}"}, "", "", "deny completions"},
		{policy.Request{Kind: policy.KindCompletion, Server: "a", Name: "admin"}, "", "", "allow default"},
		{tool("null", "x", `{"x":null,"l":[1,null],"o":{"y":null}}`), "", "", "deny null"},
		{tool("null", "x", `{"x":null,"l":[1,0],"o":{"y":null}}`), "", "", "allow default"},
		{tool("web", "post", ``), "", "", "allow default"},
		{tool("web", "post", ``), "", "other", "deny scripts"},
		{tool("web", "post", ``), "", "report", "allow default"},
	} {
		r := test.request
		r.Caller.Client, r.Caller.Script = test.client, test.script
		d, steps := p.Explain(r)
		if got := fmt.Sprintf("%s %s", d.Action, d.Rule); got != test.want {
			t.Errorf("%s %s by %q: %s, want %s\n%v", r.Target(), r.Arguments, test.client, got, test.want, steps)
		}
	}
}

// TestFormsOfURIs checks that a rule which allows a URI does not allow another one that looks
// like it, and that one which denies it cannot be avoided by writing it in another way.
func TestFormsOfURIs(t *testing.T) {
	allow := compile(t, policy.Deny, policy.Rule{Name: "public", Resources: []string{"file:///public/*", "store://item", "https://api.example/*"}, Action: policy.Allow})
	deny := compile(t, policy.Allow, policy.Rule{Name: "secret", Resources: []string{"file:///secret/*", "file:///c:/private/*", "store://item", "https://api.example/*"}, Action: policy.Deny})
	for _, test := range []struct {
		uri             string
		allowed, denied bool
	}{
		{"file:///public/a", true, false},
		{"file:///public/a%20b?q=1#x", true, false},
		{"store://item", true, true},
		{"store://item/", false, true},
		{"store://item?x", false, true},
		{"STORE://item", false, true},
		{"file:///public/../secret/a", false, true},
		{"file:///public/%2e%2E/secret/a", false, true},
		{"file:///public/..%2fsecret/a", false, true},
		{`file:///public\..\secret\a`, false, true},
		{"file:///public/../secret/a?/../../public/b", false, true},
		{"file:///%2573ecret/a%zz", false, true},
		{"file:///sec\tret/a", false, true},
		{"file:/secret/a", false, true},
		{"file://localhost/secret/a", false, true},
		{"file:////secret//a", false, true},
		{"file://anything/secret/a", false, true},
		{"file://anything/../secret/a", false, true},
		{"file://secret/a", false, true},
		{"file:secret/a", false, true},
		{"/secret/a", false, true},
		{"//anything/secret/a", false, true},
		{"/public/a", false, false},
		{"/secret/a:b", false, true},
		{`\secret\a`, false, true},
		{"%2Fsecret%2Fa", false, true},
		{"file:///secrets", false, false},
		{"file:///c:/private/a", false, true},
		{"c:/private/a", false, true},
		{`c:\private\a`, false, true},
		{"https://api.example/a", true, true},
		{"https://user:password@api.example/a", false, true},
		{"https://api.example:443/a", false, true},
		{"https://api.example:/a", false, true},
		{"https://API.example./a", false, true},
		{"https:/api.example/a", false, true},
		{"https:api.example/a", false, true},
		{"https:///api.example/a", false, true},
		{"https://api.example:444/a", false, false},
	} {
		r := policy.Request{Kind: policy.KindResource, Server: "files", Name: test.uri}
		if d, _ := allow.Explain(r); d.Allowed() != test.allowed {
			t.Errorf("%q: allowed %t", test.uri, d.Allowed())
		}
		if d, _ := deny.Explain(r); d.Allowed() == test.denied {
			t.Errorf("%q: denied %t", test.uri, !d.Allowed())
		}
	}
}

// TestMistakes checks what is said about conditions that cannot be compiled, and where.
func TestMistakes(t *testing.T) {
	for when, want := range map[string]string{
		`args.repo = "x"`:                  "10: Syntax error",
		`tool.anotations.readOnlyHint`:     `0: there is no variable or function "tool.anotations.readOnlyHint" (did you mean tool.annotations.readOnlyHint?)`,
		`1 < calls.minutes`:                `4: there is no variable or function "calls.minutes" (did you mean calls.minute?)`,
		`calls.hour > 2`:                   `0: there is no variable or function "calls.hour"`,
		`args.force`:                       "-1: is dyn, not a boolean",
		`client == 1`:                      "7: found no matching overload",
		"args.a == 1 ||\n  clint == \"x\"": `17: there is no variable or function "clint"`,
		`args.n > 9007199254740993.0`:      "9: is a number with a fraction",
		`args.x.matches("(a")`:             "15: invalid matches argument",
		`args.a.exists(x, args.b.exists(y, args.c.exists(z, args.d.exists(w, x == y && z == w))))`: "-1: may cost",
		`args.a.replace("x", args.b) == ""`:                          "24: what replace() inserts",
		`args.a.join(args.b) == ""`:                                  "16: what join() inserts",
		`args.a.join("` + strings.Repeat("x", 101) + `") == ""`:      "12: what join() inserts",
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100): "",
	} {
		_, errs := Rules(policy.Allow, policy.Rule{Name: "x", When: when, Action: policy.Deny})
		if len(errs) == 0 {
			t.Errorf("%s: no error", when)
			continue
		}
		if got := fmt.Sprintf("%d: %s", errs[0].Offset, errs[0].Text); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
}

// TestBounds checks that large arguments deny, before they take long.
func TestBounds(t *testing.T) {
	list := func(n int) string { return `{"l":["x"` + strings.Repeat(`,"x"`, n-1) + `]}` }
	text := func(n int) string { return `{"s":"` + strings.Repeat("x", n-8) + `"}` }
	for _, test := range []struct{ when, arguments, why string }{
		{`args.l.all(x, x == "x")`, list(maxItems - 1), ""},
		{`args.l.all(x, x == "x")`, list(maxItems), "it looks at more than 2000 items"},
		{`"x" in args.l`, list(100_000), "the arguments have more than 100000 values"},
		{`args.s != ""`, text(4 << 20), ""},
		{`args.s != ""`, text(4<<20 + 1), "the arguments have more than 4194304 bytes"},
		{`args.s.replace("x", "yyyyyyyyyy") != ""`, text(4 << 20), "it costs more than 1000000"},
	} {
		d, _ := compile(t, policy.Allow, policy.Rule{Name: "x", When: test.when, Action: policy.Allow}).Explain(tool("a", "b", test.arguments))
		if d.Allowed() != (test.why == "") || !strings.HasSuffix(d.Reason, test.why) {
			t.Errorf("%s with %d bytes: %s %s", test.when, len(test.arguments), d.Action, d.Reason)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	rules := []policy.Rule{}
	for i := range 50 {
		rules = append(rules, policy.Rule{Name: fmt.Sprint("other ", i), Tools: []string{fmt.Sprintf("server%d.write_*", i)}, Action: policy.Ask})
	}
	rules = append(rules,
		policy.Rule{Name: "arguments", Tools: []string{"github.*"}, When: `has(args.repo) && args.repo.startsWith("prod/") && args.labels.exists(l, l == "release")`, Action: policy.Deny},
		policy.Rule{Name: "annotations", Tools: []string{"github.*"}, When: `!tool.annotations.readOnlyHint && calls.minute > 30`, Action: policy.Ask},
	)
	definition := []byte(`{"name":"github__merge_pr","description":"Merges a pull request.","inputSchema":{"type":"object","properties":{"repo":{"type":"string"},"number":{"type":"integer"}}},"annotations":{"readOnlyHint":false}}`)
	args := []byte(`{"repo":"prod/site","number":1234567,"labels":["bug","urgent"],"message":"` + strings.Repeat("text ", 40) + `"}`)
	for _, c := range []struct {
		name    string
		request policy.Request
	}{
		{"no rule by name", tool("files", "read", string(args))},
		{"conditions", policy.Request{Kind: policy.KindTool, Server: "github", Name: "merge_pr", Arguments: args, Definition: definition}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := policy.NewEngine(compile(b, policy.Allow, rules...), time.Now)
			b.ReportAllocs()
			for b.Loop() {
				e.Decide(c.request)
			}
		})
	}
}
