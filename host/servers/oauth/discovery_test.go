package oauth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// TestDiscovery checks which authorization server is found, depending on the documents
// at the well-known addresses of a server. $URL is its origin.
func TestDiscovery(t *testing.T) {
	const (
		own   = `{"issuer":"$URL","authorization_endpoint":"$URL/own","token_endpoint":"$URL/t","code_challenge_methods_supported":["S256"]}`
		other = `{"issuer":"$URL/tenant","authorization_endpoint":"$URL/other","token_endpoint":"$URL/t","code_challenge_methods_supported":["plain","S256"]}`
		quiet = `{"issuer":"$URL","authorization_endpoint":"$URL/quiet","token_endpoint":"$URL/t"}` // about PKCE
		oauth = "/.well-known/oauth-authorization-server"
		about = "/.well-known/oauth-protected-resource"
	)
	for _, tt := range []struct {
		name  string
		pages map[string]string
		want  string // a prefix of the login URL, or a part of the error
	}{
		{"nothing", nil, "$URL/authorize?"},
		{"the origin", map[string]string{oauth: own}, "$URL/own?"},
		{"the origin, for the path", map[string]string{oauth + "/mcp": own}, "$URL/own?"},
		{"another issuer at the origin", map[string]string{oauth: other}, "set issuer to it"},
		{"OpenID", map[string]string{"/.well-known/openid-configuration": own}, "$URL/own?"},
		{"resource without servers", map[string]string{about + "/mcp": `{"resource":"$URL/mcp"}`, oauth: own}, "$URL/own?"},
		{"resource of the origin", map[string]string{about: `{"resource":"$URL","authorization_servers":["$URL/tenant"]}`, oauth + "/tenant": other}, "$URL/other?"},
		{"resource of the path first", map[string]string{
			about + "/mcp": `{"resource":"$URL/mcp","authorization_servers":["$URL/tenant","$URL"]}`, about: `{"resource":"$URL","authorization_servers":["$URL"]}`,
			oauth: own, oauth + "/tenant": other}, "$URL/other?"},
		{"OpenID with a path", map[string]string{about: `{"resource":"$URL","authorization_servers":["$URL/tenant"]}`,
			"/tenant/.well-known/openid-configuration": other}, "$URL/other?"},
		{"resource without a name", map[string]string{about: `{"authorization_servers":["$URL"]}`, oauth: own}, `describes "", not `},
		{"resource of another server", map[string]string{about: `{"resource":"https://victim.example","authorization_servers":["$URL"]}`, oauth: own}, `describes "https://victim.example", not `},
		{"no word on PKCE", map[string]string{about: `{"resource":"$URL","authorization_servers":["$URL"]}`, oauth: quiet}, "no code_challenge_methods_supported"},
		{"no word on PKCE in OpenID", map[string]string{about: `{"resource":"$URL","authorization_servers":["$URL"]}`, "/.well-known/openid-configuration": quiet}, "no code_challenge_methods_supported"},
		{"no word on PKCE, as in revision 2025-03-26", map[string]string{oauth: quiet}, "$URL/quiet?"},
		{"the origin in another case", map[string]string{about: `{"resource":"$URL","authorization_servers":["$URL/Tenant"]}`, oauth + "/Tenant": other}, "describes the issuer"},
		{"no metadata", map[string]string{about: `{"resource":"$URL","authorization_servers":["$URL/tenant"]}`, oauth: own}, "has no metadata"},
		{"no JSON", map[string]string{about: `<html>`}, "not metadata in JSON"},
		{"a query in the endpoint", map[string]string{oauth: strings.Replace(own, "/own", "/own?x=1", 1)}, "$URL/own?client_id=me&"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s *httptest.Server
			s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, ok := tt.pages[r.URL.Path]
				// Our newest revision, not the newest one of a library.
				if got := r.Header.Get("MCP-Protocol-Version"); r.URL.Path != "/mcp" && got != protocol.Handshake.Newest().String() {
					t.Errorf("%s: MCP-Protocol-Version is %q", r.URL.Path, got)
				}
				switch {
				case r.URL.Path == "/mcp":
					w.WriteHeader(http.StatusUnauthorized)
				case !ok:
					http.NotFound(w, r)
				default:
					_, _ = w.Write([]byte(strings.ReplaceAll(page, "$URL", s.URL)))
				}
			}))
			t.Cleanup(s.Close)
			var got Login
			enough := errors.New("enough")
			err := Authorize(t.Context(), httpclient.Config{Name: "web", URL: s.URL + "/mcp"}, Config{
				ClientID: "me", TokenFile: filepath.Join(t.TempDir(), "tokens.json"),
			}, func(l Login) error { got = l; return enough })
			want := strings.ReplaceAll(tt.want, "$URL", s.URL)
			if errors.Is(err, enough) {
				if !strings.HasPrefix(got.URL, want) || !strings.Contains(got.URL, "code_challenge_method=S256") {
					t.Errorf("got %s, want %s", got.URL, want)
				}
				if r := query(t, got.URL).Get("resource"); r != s.URL+"/mcp" && r != s.URL {
					t.Errorf("for the resource %q", r)
				}
			} else if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestAuthMethod(t *testing.T) {
	both := []string{authBasic, authPost}
	for _, tt := range []struct {
		client    client
		supported []string
		want      string
	}{
		{client{ID: "a"}, both, authNone},
		{client{ID: "a", AuthMethod: authBasic}, both, authNone},
		{client{ID: "a", Secret: "s"}, nil, authPost},
		{client{ID: "a", Secret: "s"}, both, authPost},
		{client{ID: "a", Secret: "s"}, []string{authBasic}, authBasic},
		{client{ID: "a", Secret: "s", AuthMethod: authBasic}, both, authBasic},
		{client{ID: "a", Secret: "s", AuthMethod: authNone}, both, authNone},
		{client{ID: "a", Secret: "s", AuthMethod: "private_key_jwt"}, []string{authBasic}, authBasic},
	} {
		if got := authMethod(tt.client, tt.supported); got != tt.want {
			t.Errorf("%+v with %v: %s, want %s", tt.client, tt.supported, got, tt.want)
		}
	}
}

// TestSecretInTheHeader checks that a secret that is sent in the header is not sent in
// the body.
func TestSecretInTheHeader(t *testing.T) {
	a := newServer(t)
	a.Clients["me"] = ""
	a.Metadata = map[string]any{"token_endpoint_auth_methods_supported": []string{authBasic}}
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	spec.OAuth.ClientID, spec.OAuth.ClientSecret, spec.OAuth.Issuer = "me", "a:b %", a.Issuer.URL
	inner := a.Issuer.Config.Handler
	a.Issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			id, secret, ok := r.BasicAuth()
			if _ = r.ParseForm(); !ok || id != "me" || secret != "a%3Ab+%25" || r.Form.Has("client_secret") {
				t.Errorf("got %q, %q, %v", id, secret, r.Form)
			}
			r.Form.Set("client_id", id)
		}
		inner.ServeHTTP(w, r)
	})
	if err := spec.authorize(t.Context(), browse(t)); err != nil {
		t.Fatal(err)
	}
	l := spec.dial(t)
	a.Revoke(false)
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` || a.Refreshes() != 1 {
		t.Errorf("got %s after %d renewals", got, a.Refreshes())
	}
}
