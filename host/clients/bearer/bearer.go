// Package bearer has the bearer tokens of our endpoints (RFC 6750): their digests, their names, and
// the rights of the clients with a token. Begin with Token.
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Digest is the SHA-256 of a bearer token. The zero Digest stands for no token.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// ParseDigest reads a digest in hexadecimal digits. The digest of the empty token, and the
// zero Digest, are refused. The error's text is meant to follow the quoted text.
func ParseDigest(text string) (Digest, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(Digest{}) {
		return Digest{}, errors.New("is not a SHA-256 digest (64 hexadecimal digits; make a token and its digest with mcp-metatool token new)")
	}
	switch d := Digest(raw); d {
	case Digest{}:
		return Digest{}, errors.New("is no digest of a token")
	case DigestOf(""):
		return Digest{}, errors.New("is the digest of an empty token (anyone could connect)")
	default:
		return d, nil
	}
}

// String returns the digest in hexadecimal digits, as in the configuration.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Principal returns a name for the clients with the token; see route.Session. The name is a digest
// of the digest, and so gives no access. The zero Digest has the name "".
func (d Digest) Principal() string {
	if d == (Digest{}) {
		return ""
	}
	again := sha256.Sum256(d[:])
	return hex.EncodeToString(again[:16])
}

// Token is an accepted token with the rights of the token's clients. Only the token's digest is
// kept.
type Token struct {
	Digest Digest
	// Name is unique among the tokens of an endpoint, without regard to case; "" for none.
	Name string
	// Expires is when the token is no longer accepted; the zero Time: never.
	Expires time.Time
	// Rights are the rights of the token's clients.
	Rights Rights
}

// Expired reports whether the token is no longer accepted at a time.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Find returns the token of a request, or nil if tokens does not have the request's token. The
// duration of the comparison does not depend on the token.
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
