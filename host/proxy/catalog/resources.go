package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// noun returns the word for an item of a surface, for messages.
func noun(s wire.Surface) string {
	return map[wire.Surface]string{
		wire.Tools: "tool", wire.Prompts: "prompt", wire.Resources: "resource", wire.Templates: "resource template",
	}[s]
}

// itemsOf returns the items of a source without duplicates.
func (b *builder) itemsOf(s *source) []sourceItem {
	l := s.lists[b.surface]
	if l.keyless > 0 {
		b.problem("report it to the authors of the server", "upstream %q lists %d %ss that have no %s; they are left out", s.Server, l.keyless, noun(b.surface), b.surface.Key())
	}
	items := make([]sourceItem, 0, len(l.items))
	seen := make(map[string]bool, len(l.items))
	for _, e := range l.items {
		if seen[e.own] {
			b.problem("report it to the authors of the server", "upstream %q lists %s %q twice; the first is used", s.Server, noun(b.surface), e.own)
			continue
		}
		seen[e.own] = true
		if e.odd != "" && (b.surface != wire.Tools || !s.Hides(e.own)) {
			b.noteOdd(s.Server, e)
		}
		if b.pinned(s, e) {
			items = append(items, e)
		}
	}
	return items
}

func (b *builder) prompts(sources []*source) map[string]ownName {
	owners := map[string]ownName{}
	for i, s := range sources {
		for _, e := range b.itemsOf(s) {
			if first, taken := owners[e.public]; taken {
				b.problem("give one of the upstreams another prefix", "prompt name %q: prompt %q of upstream %q hides prompt %q of upstream %q",
					e.public, first.name, first.server, e.own, s.Server)
				continue
			}
			owners[e.public] = ownName{s.Server, e.own}
			if b.shown(s.Server, e) {
				b.item(i, e.public, e)
			}
		}
	}
	maps.DeleteFunc(owners, func(_ string, o ownName) bool { return !b.rights.Shows(o.server, o.name) })
	return owners
}

// resources determines the owner of each URI: the first upstream in the configuration.
func (b *builder) resources(sources []*source) map[string]string {
	owners := map[string]string{}
	for i, s := range sources {
		for _, e := range b.itemsOf(s) {
			if first, taken := owners[e.own]; taken {
				b.problem("disable one of the two servers if the other one is needed: URIs have no prefix", "%s %q: that of upstream %q hides that of upstream %q, which is configured later",
					noun(b.surface), e.own, first, s.Server)
				continue
			}
			owners[e.own] = s.Server
			if b.shown(s.Server, e) {
				b.item(i, e.own, e)
			}
		}
	}
	return owners
}

func (b *builder) templates(sources []*source) []template {
	owners := b.resources(sources)
	templates := make([]template, 0, len(b.items))
	for _, e := range b.items { // in the order of the configuration
		t, err := parseTemplate(e.key)
		if err != nil && !e.refused {
			b.problem("report it to the authors of the server", "resource template %q of upstream %q: %v; it is listed, but matches no URI", e.key, owners[e.key], err)
		}
		t.server = owners[e.key]
		templates = append(templates, t)
	}
	slices.SortStableFunc(templates, func(x, y template) int { return cmp.Compare(y.literal, x.literal) })
	return templates
}

// Prompt finds the upstream with a prompt, and the upstream's own name for the prompt.
func (s *Scope) Prompt(name string) (server, own string, ok bool) {
	o, ok := s.view.Load().prompts[name]
	return o.server, o.name, ok
}

// Resource returns the upstream that lists the resource with the URI.
func (s *Scope) Resource(uri string) (server string, ok bool) {
	server, ok = s.view.Load().resources[uri]
	return server, ok
}

// Template returns the upstream that lists exactly this URI template.
func (s *Scope) Template(text string) (server string, ok bool) {
	for _, t := range s.view.Load().templates {
		if t.text == text {
			return t.server, true
		}
	}
	return "", false
}

// Matching returns the upstreams with a resource template for the URI. The upstream with the most
// literal template comes first; ties are in the order of the configuration. The work for each
// upstream is bounded.
func (s *Scope) Matching(uri string) (servers []string) {
	m := newMatching(uri)
	templates := s.view.Load().templates
	for i := range templates {
		if t := &templates[i]; !slices.Contains(servers, t.server) && m.matches(t) {
			servers = append(servers, t.server)
		}
	}
	return servers
}

// template is a URI template (RFC 6570) of an upstream. Matching is lenient, because the match only
// decides which upstream to ask for a URI; the values of variables do not matter here. Matching any
// template takes time linear in the length of the URI, as Go's regular expressions do.
type template struct {
	text    string
	server  string
	literal int    // number of bytes outside of expressions
	prefix  string // the text before the first expression
	size    int    // about how many instructions the pattern has
	// pattern compiles the pattern at its first use, since a server can have 20,000 templates. A
	// template that cannot be matched has a nil function, or a function that returns nil.
	pattern func() *regexp.Regexp
}

// Bounds of compiled patterns and matched URIs, in bytes. The time for a match is proportional to
// both.
const (
	maxTemplate = 4096
	maxURI      = 16 << 10
)

const (
	// maxMatchWork bounds the work of matching a URI with the templates of a server, some tenths of
	// a second: a step is a byte of the URI and an instruction of a pattern.
	maxMatchWork = 20_000_000
	// compileWork is for how many steps compiling an instruction counts.
	compileWork = 50
	// expressionSize is how many instructions an expression has at most.
	expressionSize = 6
)

// expressions maps the operator of an expression to a pattern of its expansions (RFC 6570, section
// 3.2 and appendix A); 0 is simple expansion. The patterns accept more unescaped characters than
// the standard.
var expressions = map[byte]string{
	0:   `[^/?#]*`,
	'+': `.*`,
	'#': `(?:#.*)?`,
	'.': `(?:\.[^/?#]*)?`,
	'/': `(?:/[^?#]*)?`,
	';': `(?:;[^/?#]*)?`,
	'?': `(?:\?[^#]*)?`,
	'&': `(?:&[^#]*)?`,
}

func parseTemplate(text string) (template, error) {
	t := template{text: text}
	if len(text) > maxTemplate {
		return t, fmt.Errorf("longer than %d bytes", maxTemplate)
	}
	var pattern strings.Builder
	pattern.WriteString(`(?s)\A`)
	t.prefix, _, _ = strings.Cut(text, "{")
	rest := text
	for {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return t, errors.New("a } without a {")
		}
		pattern.WriteString(regexp.QuoteMeta(literal))
		t.literal += len(literal)
		if !found {
			break
		}
		expression, after, closed := strings.Cut(after, "}")
		if !closed || expression == "" {
			return t, errors.New("an empty or unclosed expression")
		}
		form, known := expressions[expression[0]]
		if !known {
			form = expressions[0]
		}
		pattern.WriteString(form)
		t.size += expressionSize
		rest = after
	}
	pattern.WriteString(`\z`)
	t.size += t.literal + 2
	t.pattern = sync.OnceValue(func() *regexp.Regexp {
		compiled, _ := regexp.Compile(pattern.String()) // consists of literals and of our own parts
		return compiled
	})
	return t, nil
}

// matching matches a URI with templates. Each server has a separate bound, so the slow templates of
// a server do not shut out the templates of other servers.
type matching struct {
	uri  string
	left map[string]int // of maxMatchWork, by server
	over bool           // a template was left out
}

func newMatching(uri string) *matching { return &matching{uri: uri, left: map[string]int{}} }

func (m *matching) matches(t *template) bool {
	if t.pattern == nil || len(m.uri) > maxURI || !strings.HasPrefix(m.uri, t.prefix) {
		return false
	}
	left, begun := m.left[t.server]
	if !begun {
		left = maxMatchWork
	}
	work := t.size * (len(m.uri) + compileWork)
	if work > left {
		m.over = true
		return false
	}
	m.left[t.server] = left - work
	pattern := t.pattern()
	return pattern != nil && pattern.MatchString(m.uri)
}
