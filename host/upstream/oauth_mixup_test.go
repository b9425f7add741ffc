package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// thief is an authorization server that hands out whatever is asked for, and
// keeps what it is sent.
type thief struct {
	*httptest.Server
	issuer string // what its metadata says; "": its address

	mu   sync.Mutex
	seen []string // requests, with their bodies
}

func newThief(t *testing.T) *thief {
	s := &thief{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
	issuer := s.issuer
	s.mu.Unlock()
	if issuer == "" {
		issuer = s.URL
	}
	if r.Method == http.MethodPost {
		fmt.Fprint(w, `{"access_token":"stolen","token_type":"Bearer","refresh_token":"stolen"}`)
		return
	}
	fmt.Fprintf(w, `{"issuer":%[2]q,"authorization_endpoint":"%[1]s/authorize","token_endpoint":"%[1]s/token",
		"response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, s.URL, issuer)
}

// mustKnowNothing fails the test if anything was asked of the thief.
func (s *thief) mustKnowNothing(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.seen {
		t.Errorf("it was sent: %s", request)
	}
}

// TestTokensStayWithTheirIssuer: a server that names another authorization
// server than the one its tokens are from does not get them sent there.
func TestTokensStayWithTheirIssuer(t *testing.T) {
	evil := newThief(t)
	a, spec := authorized(t, nil)
	l := dialWeb(t, spec, newCallbacks())
	before := a.counted()
	a.name(evil.URL)
	a.revoke(false)
	for range 3 { // it is tried again and again
		_, err := l.Call(t.Context(), callOf("a"))
		var auth *AuthError
		var down *DownError
		if !errors.As(err, &auth) || !errors.As(err, &down) || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
			t.Fatalf("got %v", err)
		}
		for _, issuer := range []string{evil.URL, a.as.URL} {
			if !strings.Contains(down.Reason, issuer) { // which is what the status shows
				t.Errorf("%q does not name %s", down.Reason, issuer)
			}
		}
	}
	u := launch(t, spec)
	<-u.Started()
	if s := u.Status(); s.State != Failed || !strings.Contains(s.Err, evil.URL) || !strings.Contains(s.Err, "mcp-metatool auth web") {
		t.Errorf("status %+v", s)
	}
	evil.mustKnowNothing(t)
	if n := a.counted(); n != before {
		t.Errorf("renewed %d times", n-before)
	}

	a.name(evil.URL, a.as.URL) // the right one is among them
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	evil.mustKnowNothing(t)
}

// TestIssuerAndSecret: a configured secret goes to the configured issuer, and
// without one it goes nowhere.
func TestIssuerAndSecret(t *testing.T) {
	evil := newThief(t)
	a := newAuthServer(t)
	a.clients["me"] = ""
	a.secrets = append(a.secrets, "client-sesame")
	spec := a.spec(filepath.Join(t.TempDir(), "tokens.json"))
	spec.OAuth.ClientID, spec.OAuth.ClientSecret = "me", "client-sesame"
	if err := Authorize(t.Context(), spec, browse(t)); err == nil || !strings.Contains(err.Error(), "set issuer") {
		t.Fatalf("a secret without an issuer: %v", err)
	}

	spec.OAuth.Issuer = a.as.URL
	a.name(evil.URL)
	err := Authorize(t.Context(), spec, browse(t))
	if err == nil || !strings.Contains(err.Error(), evil.URL) || !strings.Contains(err.Error(), "the configured issuer is "+a.as.URL) {
		t.Fatalf("another one is named: %v", err)
	}

	a.name(a.as.URL + "/") // with a slash, as some write it
	if err := Authorize(t.Context(), spec, browse(t)); err != nil {
		t.Fatal(err)
	}
	l := dialWeb(t, spec, newCallbacks())
	a.revoke(false)
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	for _, form := range a.forms {
		if form.Get("client_secret") != "client-sesame" || form.Get("resource") != spec.URL {
			t.Errorf("sent %v", form)
		}
	}
	a.name(evil.URL)
	a.revoke(false)
	if _, err := l.Call(t.Context(), callOf("a")); err == nil || !strings.Contains(err.Error(), "its tokens are from "+a.as.URL) {
		t.Errorf("got %v", err)
	}

	// Another issuer is configured: not even the access token is of use.
	a.name(a.as.URL)
	spec.OAuth.Issuer = evil.URL
	moved := newDialed(t, spec)
	if _, err := initialize(t.Context(), moved, ClientParams{}.raw()); err == nil || !strings.Contains(err.Error(), "the configured issuer is "+evil.URL) {
		t.Errorf("got %v", err)
	}
	evil.mustKnowNothing(t)
}

func newDialed(t *testing.T, spec Spec) link {
	t.Helper()
	l, err := dial(t.Context(), spec, newCallbacks().options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.shutDown(time.Minute, nil) })
	return l
}

// TestTokensOfNoIssuer: files of earlier versions do not say where their tokens
// are from. The access token is for the upstream alone, the rest is not used.
func TestTokensOfNoIssuer(t *testing.T) {
	a, spec := authorized(t, nil)
	file, key := tokenFile{spec.OAuth.TokenFile}, "web "+spec.URL
	entry, err := file.entry(key)
	if err != nil || entry.Issuer != a.as.URL || entry.TokenEndpoint != a.as.URL+"/token" || entry.Resource != spec.URL {
		t.Fatalf("entry %+v, %v", entry, err)
	}
	old := tokenEntry{Client: entry.Client, Token: entry.Token}
	if err := file.put(key, old); err != nil {
		t.Fatal(err)
	}
	l := dialWeb(t, spec, newCallbacks())
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	before := len(a.forms)
	a.revoke(false)
	_, err = l.Call(t.Context(), callOf("a"))
	var auth *AuthError
	if !errors.As(err, &auth) || !strings.Contains(err.Error(), "not known which authorization server") || len(a.forms) != before {
		t.Errorf("got %v, %d forms", err, len(a.forms)-before)
	}
	if err := Authorize(t.Context(), spec, browse(t)); err != nil {
		t.Fatal(err)
	}
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
		t.Errorf("authorized again: %s", got)
	}

	spec.OAuth.Issuer = a.as.URL
	if err := file.put(key, old); err != nil {
		t.Fatal(err)
	}
	if _, err := initialize(t.Context(), newDialed(t, spec), ClientParams{}.raw()); !errors.As(err, &auth) || !strings.Contains(err.Error(), "an unknown authorization server") {
		t.Errorf("with a configured issuer: %v", err)
	}
}

// TestAnotherIssuerIsShown: whoever logs in again gets to see who asks.
func TestAnotherIssuerIsShown(t *testing.T) {
	a, spec := authorized(t, nil)
	second := newThief(t)
	a.name(second.URL)
	spec.OAuth.ClientID = "me"
	var shown Login
	enough := errors.New("enough")
	if err := Authorize(t.Context(), spec, func(l Login) error { shown = l; return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if shown.Issuer != second.URL || shown.Former != a.as.URL || !strings.HasPrefix(shown.URL, second.URL+"/authorize?") {
		t.Errorf("shown %+v", shown)
	}
}

// TestMetadataThatLies: what a server and an authorization server say of
// themselves has to be of them.
func TestMetadataThatLies(t *testing.T) {
	evil := newThief(t)
	for _, tt := range []struct {
		name string
		set  func(a *authServer)
		want string
	}{
		{"another resource", func(a *authServer) { a.resource = "https://victim.example/mcp" }, `is of "https://victim.example/mcp", and not of`},
		{"a resource beside it", func(a *authServer) { a.resource = a.URL + "/mcp2" }, "and not of"},
		{"the whole origin, by its own address", func(a *authServer) { a.resource = a.URL }, "and not of"},
		{"no resource", func(a *authServer) { a.resource = " " }, "and not of"},
		{"another issuer", func(a *authServer) { a.says = map[string]any{"issuer": evil.URL} }, "is of the issuer"},
		{"no issuer", func(a *authServer) { a.says = map[string]any{"issuer": ""} }, "is of the issuer"},
		{"a path of the issuer", func(a *authServer) { a.says = map[string]any{"issuer": a.as.URL + "/tenant"} }, "is of the issuer"},
		{"plain HTTP elsewhere", func(a *authServer) { a.says = map[string]any{"token_endpoint": "http://as.example/token"} }, "over https only"},
		{"no HTTP", func(a *authServer) { a.says = map[string]any{"authorization_endpoint": "javascript:alert(1)"} }, "bad authorization_endpoint"},
		{"a user", func(a *authServer) { a.says = map[string]any{"registration_endpoint": "https://x@as.example/"} }, "bad registration_endpoint"},
		{"no token endpoint", func(a *authServer) { a.says = map[string]any{"token_endpoint": ""} }, "bad token_endpoint"},
		{"always an issuer", func(a *authServer) {
			a.says = map[string]any{"authorization_response_iss_parameter_supported": true}
			a.back = url.Values{"code": {"x"}}
		}, "without the issuer"},
		{"two issuers", func(a *authServer) { a.back = url.Values{"code": {"x"}, "iss": {a.as.URL, evil.URL}} }, "came back from"},
		{"an issuer with a slash", func(a *authServer) { a.back = url.Values{"code": {"x"}, "iss": {a.as.URL + "/"}} }, "came back from"},
		{"another issuer refuses", func(a *authServer) {
			a.back = url.Values{"error": {"access_denied"}, "iss": {evil.URL}}
		}, "came back from"},
		{"endless", func(a *authServer) { a.says = map[string]any{"x": strings.Repeat("x", maxDocument)} }, errTooLong.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAuthServer(t)
			tt.set(a)
			err := Authorize(t.Context(), a.spec(filepath.Join(t.TempDir(), "tokens.json")), browse(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if len(a.forms) != 0 {
				t.Errorf("the token endpoint got %v", a.forms)
			}
			a.mustHide(err.Error())
		})
	}
	evil.mustKnowNothing(t)
}

// TestNoRedirectToOthers: neither metadata nor tokens are fetched from where an
// authorization server redirects to.
func TestNoRedirectToOthers(t *testing.T) {
	evil := newThief(t)
	a, spec := authorized(t, nil)
	l := dialWeb(t, spec, newCallbacks())
	inner := a.as.Config.Handler
	a.as.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		off := a.tokenIs == 0
		a.mu.Unlock()
		if off {
			inner.ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, evil.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	a.mu.Lock()
	a.tokenIs = http.StatusTemporaryRedirect
	a.mu.Unlock()
	a.revoke(false)
	_, err := l.Call(t.Context(), callOf("a"))
	var auth *AuthError
	if !errors.As(err, &auth) || !strings.Contains(err.Error(), "HTTP status 307") {
		t.Errorf("got %v", err)
	}
	if err := Authorize(t.Context(), spec, browse(t)); err == nil || !strings.Contains(err.Error(), "has no metadata") {
		t.Errorf("got %v", err)
	}
	evil.mustKnowNothing(t)
}

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
		case bindsResource(resource, base):
			got = "binds"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", resource, got, want)
		}
	}
}
