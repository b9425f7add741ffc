package config

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

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
	h.Tokens = t.tokens(true)
	h.AllowedOrigins = t.strs(t.key("allowed_origins"), t.origin)
	h.AllowedHosts = t.strs(t.key("allowed_hosts"), t.host)
	h.CertFile, h.KeyFile = t.certificate()
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
func (t *table) certificate() (certFile, keyFile string) {
	cert, key := t.key("tls_cert"), t.key("tls_key")
	certFile, _ = t.file(cert)
	keyFile, _ = t.file(key)
	for _, pair := range [][2]string{{cert, key}, {key, cert}} {
		if t.node.fields[pair[0]] != nil && t.node.fields[pair[1]] == nil {
			t.problem(pair[0], "is set without %s (TLS needs both)", pair[1])
		}
	}
	return certFile, keyFile
}
