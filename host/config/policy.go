package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Policy says which requests may be made; see package policy.
type Policy struct {
	// File is the absolute path of the file that has the rules, "" if the configuration
	// has them.
	File string
	// Default is the action for requests that no rule matches; "" if there is no policy.
	Default PolicyAction
	Rules   []PolicyRule

	compiled CompiledPolicy
}

// PolicyRule is one rule of a policy, as it is written; see policy.Rule.
type PolicyRule struct {
	Name                                            string
	Clients, Tools, Resources, Prompts, Completions []string // patterns; nil: not there
	When                                            string   // a condition; "" for none
	Action                                          PolicyAction
	Reason                                          string
}

// PolicyAction is what happens to a request.
type PolicyAction string

// The values of PolicyAction.
const (
	PolicyAllow PolicyAction = "allow"
	PolicyAsk   PolicyAction = "ask"
	PolicyDeny  PolicyAction = "deny"
)

// PolicyCompiler compiles the rules of a policy. The mistakes are those in conditions, in the
// order of the rules.
type PolicyCompiler func(p *Policy) (CompiledPolicy, []RuleMistake)

// CompiledPolicy is what a PolicyCompiler makes.
type CompiledPolicy interface {
	// Covered returns which rules can never decide, by their indices, with the earlier rule
	// that decides in their place.
	Covered() map[int]int
}

// RuleMistake is a mistake in the condition of a rule.
type RuleMistake struct {
	Rule int // its index
	// Offset is where the mistake is in the condition, in code points; -1 if it is not in
	// one place.
	Offset int
	Text   string
}

// Compiled returns the compiled policy, nil if there is none or if it was loaded without a
// compiler. Package compile, which knows the type, has a function for it that tells the two
// apart.
func (p *Policy) Compiled() CompiledPolicy { return p.compiled }

const (
	maxRules    = 1000      // of a policy
	defaultRule = "default" // stands for a rule if none has decided: policy.DefaultRule
)

// The names of servers for what is not of an upstream: policy.SavedTools, policy.BuiltinTools.
var ownServers = []string{"tools", "builtin"}

// maxRuleName is the longest name of a rule, in code points. It is in errors and in the
// journal.
const maxRuleName = 100

// policyAliases and ruleAliases are other names for these settings.
var (
	policyAliases = map[string]string{"rules": "rule", "fallback": "default", "path": "file", "action": "default"}
	ruleAliases   = map[string]string{
		"effect": "action", "decision": "action", "condition": "when", "if": "when", "client": "clients", "token": "clients",
		"tokens": "clients", "tool": "tools", "resource": "resources", "prompt": "prompts", "completion": "completions",
		"message": "reason", "description": "reason", "title": "name", "id": "name",
	}
)

// decodePolicy reads [policy]. Its problems have their places.
func decodePolicy(top *table, c *Config) {
	t := top.sub("policy")
	if t == nil {
		return
	}
	r := *top.r
	r.located, r.problems = true, nil
	t.r = &r
	p := &c.Policy
	if file, ok := t.file("file"); ok {
		for _, key := range []string{"default", "rule"} {
			if t.know(key); t.node.fields[key] != nil {
				t.problem(key, "cannot be combined with file (write it in that file, or leave file out)")
			}
		}
		t.close(policyAliases)
		p.readFile(&r, file)
	} else {
		p.decode(t)
	}
	top.r.problems = append(top.r.problems, r.problems...)
	top.r.secrets, top.r.plain, top.r.warnings = r.secrets, r.plain, r.warnings
	p.warn(top.r, c)
}

// LoadPolicy reads the file of a policy; see Policy.File. The error joins all problems, each
// a *[Problem] with its place.
func LoadPolicy(opts LoadOptions, name string) (*Policy, error) {
	l := newLoader(opts)
	r := &reader{file: name, read: l.read, getenv: l.getenv, home: l.home, shown: map[string]string{}, located: true, policies: l.policies}
	p := &Policy{}
	p.readFile(r, name)
	if len(r.problems) > 0 {
		return nil, join(r.report())
	}
	return p, nil
}

// readFile reads the file of a policy. It is like a configuration that only has [policy].
func (p *Policy) readFile(r *reader, name string) {
	p.File = name
	report := func(problem *Problem) { r.problems = append(r.problems, problem) }
	data, err := r.read(name)
	if err != nil {
		report(unreadable(name, err))
		return
	}
	root, problem := parseTOML(data)
	if problem != nil {
		problem.File = name
		report(problem)
		return
	}
	r.file, r.json = name, false
	top := &table{r: r, node: root}
	t := top.sub("policy")
	if t == nil {
		top.problem("", "has no table [policy]")
		return
	}
	if t.node.fields["file"] != nil {
		t.problem("file", "cannot name a further file")
		t.know("file")
	}
	top.close(nil)
	p.decode(t)
}

// decode reads the default and the rules.
func (p *Policy) decode(t *table) {
	before := len(t.r.problems)
	p.Default = PolicyAllow
	choice(t, "default", &p.Default, PolicyAllow, PolicyAsk, PolicyDeny)
	t.know("file")
	var tables []*table
	extended := len(p.Rules) // rules of the configuration that this policy extends
	if n := t.get("rule", "tables [[policy.rule]]", kindArray); n != nil {
		if len(n.items) > maxRules {
			t.problem("rule", "has more than %d rules", maxRules)
			return
		}
		names := map[string]bool{}
		for _, rule := range p.Rules {
			names[rule.Name] = true
		}
		for i, item := range n.items {
			at := fmt.Sprintf("rule[%d]", i)
			if !t.check(at, item, t.tableType(), kindTable) {
				continue
			}
			sub := &table{r: t.r, node: item, prefix: t.prefix + at + "."}
			rule := decodeRule(sub)
			if names[rule.Name] && rule.Name != "" {
				sub.problem("name", "is that of an earlier rule (errors and records name a rule by it)")
			}
			names[rule.Name] = true
			tables, p.Rules = append(tables, sub), append(p.Rules, rule)
		}
	}
	t.close(policyAliases)
	if t.r.policies == nil {
		return
	}
	compiled, mistakes := t.r.policies(p)
	for _, m := range mistakes {
		if m.Rule < extended {
			continue // the file with that rule has reported it
		}
		sub := tables[m.Rule-extended]
		problem := sub.problem("when", "%s", m.Text)
		if n := sub.node.fields["when"]; n != nil && n.inside != nil && m.Offset >= 0 {
			problem.Line, problem.Column = n.inside(m.Offset)
		}
	}
	if len(t.r.problems) == before {
		p.compiled = compiled
	}
}

func decodeRule(t *table) PolicyRule {
	rule := PolicyRule{Name: t.plainText("name", maxRuleName), Reason: t.plainText("reason", 0)}
	if t.node.fields["name"] == nil {
		t.problem("", "has no name (errors and records name the rule that decided)")
	} else {
		t.prefix = fmt.Sprintf("policy rule %q: ", rule.Name)
		if rule.Name == defaultRule {
			t.problem("name", "stands for the default action (choose another name)")
		}
	}
	rule.Clients = t.rulePatterns("clients", false)
	rule.Tools = t.rulePatterns("tools", true)
	rule.Resources = t.rulePatterns("resources", false)
	rule.Prompts = t.rulePatterns("prompts", true)
	rule.Completions = t.rulePatterns("completions", true)
	if n := t.get("when", "a string", kindString); n != nil {
		if rule.When = n.text; strings.TrimSpace(n.text) == "" {
			t.problem("when", "is empty (write a condition, or leave it out)")
		}
	}
	if t.node.fields["action"] == nil {
		t.problem("", `has no action (write action = "allow", "ask" or "deny")`)
	}
	choice(t, "action", &rule.Action, PolicyAllow, PolicyAsk, PolicyDeny)
	t.close(ruleAliases)
	return rule
}

// plainText returns the string under a key as it is written, which must not be empty and be
// visible on one line. most is its maximum length in code points; 0: none.
func (t *table) plainText(key string, most int) string {
	n := t.get(key, "a string", kindString)
	if n == nil {
		return ""
	}
	switch hidden := func(r rune) bool { return !unicode.IsPrint(r) }; {
	case strings.TrimSpace(n.text) == "":
		t.problem(key, "is empty")
	case strings.ContainsFunc(n.text, hidden):
		t.problem(key, "has invisible characters, or more than one line")
	case most > 0 && utf8.RuneCountInString(n.text) > most:
		t.problem(key, "is longer than %d characters", most)
	}
	return n.text
}

// rulePatterns returns the patterns under a key, nil if there are none. targets says that
// they are for SERVER.NAME.
func (t *table) rulePatterns(key string, targets bool) []string {
	list := t.strs(key, func(at string, n *node) (string, bool) {
		if _, err := path.Match(n.text, ""); err != nil || n.text == "" {
			t.problem(at, "%s is not a pattern (* stands for any text, ? for one character, [a-z] for one out of a range)", quoteWritten(n))
		} else if targets && !strings.Contains(n.text, ".") && !strings.ContainsAny(n.text, "*?[") {
			t.problem(at, "%s has no server (write SERVER.NAME)", quoteWritten(n))
		}
		return n.text, true
	})
	if list != nil && len(list) == 0 {
		t.problem(key, "is empty, so that the rule is for nothing (leave %s out for a rule about everything)", key)
	}
	return list
}

// warn warns of rules that can never decide, or name servers which do not exist.
func (p *Policy) warn(r *reader, c *Config) {
	servers := slices.Clone(ownServers)
	for i := range c.Upstreams {
		servers = append(servers, c.Upstreams[i].Name)
	}
	var covered map[int]int
	if p.compiled != nil {
		covered = p.compiled.Covered()
	}
	for i, rule := range p.Rules {
		if first, ok := covered[i]; ok {
			r.warnings = append(r.warnings, fmt.Sprintf("policy rule %q: it never decides, because rule %q before it does so about everything that it is for", rule.Name, p.Rules[first].Name))
		}
		for _, pattern := range slices.Concat(rule.Tools, rule.Prompts, rule.Completions) {
			server, _, ok := strings.Cut(pattern, ".")
			if !ok || strings.ContainsAny(server, `*?[\`) || slices.Contains(servers, server) {
				continue
			}
			hint := ""
			if near := nearest.Names(server, servers); len(near) > 0 {
				hint = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
			}
			r.warnings = append(r.warnings, fmt.Sprintf("policy rule %q: no server is called %q, which %s names%s", rule.Name, server, pattern, hint))
		}
	}
}

// policy describes which requests may be made.
func (d *description) policy(p *Policy) {
	if p.Default == "" && p.File == "" {
		return
	}
	d.title("policy")
	if p.File != "" {
		d.line("file", d.shown("policy.file", p.File))
	}
	for _, rule := range p.Rules {
		d.line(string(rule.Action), d.masker.Mask(rule.Name))
	}
	d.line("default", string(p.Default))
}
