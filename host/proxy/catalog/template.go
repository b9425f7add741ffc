package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// template is a URI template (RFC 6570) of an upstream. Matching is lenient, because it
// only decides which upstream to ask for a URI; the values of variables do not matter
// here. It takes time linear in the length of the URI for any template, since Go's
// regular expressions do.
type template struct {
	text    string
	server  string
	literal int    // number of bytes outside of expressions
	prefix  string // what is before the first expression
	size    int    // about how many instructions the pattern has
	// pattern compiles the pattern when it is needed first, since a server can have 20,000. It is
	// nil, or returns nil, if the template cannot be matched.
	pattern func() *regexp.Regexp
}

// Bounds of what is compiled and matched, in bytes. The time for a match is proportional
// to both.
const (
	maxTemplate = 4096
	maxURI      = 16 << 10
)

const (
	// maxMatchWork bounds the work of matching a URI with the templates of one server: a step
	// is a byte of the URI and an instruction of a pattern. It takes some tenths of a second.
	maxMatchWork = 20_000_000
	// compileWork is for how many steps compiling an instruction counts.
	compileWork = 50
	// expressionSize is how many instructions an expression has at most.
	expressionSize = 6
)

// expressions maps the operator of an expression to a pattern of its expansions (RFC
// 6570, section 3.2 and appendix A); 0 is simple expansion. The patterns accept more
// unescaped characters than the standard.
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
		return t, fmt.Errorf("it is longer than %d bytes", maxTemplate)
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
			return t, errors.New("an expression that is empty or not closed")
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

// matching matches one URI with templates. Each server has its own bound, so that those of a
// server with many or slow templates are left out, and not those of others.
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
