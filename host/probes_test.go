package host

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// TestProbes checks that /healthz and /readyz answer everybody, under every name, and what they
// say to the byte: nothing about servers, clients or tools. Everything else needs a token and a
// known name.
func TestProbes(t *testing.T) {
	t.Parallel()
	late, off := upstreamOf("late-server", "late"), upstreamOf("secret-server", "raw")
	g := newGate(t)
	late.Args, off.Disabled = []string{g.Addr().String()}, true
	cfg := testConfig(t, late, off)
	cfg.StartupWait = time.Millisecond
	cfg.HTTP = config.HTTP{Path: config.DefaultPath, Tokens: bearerTokens("a-token")}
	cfg.HTTP.Tokens[0].Name = "secret-client"
	h, _ := startHost(t, cfg)
	address := serveHTTP(t, h)
	ask := func(method, path, host, token string) (status int, body string, header http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = host; token != "" {
			r.Header.Set("Authorization", token)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(raw), res.Header
	}
	<-h.sandbox.Ready()
	probes := func(ready int, says string) {
		t.Helper()
		for _, host := range []string{"", "evil.example", "169.254.169.254", "localhost:1"} {
			for _, token := range []string{"", "Bearer a-token", "Bearer another", "nonsense"} {
				for path, want := range map[string]struct {
					status int
					body   string
				}{livePath: {http.StatusOK, "ok\n"}, readyPath: {ready, says}} {
					status, body, header := ask(http.MethodGet, path, host, token)
					if status != want.status || body != want.body {
						t.Errorf("%s of %q with %q: %d %q", path, host, token, status, body)
					}
					for name, values := range header {
						if all := strings.Join(values, " "); strings.Contains(all, "server") || strings.Contains(all, "client") || strings.HasPrefix(name, "Access-Control") {
							t.Errorf("%s: %s: %s", path, name, all)
						}
					}
					if status, body, _ := ask(http.MethodHead, path, host, token); status != want.status || body != "" {
						t.Errorf("HEAD %s: %d %q", path, status, body)
					}
				}
			}
		}
	}
	probes(http.StatusServiceUnavailable, "not ready: 1 upstreams are starting\n")
	g.accept(t)
	g.conn.Close()
	h.Upstreams(t.Context()) // waits for its start
	probes(http.StatusOK, "ok\n")
	for _, other := range []struct{ method, path, host, token string }{
		{http.MethodPost, livePath, "", ""}, {http.MethodPost, readyPath, "evil.example", "Bearer a-token"}, {http.MethodGet, livePath + "/", "", ""},
		{http.MethodGet, config.DefaultPath, "", ""}, {http.MethodGet, config.DefaultPath, "evil.example", "Bearer a-token"}, {http.MethodGet, "/", "", ""},
	} {
		if status, body, _ := ask(other.method, other.path, other.host, other.token); status/100 != 4 || body == "ok\n" {
			t.Errorf("%+v: %d %q", other, status, body)
		}
	}
}
