package httpclient

import (
	"net/http"
	"strings"
)

// Challenge is a challenge of a WWW-Authenticate header (RFC 9110, 11.6.1).
type Challenge struct {
	Scheme string // in lower case
	// Params holds the parameters by their names in lower case. If a parameter is
	// repeated, the last value counts.
	Params map[string]string
}

// Challenges returns the challenges of a response, in order. Challenges is lenient: the rest of a
// header line is ignored from the first unexpected byte on, and parameters before the first scheme
// are dropped.
func Challenges(h http.Header) []Challenge {
	var all []Challenge
	for _, line := range h.Values("WWW-Authenticate") {
		all = append(all, parseChallenges(line)...)
	}
	return all
}

// ChallengeParam returns the value of a parameter in the first challenge with the parameter, or "".
// name is in lower case.
func ChallengeParam(h http.Header, name string) string {
	for _, c := range Challenges(h) {
		if value, ok := c.Params[name]; ok {
			return value
		}
	}
	return ""
}

// parseChallenges parses a line: challenges separated by commas, each a scheme with a token68 or
// with parameters separated by commas.
func parseChallenges(line string) []Challenge {
	var all []Challenge
	p := challengeParser{rest: line}
	for {
		p.skip(", \t")
		word := p.token()
		if word == "" {
			return all
		}
		spaced := p.skip(" \t")
		switch {
		case p.rest != "" && p.rest[0] == '=':
			value, ok := p.value()
			if !ok {
				return all
			}
			if len(all) > 0 {
				all[len(all)-1].set(strings.ToLower(word), value)
			}
		case spaced || p.rest == "" || p.rest[0] == ',':
			all = append(all, Challenge{Scheme: strings.ToLower(word)})
			p.token68()
		default:
			return all
		}
	}
}

func (c *Challenge) set(name, value string) {
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params[name] = value
}

// challengeParser reads from the front of rest.
type challengeParser struct{ rest string }

// skip drops leading characters of set and reports whether any were dropped.
func (p *challengeParser) skip(set string) bool {
	before := len(p.rest)
	p.rest = strings.TrimLeft(p.rest, set)
	return len(p.rest) < before
}

// token reads a token (RFC 9110, 5.6.2), or returns "".
func (p *challengeParser) token() string {
	n := 0
	for n < len(p.rest) && isTokenByte(p.rest[n]) {
		n++
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

// value reads "=" and the following token or quoted string. ok is false without a value.
func (p *challengeParser) value() (value string, ok bool) {
	p.rest = p.rest[1:]
	p.skip(" \t")
	if strings.HasPrefix(p.rest, `"`) {
		return p.quoted()
	}
	// More than a token is accepted, because URLs are often written without quotes.
	n := strings.IndexAny(p.rest, ", \t\"")
	if n < 0 {
		n = len(p.rest)
	}
	value, p.rest = p.rest[:n], p.rest[n:]
	return value, value != ""
}

// quoted reads a quoted string (RFC 9110, 5.6.4). ok is false for a string without an end.
func (p *challengeParser) quoted() (value string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '"':
			p.rest = p.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i == len(p.rest) {
				return "", false
			}
		}
		b.WriteByte(p.rest[i])
	}
	return "", false
}

// token68 drops the credentials that some schemes have instead of parameters. Nothing or a comma
// follows credentials, unlike a parameter.
func (p *challengeParser) token68() {
	n := 0
	for n < len(p.rest) && (isTokenByte(p.rest[n]) || p.rest[n] == '/') {
		n++
	}
	after := strings.TrimLeft(p.rest[n:], "=")
	after = strings.TrimLeft(after, " \t")
	if n > 0 && (after == "" || after[0] == ',') {
		p.rest = after
	}
}

func isTokenByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
