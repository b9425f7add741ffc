// Package bearer has the bearer tokens of our endpoints (RFC 6750): by their digests, with
// what their clients may do.
//
//	bearer.go  tokens and their digests
//	name.go    the names of tokens
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// Digest is the SHA-256 of a bearer token. The zero Digest stands for no token.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// Principal returns a name for the clients that have the token; see route.Session. It is a
// digest of the digest, so that it gives no access, and "" for the zero Digest.
func (d Digest) Principal() string {
	if d == (Digest{}) {
		return ""
	}
	again := sha256.Sum256(d[:])
	return hex.EncodeToString(again[:16])
}

// Token is a token that is accepted, and what its clients may do. The token itself is not
// kept.
type Token struct {
	Digest Digest
	// Name is unique among the tokens of an endpoint, without regard to case; "" for none.
	Name string
	// NoSave says that clients with the token may not save and delete tools.
	NoSave bool
}

// Find returns the token in tokens that a request was sent with; nil if it was sent with
// none of them. The comparison takes the same time whichever it is.
func Find(tokens []Token, r *http.Request) *Token {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := DigestOf(strings.TrimSpace(value))
	found := -1
	for i := range tokens {
		same := subtle.ConstantTimeCompare(tokens[i].Digest[:], given[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 || !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return &tokens[found]
}
