package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Access admits users of the page by the page's token, or by a token exchanged for a code. A code
// is for the arguments of a browser, which other users of the machine can see, so the code is valid
// once and for a short time. An Access is safe for concurrent use.
type Access struct {
	token string
	now   func() time.Time

	mu     sync.Mutex
	tokens map[[sha256.Size]byte]bool // by their hash, so that no comparison shows a part of a token
	codes  map[[sha256.Size]byte]*code
}

// code is an issued code.
type code struct {
	expires time.Time
	token   [sha256.Size]byte // the hash of the token that the code was exchanged for
	used    bool
}

// codeLife is how long a code is valid. A browser may have to start first.
const codeLife = 2 * time.Minute

// maxCodes is how many codes are known at a time.
const maxCodes = 64

// NewAccess returns an Access with a new random token.
func NewAccess() *Access { return newAccess(rand.Text(), time.Now) }

func newAccess(token string, now func() time.Time) *Access {
	return &Access{
		token: token, now: now, tokens: map[[sha256.Size]byte]bool{sha256.Sum256([]byte(token)): true},
		codes: map[[sha256.Size]byte]*code{},
	}
}

// Token returns the token.
func (a *Access) Token() string { return a.token }

// Code returns a new code.
func (a *Access) Code() string {
	text := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.codes) >= maxCodes {
		a.forgetOldest()
	}
	a.codes[sha256.Sum256([]byte(text))] = &code{expires: a.now().Add(codeLife)}
	return text
}

func (a *Access) forgetOldest() {
	var oldest [sha256.Size]byte
	var first *code
	for hash, c := range a.codes {
		if first == nil || c.expires.Before(first.expires) {
			oldest, first = hash, c
		}
	}
	delete(a.codes, oldest)
}

// allows reports whether a token is valid.
func (a *Access) allows(token string) bool {
	hash := sha256.Sum256([]byte(token))
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens[hash]
}

// exchange returns a new token for a code. If a code comes twice, the rightful owner of the token
// is unknown: the token from the first exchange becomes invalid.
func (a *Access) exchange(text string) (token string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.codes[sha256.Sum256([]byte(text))]
	switch {
	case c == nil:
		return "", errCode
	case c.used:
		delete(a.tokens, c.token)
		return "", errCodeUsed
	case !a.now().Before(c.expires):
		return "", errCode
	}
	token = rand.Text()
	c.used, c.token = true, sha256.Sum256([]byte(token))
	a.tokens[c.token] = true
	return token, nil
}

var (
	errCode     = &requestError{status: http.StatusGone, text: "This link is too old. Open the page again from the command line (ui --open, or ui --attach --open)."}
	errCodeUsed = &requestError{status: http.StatusGone, text: "This link was used before, and is now blocked for everyone. If it was not you, another user of this machine has tried to open the page. Open it again from the command line (ui --open, or ui --attach --open)."}
)

// session answers with a token for a code.
func (h *Handler) session(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	text, _ := wire.GetString(body, "code")
	token, err := h.opts.Access.exchange(text)
	if err != nil {
		h.opts.Log.Warn("the page was refused a code", "err", err)
		return err
	}
	return write(w, map[string]string{"token": token})
}
