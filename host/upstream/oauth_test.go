package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// authorized is a server, and a token file that is good there.
func authorized(t *testing.T, set func(a *authServer)) (*authServer, Spec) {
	t.Helper()
	a := newAuthServer(t)
	if set != nil {
		set(a)
	}
	spec := a.spec(filepath.Join(t.TempDir(), "new", "tokens.json"))
	if err := Authorize(t.Context(), spec, browse(t)); err != nil {
		t.Fatal(err)
	}
	return a, spec
}

func TestAuthorize(t *testing.T) {
	a, spec := authorized(t, func(a *authServer) { a.scope = `, scope="files:read files:write"` })
	for name, want := range map[string]string{"scope": "files:read files:write", "resource": a.URL + "/mcp", "response_type": "code"} {
		if got := a.asked.Get(name); got != want {
			t.Errorf("asked for %s %q, want %q", name, got, want)
		}
	}
	if fi, err := os.Stat(spec.OAuth.TokenFile); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", fi.Mode(), err)
	}
	c := newCallbacks()
	l := dialWeb(t, spec, c)
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
	a.mustHide(c.logged())

	other := spec // another name, the same file
	other.Name = "other"
	if err := Authorize(t.Context(), other, browse(t)); err != nil {
		t.Fatal(err)
	}
	all, err := tokenFile{spec.OAuth.TokenFile}.read()
	if err != nil || len(all.Upstreams) != 2 || all.Upstreams["web "+spec.URL].Token == nil {
		t.Errorf("the file has %d upstreams, %v", len(all.Upstreams), err)
	}
	files, _ := os.ReadDir(filepath.Dir(spec.OAuth.TokenFile))
	if len(files) != 2 { // the file and its lock
		t.Errorf("left behind: %v", files)
	}
}

func TestAuthorizeFails(t *testing.T) {
	busy, err := newBrowserWait(0)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.close()
	port, _ := url.Parse(busy.redirect())
	for _, tt := range []struct {
		name string
		set  func(a *authServer, o *OAuth)
		want string
	}{
		{"denied", func(a *authServer, _ *OAuth) {
			a.back = url.Values{"error": {"access_denied"}, "error_description": {"not today"}}
		}, "refused: OAuth error: access_denied - not today"},
		{"no code", func(a *authServer, _ *OAuth) { a.back = url.Values{} }, "without a code"},
		{"a code of its own", func(a *authServer, _ *OAuth) {
			a.secrets = append(a.secrets, "code-sesame")
			a.back = url.Values{"code": {"code-sesame"}}
		}, "invalid_grant - **** is not valid"},
		{"another issuer", func(a *authServer, _ *OAuth) {
			a.back = url.Values{"code": {"x"}, "iss": {"https://evil.test"}}
		}, `came back from "https://evil.test"`},
		{"no PKCE", func(a *authServer, _ *OAuth) { a.methods = `["plain"]` }, "no PKCE"},
		{"no port", func(_ *authServer, o *OAuth) { o.RedirectPort = atoi(port.Port()) }, "choose another redirect_port"},
		{"no file", func(_ *authServer, o *OAuth) { o.TokenFile = "" }, "no token file"},
		{"file that is none", func(_ *authServer, o *OAuth) { _ = os.WriteFile(o.TokenFile, []byte("access-sesame"), 0o600) }, "is not valid (remove it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAuthServer(t)
			spec := a.spec(filepath.Join(t.TempDir(), "tokens.json"))
			tt.set(a, spec.OAuth)
			err := Authorize(t.Context(), spec, browse(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `upstream "web": not authorized: `) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			a.mustHide(err.Error())
		})
	}
	a := newAuthServer(t)
	spec := a.spec(filepath.Join(t.TempDir(), "tokens.json"))
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := Authorize(ctx, spec, func(Login) error { cancel(errors.New("enough")); return nil }); err == nil || !strings.Contains(err.Error(), "did not come back: enough") {
		t.Errorf("cancelled: %v", err)
	}
	if err := Authorize(t.Context(), spec, func(Login) error { return errors.New("no browser") }); err == nil || !strings.Contains(err.Error(), "no browser") {
		t.Errorf("no browser: %v", err)
	}
}

func atoi(s string) (n int) {
	_ = json.Unmarshal([]byte(s), &n)
	return n
}

// TestBrowserWait: only the first request with the right state counts.
func TestBrowserWait(t *testing.T) {
	b, err := newBrowserWait(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) int {
		resp, err := client.Get(strings.TrimSuffix(b.redirect(), "/callback") + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := get("/callback?state="); got != http.StatusBadRequest {
		t.Errorf("before a state is expected: %d", got)
	}
	b.expect("right")
	for path, want := range map[string]int{"/callback?state=wrong&code=x": 400, "/?state=right": 404, "/callback": 400} {
		if got := get(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := get("/callback?state=right&code=c"); got != http.StatusOK {
		t.Errorf("right state: %d", got)
	}
	if got := get("/callback?state=right&code=d"); got != http.StatusBadRequest {
		t.Errorf("right state again: %d", got)
	}
	if back, err := b.wait(t.Context()); err != nil || back.Get("code") != "c" {
		t.Errorf("got %v, %v", back, err)
	}
}

func TestTokenRenewal(t *testing.T) {
	a, spec := authorized(t, func(a *authServer) { a.lifetime = -1 }) // good until it is refused
	c := newCallbacks()
	l := dialWeb(t, spec, c)
	second := dialWeb(t, spec, newCallbacks()) // of another process, say
	a.revoke(false)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
				t.Errorf("got %s", got)
			}
		})
	}
	wg.Wait()
	if n := a.counted(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	// The other one finds the new token in the file.
	if got := outcomeOf(second.Call(t.Context(), callOf("a"))); got != `{"in":1}` || a.counted() != 1 {
		t.Errorf("got %s after %d renewals", got, a.counted())
	}

	a.revoke(true)
	_, err := l.Call(t.Context(), callOf("a"))
	var auth *AuthError
	if !errors.As(err, &auth) || !auth.OAuth || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
		t.Fatalf("got %v", err)
	}
	a.mustHide(err.Error() + c.logged())

	if err := Authorize(t.Context(), spec, browse(t)); err != nil { // as the error says
		t.Fatal(err)
	}
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` {
		t.Errorf("authorized again: %s", got)
	}
}

// TestTokenEnds: a token is renewed before the server refuses it.
func TestTokenEnds(t *testing.T) {
	a, spec := authorized(t, nil)
	l := dialWeb(t, spec, newCallbacks())
	file := tokenFile{spec.OAuth.TokenFile}
	unlock, err := file.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The token is as good as ever for the server, but has one second to live.
	entry, err := file.entry("web " + spec.URL)
	if err != nil {
		t.Fatal(err)
	}
	entry.Token.ExpiresAt = time.Now().Add(time.Second)
	if err := file.put("web "+spec.URL, entry); err != nil {
		t.Fatal(err)
	}
	unlock()
	fresh := dialWeb(t, spec, newCallbacks())
	if got := outcomeOf(fresh.Call(t.Context(), callOf("a"))); got != `{"in":1}` || a.counted() != 1 {
		t.Errorf("got %s after %d renewals", got, a.counted())
	}
	if got := outcomeOf(l.Call(t.Context(), callOf("a"))); got != `{"in":1}` || a.counted() != 1 {
		t.Errorf("old token: got %s after %d renewals", got, a.counted())
	}
}

func TestNarrowToken(t *testing.T) {
	a, spec := authorized(t, nil)
	a.handle = func(w http.ResponseWriter, _ *http.Request, _ webMessage) {
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
	a := newAuthServer(t)
	l, err := dial(t.Context(), a.spec(filepath.Join(t.TempDir(), "tokens.json")), newCallbacks().options())
	if err != nil {
		t.Fatal(err)
	}
	defer l.shutDown(time.Minute, nil)
	_, err = initialize(t.Context(), l, ClientParams{}.raw())
	if want := "upstream \"web\": not authorized: there is no token yet (run `mcp-metatool auth web`)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f := tokenFile{path}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			unlock, err := f.lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if err := f.put(string(rune('a'+i)), tokenEntry{Token: &transport.Token{AccessToken: "t"}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := f.read()
	if fi, _ := os.Stat(path); err != nil || len(all.Upstreams) != 10 || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("%d entries, mode %v, %v", len(all.Upstreams), fi.Mode(), err)
	}
	unlock, err := f.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.lock(ctx); err != context.Canceled {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	if err := os.Mkdir(path+".d", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (tokenFile{path + ".d"}).entry("x"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v", err)
	}
}

func TestChallengeParam(t *testing.T) {
	for _, tt := range []struct{ header, want string }{
		{`Bearer scope="a b", resource_metadata="https://x/y"`, "a b"},
		{`Bearer error="invalid_token",error_description="a, scope=\"z\" b" , Scope = "no", scope=one`, "one"},
		{`Basic realm="x=y", Bearer scope=one,realm="z"`, "one"},
		{`Bearer realm="x`, ""}, {`scope="open`, ""}, {`scope="a\`, ""}, {"Bearer", ""}, {"", ""}, {"scope=", ""},
	} {
		if got := challengeParam([]string{"Basic", tt.header}, "scope"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.header, got, tt.want)
		}
	}
}

func FuzzChallengeParam(f *testing.F) {
	f.Add(`Bearer scope="a b\"", x=y`)
	f.Fuzz(func(t *testing.T, header string) {
		if got := challengeParam([]string{header}, "scope"); len(got) > len(header) {
			t.Errorf("%q of %q", got, header)
		}
	})
}
