// Package oauthtest has servers for tests of OAuth: an MCP server that requires access
// tokens, with its authorization server, and an authorization server of an attacker.
package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is an MCP server that accepts only requests with a valid access token, with
// its authorization server: metadata, registration, codes with PKCE, and refresh tokens
// that are valid once. The fields are set before the server is used, or under Lock.
type Server struct {
	*httptest.Server                  // the MCP server, at /mcp
	Issuer           *httptest.Server // the authorization server
	t                testing.TB

	sync.Mutex
	Clients     map[string]string // redirect URI by client id; "" accepts any
	Lifetime    int               // of tokens in seconds; 0: the server does not tell
	Methods     string            // of PKCE, as JSON
	Scope       string            // more parameters of the challenge
	Callback    url.Values        // the query of the redirect to the client; nil: with a code
	Resource    string            // the resource in the MCP server's metadata; "": its address
	Issuers     []string          // the authorization servers in it; nil: its own
	Metadata    map[string]any    // more members of the authorization server's metadata
	TokenStatus int               // HTTP status of the token endpoint; 0: as specified
	Secrets     []string          // all that must not be shown

	AuthRequest url.Values   // the last authorization request
	Forms       []url.Values // received by the token endpoint
	refreshes   int
	n           int    // the number of tokens, codes and clients so far
	access      string // the valid access token
	refresh     string // the valid refresh token
	codes       map[string]url.Values
}

// New starts a server that passes requests with a valid token to mcp.
func New(t testing.TB, mcp http.Handler) *Server {
	a := &Server{t: t, Clients: map[string]string{}, codes: map[string]url.Values{}, Methods: `["S256"]`, Lifetime: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", a.metadata)
	mux.HandleFunc("/register", a.register)
	mux.HandleFunc("/authorize", a.authorize)
	mux.HandleFunc("/token", a.token)
	a.Issuer = httptest.NewServer(mux)
	t.Cleanup(a.Issuer.Close)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Lock()
		ok := a.access != "" && r.Header.Get("Authorization") == "Bearer "+a.access
		challenge := fmt.Sprintf(`Bearer error="invalid_token", resource_metadata="%s/metadata"%s`, a.URL, a.Scope)
		a.Unlock()
		switch {
		case r.URL.Path == "/metadata":
			a.resourceMetadata(w)
		case ok:
			mcp.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// resourceMetadata writes the metadata of the MCP server (RFC 9728).
func (a *Server) resourceMetadata(w http.ResponseWriter) {
	a.Lock()
	defer a.Unlock()
	resource, names := a.URL+"/mcp", []string{a.Issuer.URL}
	if a.Resource != "" {
		resource = a.Resource
	}
	if a.Issuers != nil {
		names = a.Issuers
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"resource": resource, "authorization_servers": names})
}

// SetIssuers sets the authorization servers that the MCP server names.
func (a *Server) SetIssuers(issuers ...string) {
	a.Lock()
	defer a.Unlock()
	a.Issuers = issuers
}

// secret returns a new secret.
func (a *Server) secret(kind string) string {
	a.n++
	s := fmt.Sprintf("%s-sesame-%d", kind, a.n)
	a.Secrets = append(a.Secrets, s)
	return s
}

func (a *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	a.Lock()
	defer a.Unlock()
	m := map[string]any{
		"issuer": a.Issuer.URL, "authorization_endpoint": a.Issuer.URL + "/authorize", "token_endpoint": a.Issuer.URL + "/token",
		"registration_endpoint": a.Issuer.URL + "/register", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": json.RawMessage(a.Methods),
	}
	maps.Copy(m, a.Metadata)
	_ = json.NewEncoder(w).Encode(m)
}

func (a *Server) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil || asked.Name != "mcp-metatool" || len(asked.Redirects) != 1 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.Lock()
	defer a.Unlock()
	a.n++
	id := fmt.Sprintf("client-%d", a.n)
	a.Clients[id] = asked.Redirects[0]
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"client_id":%q}`, id)
}

// authorize grants the request at once and redirects the browser to the client.
func (a *Server) authorize(w http.ResponseWriter, r *http.Request) {
	a.Lock()
	defer a.Unlock()
	q := r.URL.Query()
	a.AuthRequest = q
	redirect, ok := a.Clients[q.Get("client_id")]
	if !ok || redirect != "" && redirect != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	back := url.Values{"iss": {a.Issuer.URL}}
	if a.Callback != nil {
		back = a.Callback
	} else {
		code := a.secret("code")
		a.codes[code] = q
		back.Set("code", code)
	}
	back.Set("state", q.Get("state"))
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (a *Server) token(w http.ResponseWriter, r *http.Request) {
	a.Lock()
	defer a.Unlock()
	_ = r.ParseForm()
	a.Forms = append(a.Forms, r.Form)
	if a.TokenStatus != 0 {
		w.WriteHeader(a.TokenStatus)
		return
	}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		code := r.Form.Get("code")
		asked, ok := a.codes[code]
		delete(a.codes, code)
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		a.Secrets = append(a.Secrets, r.Form.Get("code_verifier"))
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("client_id") != r.Form.Get("client_id") {
			a.refuse(w, code)
			return
		}
	case "refresh_token":
		a.refreshes++
		_, known := a.Clients[r.Form.Get("client_id")]
		if token := r.Form.Get("refresh_token"); token != a.refresh || !known {
			a.refuse(w, token)
			return
		}
	}
	a.access, a.refresh = a.secret("access"), a.secret("refresh")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","refresh_token":%q`, a.access, a.refresh)
	if a.Lifetime != 0 {
		fmt.Fprintf(w, `,"expires_in":%d`, a.Lifetime)
	}
	fmt.Fprint(w, "}")
}

// refuse refuses a code or token, and quotes it, as some servers do.
func (a *Server) refuse(w http.ResponseWriter, grant string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"%s is not valid"}`, grant)
}

// Revoke revokes the access token, and with refreshToo also the refresh token.
func (a *Server) Revoke(refreshToo bool) {
	a.Lock()
	defer a.Unlock()
	a.access = ""
	if refreshToo {
		a.refresh = ""
	}
}

// Refreshes returns the number of attempts to renew a token.
func (a *Server) Refreshes() int {
	a.Lock()
	defer a.Unlock()
	return a.refreshes
}

// MustNotLeak fails the test if a secret is in text.
func (a *Server) MustNotLeak(text string) {
	a.t.Helper()
	a.Lock()
	defer a.Unlock()
	for _, s := range a.Secrets {
		if strings.Contains(text, s) {
			a.t.Errorf("secret %q is in %q", s, text)
		}
	}
}

// Consent does what a browser does whose user consents at address.
func Consent(t testing.TB, address string) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the browser got status %d", resp.StatusCode)
	}
	return nil
}
