package streamable

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/front/origin"
)

// digest identifies a bearer token; the zero digest means no token.
type digest [sha256.Size]byte

// principal returns the name of the clients with that token, see route.Session: a digest
// of the digest. It is "" for the zero digest, of clients without a token.
func (d digest) principal() string {
	if d == (digest{}) {
		return ""
	}
	again := sha256.Sum256(d[:])
	return hex.EncodeToString(again[:16])
}

// policy is Access in a form for checking requests. A request loads it once and passes it
// on, so that a reload cannot mix two policies.
type policy struct {
	tokens []digest
	noSave []digest // of tokens
	origin.Rules
}

func newPolicy(a Access) *policy {
	return &policy{tokens: digests(a.Tokens), noSave: digests(a.NoSave), Rules: origin.NewRules(a.AllowedOrigins, a.AllowedHosts)}
}

func digests(tokens []string) []digest {
	var all []digest
	for _, token := range tokens {
		all = append(all, sha256.Sum256([]byte(token)))
	}
	return all
}

// accepts reports whether a session that was begun with the token may continue.
func (p *policy) accepts(token digest) bool {
	if len(p.tokens) == 0 {
		return token == digest{}
	}
	return slices.Contains(p.tokens, token)
}

// maySave reports whether clients with the token may save tools.
func (p *policy) maySave(token digest) bool { return !slices.Contains(p.noSave, token) }

// authenticate returns the token that r was sent with; ok is false if it is not
// accepted. It is compared with every accepted token, each time in constant time.
func (p *policy) authenticate(r *http.Request) (token digest, ok bool) {
	if len(p.tokens) == 0 {
		return digest{}, true
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = sha256.Sum256([]byte(strings.TrimSpace(value)))
	found := 0
	for i := range p.tokens {
		found |= subtle.ConstantTimeCompare(p.tokens[i][:], token[:])
	}
	return token, found == 1 && strings.EqualFold(scheme, "Bearer")
}
