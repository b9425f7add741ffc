package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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
	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spec is how to reach a server and how to get tokens for it.
type spec struct {
	httpclient.Config
	OAuth *Config
}

func (s spec) authorize(ctx context.Context, open func(Login) error) error {
	return Authorize(ctx, s.Config, *s.OAuth, open)
}

// dial returns a client that uses the tokens in the file.
func (s spec) dial(t *testing.T) *httpclient.Client {
	t.Helper()
	c, err := httpclient.New(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	tokens, err := New(c, *s.OAuth)
	if err != nil {
		t.Fatal(err)
	}
	c.SetAuthorizer(tokens)
	return c
}

// newServer starts a server that answers every authorized request with
// {"in":1}.
func newServer(t *testing.T) *oauthtest.Server {
	return oauthtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"in":1}`) }))
}

func specOf(a *oauthtest.Server, file string) spec {
	return spec{httpclient.Config{Name: "web", URL: a.URL + "/mcp"}, &Config{TokenFile: file}}
}

// call sends a request and returns the body of its answer.
func call(ctx context.Context, c *httpclient.Client) (string, error) {
	resp, err := c.Do(ctx, http.MethodPost, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), "", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// outcomeOf formats an outcome for comparison.
func outcomeOf(answer string, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	return answer
}

// browse returns a function that acts as a browser whose user consents.
func browse(t *testing.T) func(Login) error {
	return func(login Login) error { return oauthtest.Consent(t, login.URL) }
}

// authorized starts a server, and returns a spec with valid tokens for it.
func authorized(t *testing.T, set func(a *oauthtest.Server)) (*oauthtest.Server, spec) {
	t.Helper()
	a := newServer(t)
	if set != nil {
		set(a)
	}
	s := specOf(a, filepath.Join(t.TempDir(), "new", "tokens.json"))
	if err := s.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	return a, s
}

func TestAuthorize(t *testing.T) {
	a, spec := authorized(t, func(a *oauthtest.Server) { a.Scope = `, scope="files:read files:write"` })
	for name, want := range map[string]string{"scope": "files:read files:write", "resource": a.URL + "/mcp", "response_type": "code"} {
		if got := a.AuthRequest.Get(name); got != want {
			t.Errorf("asked for %s %q, want %q", name, got, want)
		}
	}
	if fi, err := os.Stat(spec.OAuth.TokenFile); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", fi.Mode(), err)
	}
	l := spec.dial(t)
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}

	other := spec // another name, the same file
	other.Name = "other"
	if err := other.authorize(t.Context(), browse(t)); err != nil {
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
	busy, err := newCallback(0)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.close()
	port, _ := url.Parse(busy.redirect())
	for _, tt := range []struct {
		name string
		set  func(a *oauthtest.Server, o *Config)
		want string
	}{
		{"denied", func(a *oauthtest.Server, _ *Config) {
			a.Callback = url.Values{"error": {"access_denied"}, "error_description": {"not today"}}
		}, "refused: OAuth error: access_denied - not today"},
		{"no code", func(a *oauthtest.Server, _ *Config) { a.Callback = url.Values{} }, "has no code"},
		{"an invalid code", func(a *oauthtest.Server, _ *Config) {
			a.Secrets = append(a.Secrets, "code-sesame")
			a.Callback = url.Values{"code": {"code-sesame"}}
		}, "invalid_grant - **** is not valid"},
		{"another issuer", func(a *oauthtest.Server, _ *Config) {
			a.Callback = url.Values{"code": {"x"}, "iss": {"https://attacker.test"}}
		}, `is from the issuer "https://attacker.test"`},
		{"no PKCE", func(a *oauthtest.Server, _ *Config) { a.Methods = `["plain"]` }, "does not support PKCE"},
		{"no port", func(_ *oauthtest.Server, o *Config) { o.RedirectPort = atoi(port.Port()) }, "choose another redirect_port"},
		{"no file", func(_ *oauthtest.Server, o *Config) { o.TokenFile = "" }, "no token file"},
		{"malformed file", func(_ *oauthtest.Server, o *Config) { _ = os.WriteFile(o.TokenFile, []byte("access-sesame"), 0o600) }, "is not valid (remove it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newServer(t)
			spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
			tt.set(a, spec.OAuth)
			err := spec.authorize(t.Context(), browse(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `upstream "web": not authorized: `) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			a.MustNotLeak(err.Error())
		})
	}
	a := newServer(t)
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := spec.authorize(ctx, func(Login) error { cancel(errors.New("enough")); return nil }); err == nil || !strings.Contains(err.Error(), "was not redirected back: enough") {
		t.Errorf("cancelled: %v", err)
	}
	if err := spec.authorize(t.Context(), func(Login) error { return errors.New("no browser") }); err == nil || !strings.Contains(err.Error(), "no browser") {
		t.Errorf("no browser: %v", err)
	}
}

func atoi(s string) (n int) {
	_ = json.Unmarshal([]byte(s), &n)
	return n
}

// TestCallback checks that only the first request with the right state counts.
func TestCallback(t *testing.T) {
	b, err := newCallback(0)
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
	a, spec := authorized(t, func(a *oauthtest.Server) { a.Lifetime = -1 }) // valid until it is refused
	l := spec.dial(t)
	second := spec.dial(t) // as in another process
	a.Revoke(false)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` {
				t.Errorf("got %s", got)
			}
		})
	}
	wg.Wait()
	if n := a.Refreshes(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	// The second client finds the new token in the file.
	if got := outcomeOf(call(t.Context(), second)); got != `{"in":1}` || a.Refreshes() != 1 {
		t.Errorf("got %s after %d renewals", got, a.Refreshes())
	}

	a.Revoke(true)
	_, err := call(t.Context(), l)
	var auth *httpclient.AuthError
	if !errors.As(err, &auth) || !auth.OAuth || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
		t.Fatalf("got %v", err)
	}
	a.MustNotLeak(err.Error())

	if err := spec.authorize(t.Context(), browse(t)); err != nil { // what the error asks for
		t.Fatal(err)
	}
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` {
		t.Errorf("authorized again: %s", got)
	}
}

// TestTokenIsRenewedBeforeItExpires checks that a token is renewed before the server
// refuses it.
func TestTokenIsRenewedBeforeItExpires(t *testing.T) {
	a, spec := authorized(t, nil)
	l := spec.dial(t)
	file := tokenFile{spec.OAuth.TokenFile}
	unlock, err := file.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The server still accepts the token, but according to the file it expires in one
	// second.
	entry, err := file.entry("web " + spec.URL)
	if err != nil {
		t.Fatal(err)
	}
	entry.Token.ExpiresAt = time.Now().Add(time.Second)
	if err := file.put("web "+spec.URL, entry); err != nil {
		t.Fatal(err)
	}
	unlock()
	fresh := spec.dial(t)
	if got := outcomeOf(call(t.Context(), fresh)); got != `{"in":1}` || a.Refreshes() != 1 {
		t.Errorf("got %s after %d renewals", got, a.Refreshes())
	}
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` || a.Refreshes() != 1 {
		t.Errorf("old token: got %s after %d renewals", got, a.Refreshes())
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
			if err := f.put(string(rune('a'+i)), credentials{Token: &transport.Token{AccessToken: "t"}}); err != nil {
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
