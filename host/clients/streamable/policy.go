package streamable

import (
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/origin"
)

// policy is Access in a form for checking requests. A request loads the policy once and passes the
// policy on, so that a reload cannot mix two policies. Tokens expire on their own.
type policy struct {
	tokens   []bearer.Token
	byDigest map[bearer.Digest]*grant
	now      func() time.Time
	origin.Rules
}

// grant is the access of the clients with a token.
type grant struct {
	*bearer.Token
	rights *bearer.Rights
}

// everyone is the access of clients without a token.
var everyone = &grant{Token: &bearer.Token{}}

func newPolicy(a Access, now func() time.Time) *policy {
	p := &policy{tokens: a.Tokens, byDigest: map[bearer.Digest]*grant{}, now: now, Rules: origin.NewRules(a.AllowedOrigins, a.AllowedHosts)}
	for i := range a.Tokens {
		token := &a.Tokens[i]
		p.byDigest[token.Digest] = &grant{token, token.Rights.Prepared()}
	}
	return p
}

// grant returns the access of the clients with a token; nil if the token is not accepted. The zero
// digest stands for clients without a token.
func (p *policy) grant(d bearer.Digest) *grant {
	if len(p.tokens) == 0 && d == (bearer.Digest{}) {
		return everyone
	}
	if g := p.byDigest[d]; g != nil && !g.Expired(p.now()) {
		return g
	}
	return nil
}

// accepts reports whether a session begun with the token may continue.
func (p *policy) accepts(d bearer.Digest) bool { return p.grant(d) != nil }

// rights returns the rights of clients with the token.
func (p *policy) rights(d bearer.Digest) *bearer.Rights {
	if g := p.grant(d); g != nil {
		return g.rights
	}
	return bearer.Nothing
}

// name returns the name of the token, "" for none.
func (p *policy) name(d bearer.Digest) string {
	if g := p.byDigest[d]; g != nil {
		return g.Name
	}
	return ""
}

// authenticate returns the token of r; ok is false if the token is not accepted.
func (p *policy) authenticate(r *http.Request) (token bearer.Digest, ok bool) {
	if len(p.tokens) == 0 {
		return bearer.Digest{}, true
	}
	if found := bearer.Find(p.tokens, r); found != nil && !found.Expired(p.now()) {
		return found.Digest, true
	}
	return bearer.Digest{}, false
}

// nextExpiry returns when the next token expires; ok is false if none will.
func (p *policy) nextExpiry() (next time.Time, ok bool) {
	now := p.now()
	for i := range p.tokens {
		if at := p.tokens[i].Expires; !at.IsZero() && at.After(now) && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}
