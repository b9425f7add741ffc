// Package oauthtest has servers for tests of OAuth: an MCP server that requires access
// tokens, with its authorization server, and an authorization server of an attacker.
package oauthtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is an MCP server that accepts only requests with a valid access token, with an
// authorization server: metadata, registration, codes with PKCE, and refresh tokens that are valid
// once. The fields are set before the server is used, or under Lock.
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
	Resource    string            // the resource in the MCP server's metadata; "": the server's address
	Issuers     []string          // the authorization servers in the metadata; nil: this server
	Metadata    map[string]any    // more members of the authorization server's metadata
	TokenStatus int               // HTTP status of the token endpoint; 0: as specified
	Secrets     []string          // everything that must not be shown

	Require   []string                                      // scopes without which the MCP server answers 403
	Supported []string                                      // scopes in the MCP server's metadata; nil: none
	OnlyCalls bool                                          // only calls of tools need the scopes in Require
	Withheld  []string                                      // scopes that are not granted
	AnyToken  bool                                          // the MCP server accepts any token
	Trusted   *Server                                       // another server; the MCP server accepts the other server's tokens instead
	Document  func(address string) []byte                   // the document at the address of a client's metadata; nil: not read
	Intercept func(http.ResponseWriter, *http.Request) bool // handles requests to the authorization server; false: does not
	Iss       func(issuer string) []string                  // the parameter iss of redirects to the client; nil: the issuer, or as in Callback

	AuthRequest url.Values   // the last authorization request
	AuthCount   int          // the number of authorization requests
	Registered  []url.Values // clients, with the members of their metadata that tests look at
	Forms       []url.Values // received by the token endpoint
	refreshes   int
	n           int                   // the number of tokens, codes and clients so far
	access      map[string]url.Values // scope and resource of the valid access tokens
	refresh     string                // the valid refresh token
	granted     url.Values            // scope and resource of the last grant
	codes       map[string]url.Values
}

// New starts a server that passes requests with a valid token to mcp.
func New(t testing.TB, mcp http.Handler) *Server {
	a := &Server{t: t, Clients: map[string]string{}, codes: map[string]url.Values{}, access: map[string]url.Values{}, Methods: `["S256"]`, Lifetime: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", a.metadata)
	mux.HandleFunc("/register", a.register)
	mux.HandleFunc("/authorize", a.authorize)
	mux.HandleFunc("/token", a.token)
	a.Issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Lock()
		intercept := a.Intercept
		a.Unlock()
		if intercept == nil || !intercept(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(a.Issuer.Close)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Lock()
		issuer := a
		if a.Trusted != nil {
			issuer = a.Trusted
		}
		required := a.Require
		if a.OnlyCalls && !isCall(r) {
			required = nil
		}
		challenge := fmt.Sprintf(`Bearer error="invalid_token", resource_metadata="%s/metadata"%s`, a.URL, a.Scope)
		a.Unlock()
		ok, missing := issuer.verify(r.Header.Get("Authorization"), required)
		switch {
		case r.URL.Path == "/metadata":
			a.resourceMetadata(w)
		case ok && len(missing) > 0:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, strings.Join(missing, " ")))
			w.WriteHeader(http.StatusForbidden)
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
	m := map[string]any{"resource": resource, "authorization_servers": names}
	if a.Supported != nil {
		m["scopes_supported"] = a.Supported
	}
	_ = json.NewEncoder(w).Encode(m)
}

// isCall reports whether a request calls a tool, and leaves the body to be read again.
func isCall(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &m) == nil && m.Method == "tools/call"
}

// verify reports whether a header value has the valid access token, and which of the required
// scopes the token lacks.
func (a *Server) verify(authorization string, required []string) (ok bool, missing []string) {
	a.Lock()
	defer a.Unlock()
	granted, ok := a.access[strings.TrimPrefix(authorization, "Bearer ")]
	has := strings.Fields(granted.Get("scope"))
	missing = slices.DeleteFunc(slices.Clone(required), func(s string) bool { return slices.Contains(has, s) })
	return ok || a.AnyToken && authorization != "", missing
}

// Set changes fields while the server is used.
func (a *Server) Set(change func()) {
	a.Lock()
	defer a.Unlock()
	change()
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
	s := fmt.Sprintf("%s-sesame-%d-%s", kind, a.n, a.Issuer.Listener.Addr().String()[len("127.0.0.1:"):])
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
		Type      string   `json:"application_type"`
		Scope     string   `json:"scope"`
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil || asked.Name != "mcp-metatool" || len(asked.Redirects) != 1 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if asked.Type != "native" { // as OpenID providers do for a redirect to this machine
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_redirect_uri","error_description":"web applications need https"}`)
		return
	}
	a.Lock()
	defer a.Unlock()
	a.n++
	id := fmt.Sprintf("client-%d-of-%s", a.n, strings.TrimPrefix(a.Issuer.URL, "http://"))
	a.Clients[id] = asked.Redirects[0]
	a.Registered = append(a.Registered, url.Values{"id": {id}, "redirect": asked.Redirects, "scope": {asked.Scope}})
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"client_id":%q}`, id)
}

// authorize grants the request at once and redirects the browser to the client.
func (a *Server) authorize(w http.ResponseWriter, r *http.Request) {
	a.Lock()
	defer a.Unlock()
	q := r.URL.Query()
	a.AuthRequest = q
	a.AuthCount++
	redirect, ok := a.Clients[q.Get("client_id")]
	if !ok && a.Document != nil {
		redirect, ok = a.describedRedirect(q)
	}
	if !ok || redirect != "" && redirect != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	back := url.Values{"iss": {a.Issuer.URL}}
	if a.Callback != nil {
		back = maps.Clone(a.Callback)
	} else {
		code := a.secret("code")
		a.codes[code] = q
		back.Set("code", code)
	}
	if a.Iss != nil {
		back["iss"] = a.Iss(a.Issuer.URL)
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
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("client_id") != r.Form.Get("client_id") ||
			asked.Get("redirect_uri") != r.Form.Get("redirect_uri") || !a.sameTarget(asked, r.Form) {
			a.refuse(w, code)
			return
		}
		a.grant(asked)
	case "refresh_token":
		a.refreshes++
		_, known := a.Clients[r.Form.Get("client_id")]
		known = known || a.Document != nil && r.Form.Get("client_id") == a.AuthRequest.Get("client_id")
		if token := r.Form.Get("refresh_token"); token != a.refresh || !known || !a.sameTarget(a.granted, r.Form) {
			a.refuse(w, token)
			return
		}
	}
	access := a.secret("access")
	a.access[access], a.refresh = a.granted, a.secret("refresh")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","refresh_token":%q`, access, a.refresh)
	if a.Lifetime != 0 {
		fmt.Fprintf(w, `,"expires_in":%d`, a.Lifetime)
	}
	if scope := a.granted.Get("scope"); scope != "" {
		fmt.Fprintf(w, `,"scope":%q`, scope)
	}
	fmt.Fprint(w, "}")
}

// grant grants the scopes of an authorization request, except withheld scopes.
func (a *Server) grant(asked url.Values) {
	scopes := slices.DeleteFunc(strings.Fields(asked.Get("scope")), func(s string) bool { return slices.Contains(a.Withheld, s) })
	a.granted = url.Values{"scope": {strings.Join(scopes, " ")}, "resource": asked["resource"]}
}

// sameTarget reports whether a request for tokens is for the originally requested resource (RFC
// 8707, 2.2), which has to be the MCP server.
func (a *Server) sameTarget(asked, form url.Values) bool {
	return form.Get("resource") == asked.Get("resource") && form.Get("resource") != ""
}

// describedRedirect returns the redirect URI of a request, if the document at the address in
// client_id describes the client and has the URI.
func (a *Server) describedRedirect(q url.Values) (redirect string, ok bool) {
	var described struct {
		ID        string   `json:"client_id"`
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	redirect = q.Get("redirect_uri")
	ok = json.Unmarshal(a.Document(q.Get("client_id")), &described) == nil && described.ID == q.Get("client_id") &&
		described.Name != "" && described.Method == "none" && slices.Contains(described.Redirects, redirect)
	return redirect, ok
}

// refuse refuses and quotes a code or token, as some servers do.
func (a *Server) refuse(w http.ResponseWriter, grant string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"%s is not valid"}`, grant)
}

// Revoke revokes all access tokens, and with refreshToo also the refresh token.
func (a *Server) Revoke(refreshToo bool) {
	a.Lock()
	defer a.Unlock()
	clear(a.access)
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

// Consent acts as the browser of a user who consents at address.
func Consent(t testing.TB, address string) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the browser got status %d", resp.StatusCode)
		return errors.New("the user gives up")
	}
	return nil
}

// Attacker is an authorization server that grants every request and records it.
type Attacker struct {
	*httptest.Server
	LoginPage string // the named authorization endpoint; "": an endpoint of the attacker

	mu   sync.Mutex
	seen []string // requests, with their bodies
}

// NewAttacker starts an Attacker.
func NewAttacker(t testing.TB) *Attacker {
	s := &Attacker{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *Attacker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
	s.mu.Unlock()
	if r.Method == http.MethodPost {
		fmt.Fprint(w, `{"access_token":"stolen","token_type":"Bearer","refresh_token":"stolen"}`)
		return
	}
	page := s.LoginPage
	if page == "" {
		page = s.URL + "/authorize"
	}
	fmt.Fprintf(w, `{"issuer":%[1]q,"authorization_endpoint":%[2]q,"token_endpoint":"%[1]s/token","registration_endpoint":"%[1]s/register",
		"response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, s.URL, page)
}

// MustHaveNoSecrets fails the test if the server got a request for anything but metadata.
func (s *Attacker) MustHaveNoSecrets(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.seen {
		if !strings.HasPrefix(request, "GET /.well-known/") {
			t.Errorf("the attacker got: %s", request)
		}
	}
}

// MustHaveNoRequests fails the test if the server got a request.
func (s *Attacker) MustHaveNoRequests(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.seen {
		t.Errorf("the attacker got: %s", request)
	}
}
