package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// template is a URI template (RFC 6570) of an upstream. Matching is lenient, because it
// only decides which upstream to ask for a URI; the values of variables do not matter
// here. It takes time linear in the length of the URI for any template, since Go's
// regular expressions do.
type template struct {
	text    string
	server  string
	literal int            // number of bytes outside of expressions
	pattern *regexp.Regexp // nil: it cannot be matched
}

// Bounds of what is compiled and matched, in bytes. The time for a match is proportional
// to both.
const (
	maxTemplate = 4096
	maxURI      = 16 << 10
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
		rest = after
	}
	pattern.WriteString(`\z`)
	var err error
	if t.pattern, err = regexp.Compile(pattern.String()); err != nil {
		return t, fmt.Errorf("it cannot be matched: %w", err)
	}
	return t, nil
}

func (t template) matches(uri string) bool {
	return t.pattern != nil && len(uri) <= maxURI && t.pattern.MatchString(uri)
}
