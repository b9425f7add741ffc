package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

// TestSecretIsSentOnlyToItsIssuer checks that a configured secret is sent only to the
// configured issuer, and that a secret without an issuer is refused.
func TestSecretIsSentOnlyToItsIssuer(t *testing.T) {
	attacker := oauthtest.NewAttacker(t)
	a := newServer(t)
	a.Clients["me"] = ""
	a.Secrets = append(a.Secrets, "client-sesame")
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	spec.OAuth.ClientID, spec.OAuth.ClientSecret = "me", "client-sesame"
	if err := spec.authorize(t.Context(), browse(t)); err == nil || !strings.Contains(err.Error(), "set issuer") {
		t.Fatalf("a secret without an issuer: %v", err)
	}

	spec.OAuth.Issuer = a.Issuer.URL
	a.SetIssuers(attacker.URL)
	err := spec.authorize(t.Context(), browse(t))
	if err == nil || !strings.Contains(err.Error(), attacker.URL) || !strings.Contains(err.Error(), "the configured issuer is "+a.Issuer.URL) {
		t.Fatalf("the server names another issuer: %v", err)
	}

	a.SetIssuers(a.Issuer.URL + "/") // some servers add a slash
	if err := spec.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	l := spec.dial(t)
	a.Revoke(false)
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	for _, form := range a.Forms {
		if form.Get("client_secret") != "client-sesame" || form.Get("resource") != spec.URL {
			t.Errorf("sent %v", form)
		}
	}
	a.SetIssuers(attacker.URL)
	a.Revoke(false)
	if _, err := call(t.Context(), l); err == nil || !strings.Contains(err.Error(), "its tokens are from "+a.Issuer.URL) {
		t.Errorf("got %v", err)
	}

	// If another issuer is configured, not even the access token is used.
	a.SetIssuers(a.Issuer.URL)
	spec.OAuth.Issuer = attacker.URL
	if _, err := call(t.Context(), spec.dial(t)); err == nil || !strings.Contains(err.Error(), "the configured issuer is "+attacker.URL) {
		t.Errorf("got %v", err)
	}
	attacker.MustHaveNoRequests(t)
}

// TestTokensWithoutIssuer checks that of the tokens in files of earlier versions, which
// do not name the issuer, only the access token is used.
func TestTokensWithoutIssuer(t *testing.T) {
	a, spec := authorized(t, nil)
	file, key := tokenFile{spec.OAuth.TokenFile}, "web "+spec.URL
	entry, err := file.entry(key)
	if err != nil || entry.Issuer != a.Issuer.URL || entry.TokenEndpoint != a.Issuer.URL+"/token" || entry.Resource != spec.URL {
		t.Fatalf("entry %+v, %v", entry, err)
	}
	old := credentials{Client: entry.Client, Token: entry.Token}
	if err := file.put(key, old); err != nil {
		t.Fatal(err)
	}
	l := spec.dial(t)
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	before := len(a.Forms)
	a.Revoke(false)
	_, err = call(t.Context(), l)
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || !strings.Contains(err.Error(), "authorization server that can renew it is unknown") || len(a.Forms) != before {
		t.Errorf("got %v, %d forms", err, len(a.Forms)-before)
	}
	if err := spec.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` {
		t.Errorf("authorized again: %s", got)
	}

	spec.OAuth.Issuer = a.Issuer.URL
	if err := file.put(key, old); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t.Context(), spec.dial(t)); !errors.As(err, &auth) || !strings.Contains(err.Error(), "an unknown authorization server") {
		t.Errorf("with a configured issuer: %v", err)
	}
}

// TestChangedIssuerIsShown checks that a user who logs in again is shown both the new
// issuer and the former one.
func TestChangedIssuerIsShown(t *testing.T) {
	a, spec := authorized(t, nil)
	second := oauthtest.NewAttacker(t)
	a.SetIssuers(second.URL)
	spec.OAuth.ClientID = "me"
	var shown Login
	enough := errors.New("enough")
	if err := spec.authorize(t.Context(), func(l Login) error { shown = l; return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if shown.Issuer != second.URL || shown.Former != a.Issuer.URL || !strings.HasPrefix(shown.URL, second.URL+"/authorize?") {
		t.Errorf("shown %+v", shown)
	}
}

// TestFalseMetadata checks that metadata of a server or an authorization server is
// refused if it describes another one, and that unusable endpoints are refused.
func TestFalseMetadata(t *testing.T) {
	attacker := oauthtest.NewAttacker(t)
	for _, tt := range []struct {
		name string
		set  func(a *oauthtest.Server)
		want string
	}{
		{"another resource", func(a *oauthtest.Server) { a.Resource = "https://victim.example/mcp" }, `describes "https://victim.example/mcp", not `},
		{"another resource of the server", func(a *oauthtest.Server) { a.Resource = a.URL + "/mcp2" }, `/mcp2", not `},
		{"a resource below that of the server", func(a *oauthtest.Server) { a.Resource = a.URL + "/mcp/x" }, `/mcp/x", not `},
		{"a beginning of the path of the server", func(a *oauthtest.Server) { a.Resource = a.URL + "/mc" }, `/mc", not `},
		{"no resource", func(a *oauthtest.Server) { a.Resource = " " }, `describes "", not `},
		{"another issuer", func(a *oauthtest.Server) { a.Metadata = map[string]any{"issuer": attacker.URL} }, "describes the issuer"},
		{"no issuer", func(a *oauthtest.Server) { a.Metadata = map[string]any{"issuer": ""} }, "describes the issuer"},
		{"a path of the issuer", func(a *oauthtest.Server) { a.Metadata = map[string]any{"issuer": a.Issuer.URL + "/tenant"} }, "describes the issuer"},
		{"plain HTTP elsewhere", func(a *oauthtest.Server) { a.Metadata = map[string]any{"token_endpoint": "http://as.example/token"} }, "over https only"},
		{"another scheme", func(a *oauthtest.Server) {
			a.Metadata = map[string]any{"authorization_endpoint": "javascript:alert(1)"}
		}, "bad authorization_endpoint"},
		{"a user in the URL", func(a *oauthtest.Server) {
			a.Metadata = map[string]any{"registration_endpoint": "https://x@as.example/"}
		}, "bad registration_endpoint"},
		{"no token endpoint", func(a *oauthtest.Server) { a.Metadata = map[string]any{"token_endpoint": ""} }, "bad token_endpoint"},
		{"a redirect without the promised issuer", func(a *oauthtest.Server) {
			a.Metadata = map[string]any{"authorization_response_iss_parameter_supported": true}
			a.Callback = url.Values{"code": {"x"}}
		}, "lacks the issuer"},
		{"two issuers", func(a *oauthtest.Server) { a.Callback = url.Values{"code": {"x"}, "iss": {a.Issuer.URL, attacker.URL}} }, "redirect of the browser is from"},
		{"an issuer with a slash", func(a *oauthtest.Server) { a.Callback = url.Values{"code": {"x"}, "iss": {a.Issuer.URL + "/"}} }, "redirect of the browser is from"},
		{"another issuer refuses", func(a *oauthtest.Server) {
			a.Callback = url.Values{"error": {"access_denied"}, "iss": {attacker.URL}}
		}, "redirect of the browser is from"},
		{"too long", func(a *oauthtest.Server) { a.Metadata = map[string]any{"x": strings.Repeat("x", maxDocument)} }, errTooLong.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newServer(t)
			tt.set(a)
			err := specOf(a, filepath.Join(t.TempDir(), "tokens.json")).authorize(t.Context(), browse(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if len(a.Forms) != 0 {
				t.Errorf("the token endpoint got %v", a.Forms)
			}
			a.MustNotLeak(err.Error())
		})
	}
	attacker.MustHaveNoRequests(t)
}

// TestRedirectsOfIssuersAreNotFollowed checks that neither metadata nor tokens are
// fetched from another origin that an authorization server redirects to.
func TestRedirectsOfIssuersAreNotFollowed(t *testing.T) {
	attacker := oauthtest.NewAttacker(t)
	a, spec := authorized(t, nil)
	l := spec.dial(t)
	inner := a.Issuer.Config.Handler
	a.Issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Lock()
		off := a.TokenStatus == 0
		a.Unlock()
		if off {
			inner.ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, attacker.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	a.Lock()
	a.TokenStatus = http.StatusTemporaryRedirect
	a.Unlock()
	a.Revoke(false)
	_, err := call(t.Context(), l)
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || !strings.Contains(err.Error(), "HTTP status 307") {
		t.Errorf("got %v", err)
	}
	if err := spec.authorize(t.Context(), browse(t)); err == nil || !strings.Contains(err.Error(), "has no metadata") {
		t.Errorf("got %v", err)
	}
	attacker.MustHaveNoRequests(t)
}

// TestOriginAsResource checks that metadata which a challenge names can describe the whole origin, like
// metadata that is found without a challenge: many servers protect all that they have.
func TestOriginAsResource(t *testing.T) {
	for _, path := range []string{"", "/"} {
		a := newServer(t)
		a.Resource = a.URL + path
		if err := specOf(a, filepath.Join(t.TempDir(), "tokens.json")).authorize(t.Context(), browse(t)); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// TestResources checks sameResource and coversResource.
func TestResources(t *testing.T) {
	base, _ := url.Parse("https://H.example:443/a/mcp")
	for resource, want := range map[string]string{
		"https://h.example/a/mcp": "same", "https://h.example/a/mcp/": "same", "HTTPS://h.example/a/mcp": "same",
		"https://h.example": "binds", "https://h.example/": "binds", "https://h.example/a": "binds", "https://h.example/a/": "binds",
		"": "", "https://h.example/a/m": "", "https://h.example/a/mcp/x": "", "https://h.example/b": "", "https://h.example/a%2Fmcp": "",
		"http://h.example/a/mcp": "", "https://h.example:444/a/mcp": "", "https://other.example/a/mcp": "", "https://u@h.example/a/mcp": "",
		"https://h.example/a/mcp?x": "", "https://h.example/a/mcp#x": "", "/a/mcp": "", ":": "",
	} {
		got := ""
		switch {
		case sameResource(resource, base):
			got = "same"
		case coversResource(resource, base):
			got = "binds"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", resource, got, want)
		}
	}
}
