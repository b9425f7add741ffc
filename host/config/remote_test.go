package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
)

// TestServersWithAddress checks how a server is connected to, and which parts of that are
// secret.
func TestServersWithAddress(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "config.toml"), `
[http]
listen = "8080"
tokens = ["literal-token-of-http", "${FRONT}"]
allowed_hosts = ["MCP.example.com"]
tls_cert = "c.pem"
tls_key = "sub/k.pem"

[upstream.a]
url = "https://h/x?token=in-the-address"
headers = { Authorization = "Bearer ${TOKEN_A}", X-Team = "${TEAM}", X-Plain = "plain-text", X-Api-Key = "literal-key" }
timeout = "2h"

[upstream.b]
url = "https://h/"
transport = "sse"
oauth = { client_id = "client-id", client_secret = "literal-secret", issuer = "https://as.h", scopes = ["a", "b"], redirect_port = 1 }
max_timeout = "90s"
`)
	c, err := Load(testOptions(file, t.TempDir(), map[string]string{
		"FRONT": "front-token-0123456789", "TOKEN_A": "tok-0123456789", "TEAM": "the red team",
	}))
	if err != nil {
		t.Fatal(err)
	}
	got := c.HTTP
	if !reflect.DeepEqual(got.Tokens, []bearer.Token{{Digest: bearer.DigestOf("literal-token-of-http")}, {Digest: bearer.DigestOf("front-token-0123456789")}}) ||
		!slices.Equal(got.AllowedHosts, []string{"mcp.example.com"}) ||
		got.CertFile != filepath.Join(dir, "c.pem") || got.KeyFile != filepath.Join(dir, "sub", "k.pem") ||
		got.Listen != "127.0.0.1:8080" || got.Path != "/mcp" || got.SessionTTL != 30*time.Minute ||
		got.MaxSessions != 1000 || got.ResumeWindow != 5*time.Second {
		t.Errorf("[http] %+v", got)
	}
	a, b := c.Upstreams[0], c.Upstreams[1]
	wantHeaders := map[string]string{
		"Authorization": "Bearer tok-0123456789", "X-Team": "the red team", "X-Plain": "plain-text", "X-Api-Key": "literal-key",
	}
	if a.Transport != StreamableHTTP || a.URL != "https://h/x?token=in-the-address" || !maps.Equal(a.Headers, wantHeaders) ||
		a.OAuth != nil || a.MaxTimeout != 2*time.Hour {
		t.Errorf("a: %+v", a)
	}
	if o := b.OAuth; b.Transport != LegacySSE || b.MaxTimeout != 90*time.Second || o == nil || o.ClientID != "client-id" ||
		o.ClientSecret != "literal-secret" || o.Issuer != "https://as.h" || !slices.Equal(o.Scopes, []string{"a", "b"}) || o.RedirectPort != 1 {
		t.Errorf("b: %+v, %+v", b, b.OAuth)
	}
	want := []string{"front-token-0123456789", "literal-token-of-http", "in-the-address", "literal-secret", "tok-0123456789",
		"the red team", "literal-key"}
	if !slices.Equal(c.Secrets, want) {
		t.Errorf("secrets %q\nwant    %q", c.Secrets, want)
	}
}

func TestParseListen(t *testing.T) {
	for in, want := range map[string]string{
		"8080": "127.0.0.1:8080", "0": "127.0.0.1:0", "127.0.0.1:8080": "127.0.0.1:8080", "localhost:1": "localhost:1",
		"[::1]:65535": "[::1]:65535", ":8080": ":8080", "0.0.0.0:80": "0.0.0.0:80", "[fe80::1%eth0]:80": "[fe80::1%eth0]:80",
		"": "", "localhost": "", "::1": "", "[::1]": "", "x:http": "", "x:65536": "", "x:-1": "", "x:08": "", "65536": "",
		"http://x:80": "", "x:80/mcp": "", "x y:80": "", "unix:/x": "",
	} {
		got, err := ParseListen(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseListen(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "[::1]:80": true, "localhost:80": true, "Localhost:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false, "127.0.0.1": false,
	} {
		if isLoopback(address) != want {
			t.Errorf("isLoopback(%q) = %t", address, !want)
		}
	}
}
