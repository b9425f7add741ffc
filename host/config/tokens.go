package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
)

// minToken is the length in bytes below which there is a warning that a bearer token can
// be guessed.
const minToken = 16

// tokens reads the bearer tokens: strings, or tables of a token and more about it. If
// rights is set, that can be what its clients may do.
func (t *table) tokens(rights bool) []bearer.Token {
	n := t.get("tokens", "an array of strings or "+t.tableType()+"s", kindArray)
	if n == nil {
		return nil
	}
	l := tokenList{table: t, rights: rights, keys: map[string]string{}, tokens: make([]bearer.Token, 0, len(n.items))}
	for i, item := range n.items {
		l.read(fmt.Sprintf("tokens[%d]", i), item)
	}
	return l.tokens
}

// tokenList is a list of tokens that is being read.
type tokenList struct {
	*table
	rights bool
	keys   map[string]string // of the tokens with a name, by that in lower case
	tokens []bearer.Token
}

// read reads one token.
func (l *tokenList) read(key string, n *node) {
	var token bearer.Token
	ok := true
	if n.kind == kindTable {
		token, ok = l.readTable(key, n)
	} else if ok = l.check(key, n, "a string", kindString); ok {
		token.Digest, ok = l.token(key, n)
	}
	if !ok {
		return
	}
	for _, before := range l.tokens {
		if before.Digest == token.Digest && !reflect.DeepEqual(before, token) {
			l.problem(key, "is a token that is listed twice, with different settings")
		}
	}
	l.tokens = append(l.tokens, token)
}

// readTable reads one token that is written as a table.
func (l *tokenList) readTable(key string, n *node) (token bearer.Token, ok bool) {
	item := &table{r: l.r, node: n, prefix: l.prefix + key + "."}
	text, digest := item.get("token", "a string", kindString), item.get("sha256", "a string", kindString)
	switch {
	case n.fields["token"] != nil && n.fields["sha256"] != nil:
		item.problem("sha256", "is set together with token (one of them is enough)")
	case text != nil:
		token.Digest, ok = item.token("token", text)
	case digest != nil:
		token.Digest, ok = item.digest("sha256", digest)
	case n.fields["token"] == nil && n.fields["sha256"] == nil:
		item.problem("token", "is missing (or its digest, sha256)")
	}
	if l.rights {
		l.readName(key, item, &token)
		item.expiry(&token)
		item.tokenRights(&token)
	}
	item.close(tokenAliases)
	return token, ok
}

// tokenAliases are the names that other programs use for these settings.
var tokenAliases = map[string]string{
	"digest": "sha256", "hash": "sha256", "sha": "sha256", "value": "token", "secret": "token", "client": "name", "id": "name",
	"expiry": "expires", "expire": "expires", "expiresat": "expires", "until": "expires", "allow": "expose", "deny": "hide",
}

// tokenRights reads what clients with a token may do.
func (t *table) tokenRights(token *bearer.Token) {
	save := true
	t.boolean("save", &save)
	token.Rights.NoSave = !save
	token.Rights.Expose = t.strs("expose", t.target)
	token.Rights.Hide = t.strs("hide", t.target)
	saved := SharedTools
	choice(t, "tools", &saved, SharedTools, OwnTools)
	if saved == OwnTools {
		if t.node.fields["name"] == nil {
			t.problem("tools", `"own" is for tokens with a name, which the folder of the tools gets (give the token a name)`)
		}
		token.Rights.Own = token.Name
	}
}

// SavedTools says which saved tools the clients with a token have.
type SavedTools string

// The values of SavedTools.
const (
	SharedTools SavedTools = "shared" // those of all
	OwnTools    SavedTools = "own"
)

// target reads a pattern for targets.
func (t *table) target(key string, n *node) (string, bool) {
	pattern, ok := t.pattern(key, n)
	if ok && !strings.ContainsAny(pattern, ".*?[") {
		t.problem(key, "%s matches nothing (write SERVER.NAME, tools.NAME or builtin.NAME, such as \"%s.*\")", quoteWritten(n), pattern)
		return "", false
	}
	return pattern, ok
}

// expiry reads when a token expires: a date, at whose beginning in UTC it does, or a time
// with a zone.
func (t *table) expiry(token *bearer.Token) {
	n := t.get("expires", "a date such as 2027-01-01, or a time such as 2027-01-01T08:00:00Z", kindTime, kindString)
	if n == nil {
		return
	}
	text := n.text
	if n.kind == kindString {
		var ok bool
		if text, ok = t.expandPublic("expires", n); !ok {
			return
		}
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			token.Expires = at.UTC()
			return
		}
	}
	t.problem("expires", "%q is neither a date nor a time with a zone (write 2027-01-01, or 2027-01-01T08:00:00Z)", n.text)
}

// digest reads the digest of a token.
func (t *table) digest(key string, n *node) (bearer.Digest, bool) {
	text, ok := t.expandPublic(key, n)
	if !ok {
		return bearer.Digest{}, false
	}
	d, err := bearer.ParseDigest(text)
	if err != nil {
		t.problem(key, "%s %v", quoteWritten(n), err)
	}
	return d, err == nil
}

// readName reads the name of a token.
func (l *tokenList) readName(key string, item *table, token *bearer.Token) {
	name, ok := item.str("name")
	if !ok {
		return
	}
	if err := bearer.CheckName(name); err != nil {
		item.problem("name", "%s %v", quoteWritten(item.node.fields["name"]), err)
		return
	}
	folded := strings.ToLower(name)
	if first := l.keys[folded]; first != "" {
		item.problem("name", "%s is also the name of %s, apart from case (each token needs a name of its own)", quoteWritten(item.node.fields["name"]), l.path(first))
		return
	}
	l.keys[folded] = key
	token.Name = name
}

// token reads a bearer token (RFC 6750, 2.1). All of it is secret.
func (t *table) token(key string, n *node) (bearer.Digest, bool) {
	token, ok := t.expandPrivate(key, "token", n)
	if !ok {
		return bearer.Digest{}, false
	}
	bad := strings.ContainsFunc(strings.TrimRight(token, "="), func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("-._~+/", r)
	})
	switch {
	case token == "":
		t.problem(key, "is empty (anyone could connect; leave it out)")
	case bad:
		t.problem(key, "has characters that a bearer token cannot have (letters, digits and -._~+/ are fine)")
	default:
		if len(token) < minToken {
			t.r.warnings = append(t.r.warnings, t.path(key)+": the token is short enough to be guessed (make a better one with openssl rand -hex 32)")
		}
		return bearer.DigestOf(token), true
	}
	return bearer.Digest{}, false
}

// tokens returns the bearer tokens, masked or by their names, and what is not usual about
// them.
func (d *description) tokens(list []bearer.Token) string {
	if len(list) == 0 {
		return "none"
	}
	shown := make([]string, len(list))
	for i, token := range list {
		shown[i] = cmp.Or(token.Name, "****")
		if about := d.rights(&token); about != "" {
			shown[i] += " (" + about + ")"
		}
	}
	return strings.Join(shown, " ")
}

// rights returns when a token expires and what its clients may not do.
func (d *description) rights(token *bearer.Token) string {
	var about []string
	if !token.Expires.IsZero() {
		about = append(about, "expires "+token.Expires.Format(time.RFC3339))
	}
	if token.Rights.NoSave {
		about = append(about, "save = false")
	}
	if token.Rights.Own != "" {
		about = append(about, "tools = own")
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"expose", token.Rights.Expose}, {"hide", token.Rights.Hide}} {
		if len(list.patterns) > 0 {
			about = append(about, list.name+" "+strings.Join(list.patterns, " "))
		}
	}
	return d.masker.Mask(strings.Join(about, ", "))
}
