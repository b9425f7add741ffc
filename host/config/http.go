package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// minToken is the length in bytes below which there is a warning that a bearer token can
// be guessed.
const minToken = 16

// decodeHTTP reads [http].
func decodeHTTP(t *table, c *Config) {
	if t == nil {
		return
	}
	h := &c.HTTP
	h.configured = true
	if listen, ok := t.str("listen"); ok {
		if address, err := ParseListen(listen); err != nil {
			t.problem("listen", "%s %v", quoteWritten(t.node.fields["listen"]), err)
		} else {
			h.Listen = address
		}
	}
	t.endpoint(h)
	t.boolean("ui", &h.UI)
	t.tokens(h)
	h.AllowedOrigins = t.strs(t.key("allowed_origins"), t.origin)
	h.AllowedHosts = t.strs(t.key("allowed_hosts"), t.host)
	t.certificate(h)
	t.limits("http", c.limits())
	t.close(httpAliases)
}

// httpAliases are the names that other programs use for these settings.
var httpAliases = map[string]string{
	"address": "listen", "addr": "listen", "bind": "listen", "port": "listen", "host": "listen",
	"endpoint": "path", "page": "ui", "dashboard": "ui", "token": "tokens", "bearertokens": "tokens", "apikeys": "tokens",
	"cert": "tls_cert", "certfile": "tls_cert", "tlscertfile": "tls_cert",
	"key": "tls_key", "keyfile": "tls_key", "tlskeyfile": "tls_key",
	"origins": "allowed_origins", "hosts": "allowed_hosts", "sessiontimeout": "session_ttl",
}

var errListen = errors.New(`is not an address to listen on (write "127.0.0.1:8080", "[::1]:8080", or a port: "8080")`)

// ParseListen reads an address to listen on: HOST:PORT, or a port alone, which means that
// port of 127.0.0.1. An empty HOST stands for every address of the machine. The error's
// text is meant to follow the quoted input.
func ParseListen(s string) (string, error) {
	if isPort(s) {
		s = net.JoinHostPort("127.0.0.1", s)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !isPort(port) || strings.ContainsAny(host, " /\t\n") {
		return "", errListen
	}
	return net.JoinHostPort(host, port), nil
}

// isPort reports whether s is a port. 0, which stands for any free port, is one.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// endpoint reads the path under which MCP is served.
func (t *table) endpoint(h *HTTP) {
	path, ok := t.str("path")
	if !ok {
		return
	}
	address, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || address.Path != path || strings.ContainsAny(path, "{}") {
		t.problem("path", "%s is not a path (write \"/mcp\")", quoteWritten(t.node.fields["path"]))
		return
	}
	h.Path = path
}

// tokens reads the bearer tokens: strings, or tables of a token and what its clients
// may do.
func (t *table) tokens(h *HTTP) {
	n := t.get("tokens", "an array of strings or "+t.tableType()+"s", kindArray)
	if n == nil {
		return
	}
	h.Tokens = make([]string, 0, len(n.items))
	saves := map[string]bool{}
	for i, item := range n.items {
		key, save := fmt.Sprintf("tokens[%d]", i), true
		if item.kind == kindTable {
			if item = t.tokenTable(key, item, &save); item == nil {
				continue
			}
		}
		if !t.check(key, item, "a string", kindString) {
			continue
		}
		token, ok := t.token(key, item)
		if !ok {
			continue
		}
		if before, twice := saves[token]; twice && before != save {
			t.problem(key, "is a token that is listed twice, with save = false and without")
		}
		saves[token] = save
		h.Tokens = append(h.Tokens, token)
		if !save {
			h.NoSave = append(h.NoSave, token)
		}
	}
}

// tokenTable reads one token that is written as a table, and returns the node of the
// token itself.
func (t *table) tokenTable(key string, n *node, save *bool) *node {
	item := &table{r: t.r, node: n, prefix: t.prefix + key + "."}
	token := item.get("token", "a string", kindString)
	if token == nil && n.fields["token"] == nil {
		item.problem("token", "is missing")
	}
	item.boolean("save", save)
	item.close(nil)
	return token
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

// origin reads an origin as browsers send it (RFC 6454, 6.2).
func (t *table) origin(key string, n *node) (string, bool) {
	origin, ok := t.expandPublic(key, n)
	if !ok {
		return "", false
	}
	address, err := url.Parse(origin)
	if err != nil || address.Scheme == "" || address.Host == "" || address.Scheme+"://"+address.Host != origin {
		t.problem(key, "%s is not an origin (write https://HOST or http://HOST:PORT, without a path)", quoteWritten(n))
		return "", false
	}
	return strings.ToLower(origin), true
}

// host reads a host name under which clients reach us, with or without a port.
func (t *table) host(key string, n *node) (string, bool) {
	host, ok := t.expandPublic(key, n)
	if !ok {
		return "", false
	}
	address, err := url.Parse("http://" + host)
	if err != nil || address.Hostname() == "" || address.Host != host {
		t.problem(key, "%s is not a host (write \"mcp.example.com\" or \"mcp.example.com:8443\")", quoteWritten(n))
		return "", false
	}
	return strings.ToLower(host), true
}

// certificate reads the files of a certificate and its key: both or neither.
func (t *table) certificate(h *HTTP) {
	cert, key := t.key("tls_cert"), t.key("tls_key")
	h.CertFile, _ = t.file(cert)
	h.KeyFile, _ = t.file(key)
	for _, pair := range [][2]string{{cert, key}, {key, cert}} {
		if t.node.fields[pair[0]] != nil && t.node.fields[pair[1]] == nil {
			t.problem(pair[0], "is set without %s (TLS needs both)", pair[1])
		}
	}
}
