package upstream

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/oauth"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/oauth/oauthtest"
)

// authorized is a server that wants tokens, and a Spec with a token file that is
// good there. web is what answers authorized requests.
func authorized(t *testing.T) (a *oauthtest.Server, web *webServer, spec Spec) {
	t.Helper()
	web = newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) { answer(w, m, `{"in":1}`) })
	web.stateful = false
	a = oauthtest.New(t, web)
	spec = oauthSpec(t, a)
	if err := oauth.Authorize(t.Context(), spec.HTTP(), *spec.OAuth, func(l oauth.Login) error { return oauthtest.Agree(t, l.URL) }); err != nil {
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

// TestTokensAreNotLogged: tokens are renewed unnoticed, and are in no log and no
// error when that is not possible any more.
func TestTokensAreNotLogged(t *testing.T) {
	a, _, spec := authorized(t)
	c := newCallbacks()
	l := dialWeb(t, spec, c)
	for range 2 {
		if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
			t.Errorf("got %s", got)
		}
		a.Revoke(false)
	}
	if n := a.Refreshes(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	a.Revoke(true)
	_, err := l.Call(t.Context(), callOf("a"))
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || !auth.OAuth || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
		t.Fatalf("got %v", err)
	}
	a.MustHide(err.Error() + c.logged())
}

// TestTokensStayWithTheirIssuer: a server that names another authorization
// server than the one its tokens are from does not get them sent there.
func TestTokensStayWithTheirIssuer(t *testing.T) {
	evil := oauthtest.NewThief(t)
	a, _, spec := authorized(t)
	l := dialWeb(t, spec, newCallbacks())
	before := a.Refreshes()
	a.Name(evil.URL)
	a.Revoke(false)
	for range 3 { // it is tried again and again
		_, err := l.Call(t.Context(), callOf("a"))
		var auth *httpclient.AuthError
		var down *DownError
		if !errors.As(err, &auth) || !errors.As(err, &down) || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
			t.Fatalf("got %v", err)
		}
		for _, issuer := range []string{evil.URL, a.Issuer.URL} {
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
	evil.MustKnowNothing(t)
	if n := a.Refreshes(); n != before {
		t.Errorf("renewed %d times", n-before)
	}

	a.Name(evil.URL, a.Issuer.URL) // the right one is among them
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	evil.MustKnowNothing(t)
}

func TestNarrowToken(t *testing.T) {
	_, web, spec := authorized(t)
	web.handle = func(w http.ResponseWriter, _ *http.Request, _ webMessage) {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="files:write"`)
		w.WriteHeader(http.StatusForbidden)
	}
	l := dialWeb(t, spec, newCallbacks())
	_, err := l.Call(t.Context(), callOf("a"))
	if err == nil || !strings.Contains(err.Error(), `lacks the scope "files:write"`) {
		t.Errorf("got %v", err)
	}
}

func TestNoToken(t *testing.T) {
	a := oauthtest.New(t, http.NotFoundHandler())
	l, err := dialSpec(t.Context(), oauthSpec(t, a), newCallbacks())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Shutdown(time.Minute, nil)
	_, err = Initialize(t.Context(), l, ClientParams{}.Params())
	if want := "upstream \"web\": not authorized: there is no token yet (run `mcp-metatool auth web`)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
