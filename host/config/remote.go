package config

import (
	"errors"
	"math"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// remote reads how to connect to a server that we do not start.
func (t *table) remote(u *Upstream) {
	t.url(u)
	u.Headers = t.headers(func(sub *table, name string, n *node) (string, bool) {
		return sub.expandFetched(u, Setting{Key: headersKey, Name: name}, name, name, n)
	})
	u.OAuth = t.oauth(u)
	if u.OAuth == nil {
		return
	}
	if u.plainURL(u.URL) != u.URL {
		t.problem("url", "cannot have a reference together with oauth (the file of tokens would have the secret in it)")
	}
	for name := range u.Headers {
		if strings.EqualFold(name, "Authorization") {
			t.problem("oauth", "cannot be combined with a header %s (leave one out: OAuth sets that header)", name)
		}
	}
}

// url reads the address. It can contain credentials, so no problem quotes it.
func (t *table) url(u *Upstream) {
	n := t.get("url", "a string", kindString)
	if n == nil {
		return
	}
	text, ok := t.expandFetched(u, Setting{Key: urlKey}, "url", "", n)
	if !ok {
		return
	}
	if err := checkURL(u.plainURL(text)); err != nil {
		t.problem("url", "%v", err)
		return
	}
	u.URL = text
}

// ownHeaders are the headers that the transport sets, in lower case: those of MCP
// 2025-11-25 (basic/transports) and 2026-07-28, and those of HTTP itself.
var ownHeaders = words(`accept content-type content-length content-encoding transfer-encoding connection upgrade host te trailer
	mcp-session-id mcp-protocol-version mcp-method mcp-name last-event-id`)

// headers reads the headers that are sent with every request. expand expands a value.
func (t *table) headers(expand func(sub *table, name string, n *node) (string, bool)) map[string]string {
	sub := t.sub("headers")
	if sub == nil {
		return nil
	}
	sub.inherit(t)
	headers := make(map[string]string, len(sub.node.keys))
	taken := map[string]string{} // the header with this name in lower case
	for _, name := range sub.node.keys {
		n, lower := sub.node.fields[name], strings.ToLower(name)
		switch other, twice := taken[lower]; {
		case !isToken(name):
			sub.problem("", "%s cannot be the name of a header (letters, digits and - are fine)", fileValue(strconv.Quote(name)))
			continue
		case ownHeaders[lower]:
			sub.problem(name, "is set by the transport itself (leave it out)")
			continue
		case twice:
			sub.problem(name, "is the same header as %s (leave one out)", other)
			continue
		}
		taken[lower] = name
		if !sub.check(name, n, "a string", kindString) {
			continue
		}
		value, ok := expand(sub, name, n)
		if !ok {
			continue
		}
		if hasControl(value) {
			sub.problem(name, "%v", errHeaderControl)
			continue
		}
		headers[name] = value
	}
	return headers
}

var errHeaderControl = errors.New("contains a line break or another control character (perhaps at the end of a variable or secret)")

// hasControl reports whether a value has characters that no header can have.
func hasControl(value string) bool {
	return strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// isToken reports whether s can be the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// oauth reads how to get an access token for the server; nil if there is no such table.
func (t *table) oauth(u *Upstream) *OAuth {
	sub := t.sub("oauth")
	if sub == nil {
		return nil
	}
	sub.inherit(t)
	o := &OAuth{}
	idKey, secretKey := sub.key("client_id"), sub.key("client_secret")
	o.ClientID, _ = sub.str(idKey)
	if n := sub.get(secretKey, "a string", kindString); n != nil {
		o.ClientSecret, _ = sub.expandFetched(u, Setting{Key: clientSecretKey}, secretKey, "client_secret", n)
		if sub.node.fields[idKey] == nil {
			sub.problem(secretKey, "has no %s (a secret belongs to a client id)", idKey)
		}
		if sub.node.fields["issuer"] == nil {
			sub.problem(secretKey, "has no issuer (set issuer to the address of the authorization server: the secret is sent there and nowhere else)")
		}
	}
	o.Issuer = sub.issuer(u.URL)
	o.ClientMetadata = sub.clientMetadata(idKey)
	sub.boolean(sub.key("assume_pkce"), &o.AssumePKCE)
	o.Scopes = sub.strs("scopes", func(key string, n *node) (string, bool) {
		scope, ok := sub.expandPublic(key, n)
		if ok && (scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })) {
			sub.problem(key, "%s is not a scope (write each one as a string of its own)", quoteWritten(n))
			return "", false
		}
		return scope, ok
	})
	sub.count(sub.key("redirect_port"), &o.RedirectPort, 1, math.MaxUint16)
	sub.close(oauthAliases)
	return o
}

// issuer reads the address of the authorization server. It must be https, but may be http
// if it and the server are both on this machine (RFC 8414, 2).
func (t *table) issuer(server string) string {
	text, ok := t.str("issuer")
	if !ok {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#"):
		t.problem("issuer", "is not an address of an authorization server (write https://HOST or https://HOST/PATH)")
	case u.Scheme == "https", u.Scheme == "http" && isLocal(text) && isLocal(server):
		return text
	default:
		t.problem("issuer", "has to be an https address (http is for a server and an issuer that are both on this machine)")
	}
	return ""
}

// clientMetadata reads the address of the document about us. Its form is that of
// draft-ietf-oauth-client-id-metadata-document-00, 3, without what should be left out.
func (t *table) clientMetadata(idKey string) string {
	key := t.key("client_metadata")
	text, ok := t.str(key)
	if !ok {
		return ""
	}
	if t.node.fields[idKey] != nil {
		t.problem(key, "cannot be combined with %s (leave one out: that id would always be used)", idKey)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#") ||
		strings.Trim(u.Path, "/") == "" || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		t.problem(key, "is not an address of a document about a client (write https://HOST/PATH, where the output of the command auth NAME --client-metadata can be read)")
		return ""
	}
	return text
}

// isLocal reports whether an address is written as one of this machine.
func isLocal(address string) bool {
	u, err := url.Parse(address)
	return err == nil && isLoopback(net.JoinHostPort(u.Hostname(), "80"))
}

// oauthAliases are the names that MCP hosts use for these settings.
var oauthAliases = map[string]string{
	"callbackport": "redirect_port", "scope": "scopes", "port": "redirect_port",
	"authorizationserver": "issuer", "authserver": "issuer",
}
