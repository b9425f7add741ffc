package servers

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

// authorized starts a server that requires tokens, and returns a Spec with valid tokens
// for it. web answers the authorized requests.
func authorized(t *testing.T) (a *oauthtest.Server, web *linktest.HTTPServer, spec Spec) {
	t.Helper()
	web = linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		linktest.Answer(w, m, `{"in":1}`)
	})
	web.Stateless = true
	a = oauthtest.New(t, web)
	spec = oauthSpec(t, a)
	if err := oauth.Authorize(t.Context(), spec.HTTP(), *spec.OAuth, func(l oauth.Login) error { return oauthtest.Consent(t, l.URL) }); err != nil {
		t.Fatal(err)
	}
	return a, web, spec
}

func oauthSpec(t *testing.T, a *oauthtest.Server) Spec {
	return Spec{
		Name: "web", URL: a.URL + "/mcp", Transport: TransportHTTP,
		OAuth: &oauth.Config{TokenFile: filepath.Join(t.TempDir(), "tokens.json")},
	}
}

// TestTokensAreNotLogged checks that callers do not notice the renewal of tokens, and
// that tokens are not in the log, or in the error when they cannot be renewed.
func TestTokensAreNotLogged(t *testing.T) {
	t.Parallel()
	a, _, spec := authorized(t)
	c := linktest.NewRecorder()
	l := dialWeb(t, spec, c)
	for range 2 {
		if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); got != `{"in":1}` {
			t.Errorf("got %s", got)
		}
		a.Revoke(false)
	}
	if n := a.Refreshes(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	a.Revoke(true)
	_, err := l.Call(t.Context(), linktest.ToolCall("a"))
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || !auth.OAuth || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
		t.Fatalf("got %v", err)
	}
	a.MustNotLeak(err.Error() + c.Logged())
}

// TestTokensStayWithTheirIssuer checks that tokens are not sent to another authorization
// server that the server names.
func TestTokensStayWithTheirIssuer(t *testing.T) {
	t.Parallel()
	attacker := oauthtest.NewAttacker(t)
	a, _, spec := authorized(t)
	l := dialWeb(t, spec, linktest.NewRecorder())
	before := a.Refreshes()
	a.SetIssuers(attacker.URL)
	a.Revoke(false)
	for range 3 { // each call tries again
		_, err := l.Call(t.Context(), linktest.ToolCall("a"))
		var auth *httpclient.AuthError
		var down *DownError
		if !errors.As(err, &auth) || !errors.As(err, &down) || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
			t.Fatalf("got %v", err)
		}
		for _, issuer := range []string{attacker.URL, a.Issuer.URL} {
			if !strings.Contains(down.Reason, issuer) { // the status shows Reason
				t.Errorf("%q does not name %s", down.Reason, issuer)
			}
		}
	}
	u := launch(t, spec)
	<-u.Started()
	if s := u.Status(); s.State != Failed || !strings.Contains(s.Err, attacker.URL) || !strings.Contains(s.Err, "mcp-metatool auth web") {
		t.Errorf("status %+v", s)
	}
	attacker.MustHaveNoRequests(t)
	if n := a.Refreshes(); n != before {
		t.Errorf("renewed %d times", n-before)
	}

	a.SetIssuers(attacker.URL, a.Issuer.URL) // the right one is among them
	got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a")))
	if strings.Contains(got, attacker.URL) { // a renewal was in progress, which began before that
		got = linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a")))
	}
	if got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	attacker.MustHaveNoRequests(t)
}

func TestInsufficientScope(t *testing.T) {
	t.Parallel()
	_, web, spec := authorized(t)
	web.Handle = func(w http.ResponseWriter, _ *http.Request, _ linktest.HTTPMessage) {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="files:write"`)
		w.WriteHeader(http.StatusForbidden)
	}
	l := dialWeb(t, spec, linktest.NewRecorder())
	_, err := l.Call(t.Context(), linktest.ToolCall("a"))
	if err == nil || !strings.Contains(err.Error(), `lacks the scope "files:write"`) {
		t.Errorf("got %v", err)
	}
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	a := oauthtest.New(t, http.NotFoundHandler())
	l, err := dialSpec(t.Context(), oauthSpec(t, a), linktest.NewRecorder())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Shutdown(time.Minute, nil)
	_, err = Initialize(t.Context(), l, ClientParams{}.Params())
	if want := "upstream \"web\": not authorized: no token is stored yet (run `mcp-metatool auth web`)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
