// Package bearer has the bearer tokens of our endpoints (RFC 6750): their digests, their names, and
// the rights of the clients with a token. Begin with Token.
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
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

// CheckName returns an error if a token cannot have the name. The rules are the rules for names of
// saved tools, because folders are named after tokens too. The error's text continues a sentence
// that begins with the quoted name.
func CheckName(name string) error {
	bad := new(tools.NameError)
	if errors.As(tools.CheckName(name), &bad) {
		return fmt.Errorf("cannot name a token: %s", bad.Reason)
	}
	return nil
}

// Rights are the rights of the clients with a token. Rights only narrow the rights that the
// configuration gives to all clients; nil Rights do not narrow them. Rights in use must not be
// changed.
type Rights struct {
	// NoSave forbids saving and deleting tools.
	NoSave bool
	// Expose and Hide are patterns (package glob) of targets: SERVER.NAME with the real name of a
	// server and the server's name of a tool or prompt, or the URI of a resource, or tools.NAME for
	// a saved tool, or builtin.NAME for a built-in tool. Clients see the targets that Expose
	// matches, or all targets if Expose is empty; scripts may also call the other tools. Targets
	// that Hide matches are closed to clients and scripts.
	Expose, Hide []string
	// Own is the name of the token if the token's clients have saved tools of their own, and "" if
	// they share the saved tools of all clients.
	Own string

	nothing  bool
	view     string // see View, if prepared
	prepared bool
}

// Prepared returns a copy for which View takes no time.
func (r Rights) Prepared() *Rights {
	r.view, r.prepared = r.View(), true
	return &r
}

// Nothing are the rights of a client with a token that is no longer accepted.
var Nothing = &Rights{NoSave: true, nothing: true}

// MaySave reports whether clients may save and delete tools.
func (r *Rights) MaySave() bool { return r == nil || !r.NoSave }

// View identifies the view of the clients: clients with equal Views see the same targets. View is
// "" if the clients see everything that the configuration gives to all clients.
func (r *Rights) View() string {
	switch {
	case r == nil:
		return ""
	case r.prepared:
		return r.view
	case r.nothing:
		return "nothing"
	case len(r.Expose)+len(r.Hide) == 0 && r.Own == "":
		return ""
	}
	return strings.Join(slices.Concat([]string{r.Own}, r.Expose, []string{""}, r.Hide), "\x00")
}

// Narrows reports whether clients see less than the configuration gives to all clients, or other
// saved tools.
func (r *Rights) Narrows() bool { return r.View() != "" }

// Hides reports whether neither clients nor their scripts may use the name of a server.
func (r *Rights) Hides(server, name string) bool {
	return r != nil && (r.nothing || len(r.Hide) > 0 && glob.Any(r.Hide, server+"."+name))
}

// Exposes reports whether clients see a server's name, unless Hide matches the name.
func (r *Rights) Exposes(server, name string) bool {
	return r == nil || !r.nothing && (len(r.Expose) == 0 || glob.Any(r.Expose, server+"."+name))
}

// Shows reports whether clients see and may use the name of a server.
func (r *Rights) Shows(server, name string) bool {
	return r.Exposes(server, name) && !r.Hides(server, name)
}

// HidesServer reports whether all targets of a server are closed.
func (r *Rights) HidesServer(server string) bool {
	return r != nil && (r.nothing || glob.CoversAll(r.Hide, server+"."))
}

// ShowsResource reports whether clients may use a resource of a server. A URI has several
// spellings, and servers differ in reading them (wire.URIForms). So the resource is hidden if Hide
// matches any spelling, and exposed only if Expose matches all spellings.
func (r *Rights) ShowsResource(server, uri string) bool {
	if r == nil {
		return true
	}
	forms, _ := wire.URIForms(uri)
	withheld := func(form string) bool { return !r.Exposes(server, form) }
	return !slices.ContainsFunc(forms, withheld) && !r.HidesResource(server, uri)
}

// HidesResource reports whether clients may not use a resource of a server, exposed or
// not. For the forms of a URI see ShowsResource.
func (r *Rights) HidesResource(server, uri string) bool {
	if r == nil {
		return false
	}
	hides := func(form string) bool { return r.Hides(server, form) }
	forms, bare := wire.URIForms(uri)
	return slices.ContainsFunc(forms, hides) || slices.ContainsFunc(bare, hides)
}
