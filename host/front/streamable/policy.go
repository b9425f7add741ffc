package streamable

import (
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/front/origin"
)

// policy is Access in a form for checking requests. A request loads it once and passes it
// on, so that a reload cannot mix two policies.
type policy struct {
	tokens   []bearer.Token
	byDigest map[bearer.Digest]*bearer.Token
	origin.Rules
}

func newPolicy(a Access) *policy {
	p := &policy{tokens: a.Tokens, byDigest: map[bearer.Digest]*bearer.Token{}, Rules: origin.NewRules(a.AllowedOrigins, a.AllowedHosts)}
	for i, token := range a.Tokens {
		p.byDigest[token.Digest] = &a.Tokens[i]
	}
	return p
}

// none is the token of clients without one.
var none bearer.Token

// token returns the token with a digest; nil if it is not accepted. The zero digest is
// that of clients without a token.
func (p *policy) token(d bearer.Digest) *bearer.Token {
	if len(p.tokens) == 0 && d == (bearer.Digest{}) {
		return &none
	}
	return p.byDigest[d]
}

// accepts reports whether a session that was begun with the token may continue.
func (p *policy) accepts(d bearer.Digest) bool { return p.token(d) != nil }

// maySave reports whether clients with the token may save tools.
func (p *policy) maySave(d bearer.Digest) bool {
	token := p.token(d)
	return token != nil && !token.NoSave
}

// name returns the name of the token, "" for none.
func (p *policy) name(d bearer.Digest) string {
	if token := p.token(d); token != nil {
		return token.Name
	}
	return ""
}

// authenticate returns the token that r was sent with; ok is false if it is not
// accepted.
func (p *policy) authenticate(r *http.Request) (token bearer.Digest, ok bool) {
	if len(p.tokens) == 0 {
		return bearer.Digest{}, true
	}
	if found := bearer.Find(p.tokens, r); found != nil {
		return found.Digest, true
	}
	return bearer.Digest{}, false
}
