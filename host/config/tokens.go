package config

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/bearer"
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
	if n.kind == kindTable {
		if n = l.readTable(key, n, &token); n == nil {
			return
		}
	}
	if !l.check(key, n, "a string", kindString) {
		return
	}
	text, ok := l.token(key, n)
	if !ok {
		return
	}
	token.Digest = bearer.DigestOf(text)
	for _, before := range l.tokens {
		if before.Digest == token.Digest && before != token {
			l.problem(key, "is a token that is listed twice, with different settings")
		}
	}
	l.tokens = append(l.tokens, token)
}

// readTable reads one token that is written as a table, and returns the node of the token
// itself.
func (l *tokenList) readTable(key string, n *node, token *bearer.Token) *node {
	item := &table{r: l.r, node: n, prefix: l.prefix + key + "."}
	text := item.get("token", "a string", kindString)
	if text == nil && n.fields["token"] == nil {
		item.problem("token", "is missing")
	}
	if l.rights {
		l.readName(key, item, token)
		save := true
		item.boolean("save", &save)
		token.NoSave = !save
	}
	item.close(nil)
	return text
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
func (t *table) token(key string, n *node) (string, bool) {
	token, ok := t.expandPrivate(key, "token", n)
	if !ok {
		return "", false
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
		return token, true
	}
	return "", false
}

// tokens returns the bearer tokens, masked or by their names, and what is not usual about
// them.
func (d *description) tokens(list []bearer.Token) string {
	if len(list) == 0 {
		return "none"
	}
	shown := make([]string, len(list))
	for i, token := range list {
		shown[i] = token.Name
		if shown[i] == "" {
			shown[i] = "****"
		}
		if token.NoSave {
			shown[i] += " (save = false)"
		}
	}
	return strings.Join(shown, " ")
}
