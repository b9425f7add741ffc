package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

// TestScopesOfLogin checks which scopes a first login asks for, and that a client is
// registered for the same ones.
func TestScopesOfLogin(t *testing.T) {
	for _, tt := range []struct {
		name       string
		challenge  string
		supported  []string // by the MCP server
		issuer     []string // by the authorization server
		configured []string
		want       string
		absent     bool // the parameter is not sent
	}{
		{name: "of the challenge", challenge: `, scope="a b"`, supported: []string{"c"}, want: "a b"},
		{name: "of the metadata", supported: []string{"c", "d"}, want: "c d"},
		{name: "of the metadata if the challenge names none", challenge: `, scope=""`, supported: []string{"c"}, want: "c"},
		{name: "none", absent: true},
		{name: "none, though the issuer has some", issuer: []string{"x", offlineAccess}, absent: true},
		{name: "each once", challenge: `, scope="a b a  b"`, want: "a b"},
		{name: "for refresh tokens", challenge: `, scope="a"`, issuer: []string{"a", offlineAccess}, want: "a " + offlineAccess},
		{name: "not for refresh tokens", challenge: `, scope="a"`, issuer: []string{"a"}, want: "a"},
		{name: "configured", challenge: `, scope="a"`, supported: []string{"c"}, issuer: []string{offlineAccess}, configured: []string{"x", "y"}, want: "x y"},
		{name: "configured none", challenge: `, scope="a"`, supported: []string{"c"}, configured: []string{}, absent: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, spec := newServer(t), spec{}
			a.Scope, a.Supported, a.Metadata = tt.challenge, tt.supported, map[string]any{"scopes_supported": tt.issuer}
			spec = specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
			spec.OAuth.Scopes = tt.configured
			var shown Login
			if err := spec.authorize(t.Context(), func(l Login) error { shown = l; return oauthtest.Consent(t, l.URL) }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(shown.Scopes, " "); got != tt.want {
				t.Errorf("the user is shown %q", got)
			}
			if got := a.AuthRequest.Get("scope"); got != tt.want || a.AuthRequest.Has("scope") == tt.absent {
				t.Errorf("asked for %q, sent: %t", got, a.AuthRequest.Has("scope"))
			}
			if got := a.Registered[0].Get("scope"); got != tt.want {
				t.Errorf("registered for %q", got)
			}
		})
	}
	a := newServer(t)
	a.Scope = `, scope="` + strings.Repeat("s ", maxScopes) + strings.Repeat("x", maxScopes) + `"`
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	if err := spec.authorize(t.Context(), browse(t)); err == nil || !strings.Contains(err.Error(), "scopes of more than") || a.AuthCount != 0 {
		t.Errorf("too many: %v", err)
	}
}

// mustLack calls the server and checks that the call fails because of scopes. final tells
// whether another login is advised.
func mustLack(t *testing.T, c *httpclient.Client, final bool, want string) {
	t.Helper()
	_, err := call(t.Context(), c)
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || auth.Final != final || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "run `mcp-metatool auth web`") == final {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestStepUp checks that a server that requires another scope gets a token with the former
// scopes and that one, once the user has logged in again, without a restart of ours.
func TestStepUp(t *testing.T) {
	a, spec := authorized(t, func(a *oauthtest.Server) { a.Scope = `, scope="basic"` })
	running, second := spec.dial(t), spec.dial(t)
	if got := outcomeOf(call(t.Context(), running)); got != `{"in":1}` {
		t.Fatal(got)
	}
	a.Set(func() { a.Require = []string{"write"} })
	mustLack(t, running, false, `lacks the scope "write", which the next login asks for`)
	a.Set(func() { a.Require = []string{"admin"} })
	mustLack(t, second, false, `lacks the scope "admin"`)
	mustLack(t, running, false, `lacks the scope "admin"`)
	if a.AuthCount != 1 || a.Refreshes() != 0 {
		t.Errorf("%d logins, %d renewals", a.AuthCount, a.Refreshes())
	}

	if err := spec.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	if got := a.AuthRequest.Get("scope"); got != "basic write admin" {
		t.Errorf("asked for %q", got)
	}
	a.Set(func() { a.Require = []string{"basic", "write", "admin"} })
	for _, c := range []*httpclient.Client{running, second} {
		if got := outcomeOf(call(t.Context(), c)); got != `{"in":1}` {
			t.Errorf("after the login: %s", got)
		}
	}
	// A renewal keeps the scopes for the next login.
	a.Revoke(false)
	if got := outcomeOf(call(t.Context(), running)); got != `{"in":1}` || a.Refreshes() != 1 {
		t.Errorf("renewed %d times: %s", a.Refreshes(), got)
	}
	a.Set(func() { a.Require, a.Scope = []string{"more"}, "" })
	mustLack(t, running, false, `"more"`)
	if err := spec.authorize(t.Context(), browse(t)); err != nil || a.AuthRequest.Get("scope") != "basic write admin more" {
		t.Errorf("asked for %q, %v", a.AuthRequest.Get("scope"), err)
	}
}

// TestStepUpEnds checks that a login that does not help is not asked for again, and that
// the retries of one request end.
func TestStepUpEnds(t *testing.T) {
	a, spec := authorized(t, func(a *oauthtest.Server) { a.Scope, a.Withheld = `, scope="basic"`, []string{"write"} })
	l := spec.dial(t)
	a.Set(func() { a.Require = []string{"write"} })
	mustLack(t, l, false, `lacks the scope "write"`)
	if err := spec.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustLack(t, l, true, `requires the scope "write", which the last login asked for`)
	}

	a.Set(func() { a.Require = []string{""} }) // does not say which
	mustLack(t, l, true, "does not say which")
	a.Set(func() { a.Require = []string{strings.Repeat("x", maxScopes)} })
	mustLack(t, l, true, "scopes of more than")
	spec.OAuth.Scopes = []string{"basic"}
	a.Set(func() { a.Require = []string{"more"} })
	mustLack(t, spec.dial(t), false, `lacks the scope "more", which can be added to the scopes of oauth`)
	file, key := tokenFile{spec.OAuth.TokenFile}, "web "+spec.URL
	entry, err := file.entry(key)
	if err != nil || len(entry.Wanted) != 0 {
		t.Errorf("stored %v, %v", entry.Wanted, err)
	}

	// The token of another issuer than the configured one is no help.
	spec.OAuth.Issuer = a.Issuer.URL
	configured := spec.dial(t)
	mustLack(t, configured, false, `lacks the scope "more"`)
	entry.Issuer, entry.Token = "https://attacker.test", &transport.Token{AccessToken: "other"}
	if err := file.put(key, entry); err != nil {
		t.Fatal(err)
	}
	mustLack(t, configured, false, `lacks the scope "more"`)
}

// TestStepUpRetriesAreBounded has a server that refuses each token, while another process
// gets new ones all the time.
func TestStepUpRetriesAreBounded(t *testing.T) {
	var spec spec
	asked := 0
	a := oauthtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		file := tokenFile{spec.OAuth.TokenFile}
		entry, err := file.entry("web " + spec.URL)
		if err != nil {
			t.Error(err)
		}
		entry.Token = &transport.Token{AccessToken: fmt.Sprint("another-", asked)}
		if err := file.put("web "+spec.URL, entry); err != nil {
			t.Error(err)
		}
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="more"`)
		w.WriteHeader(http.StatusForbidden)
	}))
	a.AnyToken = true
	spec = specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	if err := spec.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	mustLack(t, spec.dial(t), true, "refuses new tokens too")
	if asked != 3 {
		t.Errorf("sent %d times", asked)
	}
}

// TestScopesOfAnotherIssuer checks that the scopes of a login are not asked for at another
// authorization server.
func TestScopesOfAnotherIssuer(t *testing.T) {
	a, spec := authorized(t, func(a *oauthtest.Server) { a.Scope = `, scope="basic secret"` })
	second := newServer(t)
	a.SetIssuers(second.Issuer.URL)
	a.Set(func() { a.Scope, a.Trusted = `, scope="basic"`, second })
	if err := spec.authorize(t.Context(), browse(t)); err != nil || second.AuthRequest.Get("scope") != "basic" {
		t.Errorf("asked for %q, %v", second.AuthRequest.Get("scope"), err)
	}
}

// TestRefusedScopes checks that the error for scopes that the authorization server does
// not have says how to ask for others.
func TestRefusedScopes(t *testing.T) {
	a := newServer(t)
	a.Scope, a.Callback = `, scope="a b"`, url.Values{"error": {"invalid_scope"}}
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	if err := spec.authorize(t.Context(), browse(t)); err == nil || !strings.Contains(err.Error(), `"a b"; set scopes in oauth`) {
		t.Errorf("got %v", err)
	}
}

// TestStepUpAtOnce checks that the scopes of calls that fail at the same time are all
// asked for.
func TestStepUpAtOnce(t *testing.T) {
	a, spec := authorized(t, func(a *oauthtest.Server) { a.Scope = `, scope="basic"` })
	var wg sync.WaitGroup
	tokens := make([]*Tokens, 10)
	for i := range tokens {
		c, err := httpclient.New(spec.Config)
		if err != nil {
			t.Fatal(err)
		}
		if tokens[i], err = New(c, *spec.OAuth); err != nil {
			t.Fatal(err)
		}
		defer tokens[i].Close()
		wg.Go(func() {
			used, err := tokens[i].Header(t.Context())
			if err != nil {
				t.Error(err)
			}
			var auth *httpclient.AuthError
			if err := tokens[i].StepUp(t.Context(), used, []string{fmt.Sprint("s", i)}); !errors.As(err, &auth) || auth.Final {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if err := spec.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(a.AuthRequest.Get("scope")); len(got) != 11 || got[0] != "basic" {
		t.Errorf("asked for %q", got)
	}
}

// TestChallengeOfEitherEra checks that the scopes of a challenge are found whichever
// requests a server refuses because they have no token, and that the probes say the same
// in headers and body.
func TestChallengeOfEitherEra(t *testing.T) {
	for name, open := range map[string]func(method, revision string) int{ // the status without a token; 0: 401
		"all are refused": func(string, string) int { return 0 },
		"only well-formed ones of the stateless era": func(_, revision string) int {
			if revision == "" {
				return http.StatusBadRequest
			}
			return 0
		},
		"only those of the handshake era": func(_, revision string) int {
			if revision != "" {
				return http.StatusBadRequest
			}
			return 0
		},
		"not a ping": func(method, _ string) int {
			if method == "ping" {
				return http.StatusOK
			}
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newServer(t)
			a.Scope = `, scope="a b"`
			inner := a.Config.Handler
			a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && r.Header.Get("Authorization") == "" {
					method, revision := probed(t, r)
					if status := open(method, revision); status != 0 {
						w.WriteHeader(status)
						return
					}
				}
				inner.ServeHTTP(w, r)
			})
			spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
			if err := spec.authorize(t.Context(), browse(t)); err != nil || a.AuthRequest.Get("scope") != "a b" {
				t.Errorf("asked for %q, %v", a.AuthRequest.Get("scope"), err)
			}
		})
	}
}

// probed returns the method of a request, and its revision if it is of the stateless era.
// Then it checks headers and envelope.
func probed(t *testing.T, r *http.Request) (method, revision string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	var m struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Error(err)
	}
	if !envelope.IsPresent(m.Params) {
		return m.Method, ""
	}
	if bad := envelope.CheckHeaders(r.Header, m.Method, m.Params); bad != nil {
		t.Errorf("headers: %v", bad)
	}
	e, bad := envelope.Parse(m.Params)
	if bad != nil {
		t.Errorf("envelope: %v", bad)
	}
	return m.Method, e.Revision.String()
}
