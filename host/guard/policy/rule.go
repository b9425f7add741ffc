package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Rule is a rule of a policy, as written. A nil list of patterns is absent.
type Rule struct {
	Name string
	// Clients are patterns of [path.Match] for Caller.Client. Like in the other lists,
	// slashes are not special.
	Clients []string
	// Tools, Prompts and Completions are patterns for Request.Target, and Resources for
	// URIs, of which all forms count (wire.URIForms). A rule with none of them is for every kind of request, a rule with some only
	// for these kinds.
	Tools, Resources, Prompts, Completions []string
	When                                   string // a condition; "" for none
	Action                                 Action
	Reason                                 string
}

// Condition is a compiled condition of a rule. Concurrent use is safe.
type Condition interface {
	Reads() Reads
	// Holds evaluates the condition. The text of the error has no values of arguments.
	Holds(v *Values) (bool, error)
}

// Reads lists the inputs of a condition.
type Reads struct {
	Calls      bool // earlier calls
	Arguments  bool
	Definition bool // of the tool
	Given      bool // answers in the session
}

// Failure says why a condition could not be evaluated. A Failure has no values of arguments.
type Failure string

func (f Failure) Error() string { return string(f) }

// RuleError is a mistake in the condition of a Rule.
type RuleError struct {
	Rule int // index of the rule
	// Offset is the position of the mistake in the condition, in code points; -1 for a mistake
	// without a position.
	Offset int
	Text   string
}

func (e *RuleError) Error() string { return fmt.Sprintf("rule %d: when: %s", e.Rule+1, e.Text) }

// Policy is a compiled policy. A Policy does not change: any number of goroutines may use it.
type Policy struct {
	rules    []*rule
	fallback Action
	stateful bool // a rule reads earlier calls
}

// rule is a compiled Rule.
type rule struct {
	Rule
	clients   patterns
	condition Condition // nil: none

	everything                             bool // the rule has no patterns for any kind
	tools, resources, prompts, completions patterns
}

// Compile compiles rules, and their conditions by a function whose errors lack the index of the
// rule; see package compile. fallback is the action for requests without a matching rule. The
// errors are in the order of the rules.
func Compile(fallback Action, rules []Rule, condition func(text string) (Condition, []*RuleError)) (*Policy, []*RuleError) {
	p := &Policy{fallback: fallback}
	var errs []*RuleError
	for i, written := range rules {
		r := &rule{
			Rule: written, clients: newPatterns(written.Clients),
			everything: written.Tools == nil && written.Resources == nil && written.Prompts == nil && written.Completions == nil,
			tools:      newPatterns(written.Tools), resources: newPatterns(written.Resources),
			prompts: newPatterns(written.Prompts), completions: newPatterns(written.Completions),
		}
		if written.When != "" {
			compiled, bad := condition(written.When)
			for _, e := range bad {
				e.Rule = i
			}
			if errs = append(errs, bad...); len(bad) == 0 {
				r.condition, p.stateful = compiled, p.stateful || compiled.Reads().Calls
			}
		}
		p.rules = append(p.rules, r)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return p, nil
}

// Rules returns the number of rules.
func (p *Policy) Rules() int { return len(p.rules) }

// patterns are compiled patterns.
type patterns []pattern

// pattern is a pattern in the cheapest form.
type pattern struct {
	// server is the server in a pattern for targets, "" for a wildcard and for other patterns.
	// Names of servers have no dots.
	server string
	// text is the rest of the pattern, without the wildcard of a prefix.
	text string
	form form
}

type form int

const (
	exact  form = iota
	prefix      // text*
	glob        // anything else, for path.Match
)

const wildcards = `*?[\`

// slash stands for a slash in patterns of path.Match and in matched texts.
const slash = "\x01"

func newPatterns(list []string) patterns {
	var all patterns
	for _, text := range list {
		p := pattern{text: text, form: glob}
		if server, rest, ok := strings.Cut(text, "."); ok && server != "" && !strings.ContainsAny(server, wildcards) {
			p.server, p.text = server, rest
		}
		switch at := strings.IndexAny(p.text, wildcards); {
		case at < 0:
			p.form = exact
		case at == len(p.text)-1 && p.text[at] == '*':
			p.form, p.text = prefix, p.text[:at]
		default:
			p.text = strings.ReplaceAll(p.text, "/", slash)
		}
		all = append(all, p)
	}
	return all
}

// matchTarget reports whether a pattern matches the target of a request.
func (all patterns) matchTarget(r *Request) bool {
	return slices.ContainsFunc(all, func(p pattern) bool {
		switch {
		case p.server != "":
			return p.server == r.Server && p.match(r.Name)
		case p.form == prefix && p.text == "":
			return true
		}
		return p.match(r.Target())
	})
}

// matchName reports whether a pattern matches a text other than a target.
func (all patterns) matchName(name string) bool {
	return slices.ContainsFunc(all, func(p pattern) bool {
		if p.server == "" {
			return p.match(name)
		}
		rest, ok := strings.CutPrefix(name, p.server)
		if ok {
			rest, ok = strings.CutPrefix(rest, ".")
		}
		return ok && p.match(rest)
	})
}

func (p pattern) match(text string) bool {
	switch p.form {
	case exact:
		return text == p.text
	case prefix:
		return strings.HasPrefix(text, p.text)
	}
	ok, _ := path.Match(p.text, strings.ReplaceAll(text, "/", slash))
	return ok
}

// reach says why a rule is not for a request, whatever its condition says; "" if the rule is for
// the request.
type reach string

const (
	reached      reach = ""
	otherTarget  reach = "none of its patterns matches"
	otherClients reach = "it is for other clients"
)

func (r *rule) reaches(q *Request, uri *resource) reach {
	if !r.everything {
		matched := false
		switch q.Kind {
		case KindTool:
			matched = r.tools.matchTarget(q)
		case KindResource:
			matched = r.reachesURI(uri, r.resources.matchName)
		case KindPrompt:
			matched = r.prompts.matchTarget(q)
		case KindCompletion:
			if uri == nil {
				matched = r.completions.matchTarget(q)
				break
			}
			server := q.Server
			matched = r.reachesURI(uri, func(form string) bool {
				return r.completions.matchTarget(&Request{Server: server, Name: form})
			})
		}
		if !matched {
			return otherTarget
		}
	}
	if r.Clients != nil && !r.clients.matchName(q.Caller.Client) {
		return otherClients
	}
	return reached
}

// resource is the URI of a request, with its forms.
type resource struct{ forms, bare []string }

// resourceOf returns the URI of a request, nil for a request without a URI.
func resourceOf(q *Request) *resource {
	if q.Kind != KindResource && (q.Kind != KindCompletion || !strings.Contains(q.Name, ":")) {
		return nil
	}
	forms, bare := wire.URIForms(q.Name)
	return &resource{forms, bare}
}

// reachesURI reports whether the rule is for a URI. The proxy does not know how servers read a URI
// in an unusual form. So a rule that allows must match all forms, and any other rule must match any
// form.
func (r *rule) reachesURI(uri *resource, match func(form string) bool) bool {
	if r.Action == Allow {
		return !slices.ContainsFunc(uri.forms, func(form string) bool { return !match(form) })
	}
	return slices.ContainsFunc(uri.forms, match) || slices.ContainsFunc(uri.bare, match)
}

// Covered returns the rules that can never decide, by their indices, with the earlier rule that
// decides in their place. Only patterns are compared: an earlier rule without a condition matches
// every request of the rule, and of all its clients.
func (p *Policy) Covered() map[int]int {
	covered := map[int]int{}
	for i, later := range p.rules {
		if first := slices.IndexFunc(p.rules[:i], func(r *rule) bool { return r.covers(later) }); first >= 0 {
			covered[i] = first
		}
	}
	return covered
}

// covers reports whether r decides about every request of the other rule. covers does not find all
// such rules.
func (r *rule) covers(other *rule) bool {
	if r.condition != nil || r.Clients != nil && (other.Clients == nil || !allCovered(r.Clients, other.Clients)) {
		return false
	}
	if r.everything || other.everything {
		return r.everything
	}
	// A rule that allows is only for URIs that match in all their forms.
	uris := r.Action != Allow || other.Action == Allow
	return allCovered(r.Tools, other.Tools) && allCovered(r.Prompts, other.Prompts) &&
		(len(other.Resources) == 0 || uris && allCovered(r.Resources, other.Resources)) &&
		(len(other.Completions) == 0 || uris && allCovered(r.Completions, other.Completions))
}

// allCovered reports whether every text that matches another pattern also matches a pattern of all.
func allCovered(all, others []string) bool {
	return !slices.ContainsFunc(others, func(other string) bool {
		return !slices.ContainsFunc(all, func(p string) bool { return patternCovers(p, other) })
	})
}

func patternCovers(pattern, other string) bool {
	if pattern == other {
		return true
	}
	at := strings.IndexAny(other, wildcards)
	if at < 0 { // the pattern matches a single text
		return newPatterns([]string{pattern}).matchName(other)
	}
	begin, rest, _ := strings.Cut(pattern, "*")
	return rest == "" && len(begin) == len(pattern)-1 && !strings.ContainsAny(begin, wildcards) && strings.HasPrefix(other[:at], begin)
}

// UnknownName is a name in a rule without an object of the name.
type UnknownName struct {
	Rule string
	Name string   // as in the rule
	Near []string // similar names, in the same form
}

func (u UnknownName) String() string {
	text := fmt.Sprintf("policy rule %q: there is no %s", u.Rule, u.Name)
	if len(u.Near) > 0 {
		text += fmt.Sprintf(" (did you mean %s?)", strings.Join(u.Near, ", "))
	}
	return text
}

// UnknownTools returns the patterns of a rule for tools unknown to their servers. tools returns the
// names of a server's tools; known is false if the names are not known.
func UnknownTools(rule string, patterns []string, tools func(server string) (names []string, known bool)) []UnknownName {
	var found []UnknownName
	for _, target := range patterns {
		server, name, ok := strings.Cut(target, ".")
		if !ok || strings.ContainsAny(target, wildcards) {
			continue
		}
		names, known := tools(server)
		if !known || slices.Contains(names, name) {
			continue
		}
		near := nearest.Names(name, names)
		for i, n := range near {
			near[i] = server + "." + n
		}
		found = append(found, UnknownName{rule, target, near})
	}
	return found
}

// UnknownClients returns the patterns of a rule that match no name of a token. The rule still
// applies to clients without a token that call themselves so.
func UnknownClients(rule string, patterns, tokens []string) []UnknownName {
	var found []UnknownName
	for _, client := range patterns {
		if !slices.ContainsFunc(tokens, newPatterns([]string{client}).matchName) {
			found = append(found, UnknownName{rule, client, nearest.Names(client, tokens)})
		}
	}
	return found
}
