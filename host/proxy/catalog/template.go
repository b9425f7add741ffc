package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

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
