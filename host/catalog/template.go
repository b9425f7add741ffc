package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// template is a URI template (RFC 6570) of an upstream. It is matched
// generously: which upstream is to be asked for a URI matters here, what the
// variables are is the upstream's business. Matching takes time linear in the
// URI, as Go's regular expressions do, whoever wrote the template.
type template struct {
	text    string
	server  string
	literal int            // bytes outside of expressions
	pattern *regexp.Regexp // nil: it cannot be matched
}

// Bounds of what is compiled and matched, in bytes: a match takes time in
// proportion to both.
const (
	maxTemplate = 4096
	maxURI      = 16 << 10
)

// expressions are what the expansions of an expression may look like, by its
// operator (RFC 6570 section 3.2, appendix A), more liberal than the standard
// in which characters need not be escaped. "" is simple expansion.
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
