// Package oauthtest has an MCP server behind OAuth and its authorization
// servers, honest and not, for tests.
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

// Server is an MCP server that takes requests with a good access token only,
// with its authorization server: metadata, registration, codes with PKCE, and
// tokens that are renewed with refresh tokens good for one use. The fields are
// set before the server is used, or under Lock.
type Server struct {
	*httptest.Server                  // the MCP server, at /mcp
	Issuer           *httptest.Server // the authorization server
	t                testing.TB

	sync.Mutex
	Clients     map[string]string // id to redirect URI; "" for any
	Lifetime    int               // of tokens in seconds; 0: not said
	Methods     string            // of PKCE, as JSON
	Scope       string            // more parameters of the challenge
	Back        url.Values        // what the browser comes back with; nil: a code
	Resource    string            // what the MCP server says that it is; "": its address
	Issuers     []string          // the authorization servers that it names; nil: its own
	Metadata    map[string]any    // more members of the authorization server's metadata
	TokenStatus int               // of the token endpoint; 0: as it should be
	Secrets     []string          // everything that must not be seen

	Asked     url.Values   // the last authorization request
	Forms     []url.Values // that the token endpoint got
	refreshes int
	n         int    // of tokens, codes and clients so far
	access    string // the one that is good
	refresh   string // the one that is good
	codes     map[string]url.Values
}

// New starts a server that has mcp answer requests with a good token.
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
			a.describe(w)
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

// describe is the metadata of the MCP server (RFC 9728).
func (a *Server) describe(w http.ResponseWriter) {
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

// Name changes the authorization servers that the MCP server names.
func (a *Server) Name(issuers ...string) {
	a.Lock()
	defer a.Unlock()
	a.Issuers = issuers
}

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

// authorize agrees at once and sends the browser back.
func (a *Server) authorize(w http.ResponseWriter, r *http.Request) {
	a.Lock()
	defer a.Unlock()
	q := r.URL.Query()
	a.Asked = q
	redirect, ok := a.Clients[q.Get("client_id")]
	if !ok || redirect != "" && redirect != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	back := url.Values{"iss": {a.Issuer.URL}}
	if a.Back != nil {
		back = a.Back
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
		if given := r.Form.Get("refresh_token"); given != a.refresh || !known {
			a.refuse(w, given)
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

// refuse quotes what it got, as some servers do.
func (a *Server) refuse(w http.ResponseWriter, given string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"%s is not valid"}`, given)
}

// Revoke makes the access token useless, and the refresh token too if also is
// true.
func (a *Server) Revoke(also bool) {
	a.Lock()
	defer a.Unlock()
	a.access = ""
	if also {
		a.refresh = ""
	}
}

// Refreshes is how often tokens were renewed, or that was tried.
func (a *Server) Refreshes() int {
	a.Lock()
	defer a.Unlock()
	return a.refreshes
}

// MustHide fails the test if a secret is in text.
func (a *Server) MustHide(text string) {
	a.t.Helper()
	a.Lock()
	defer a.Unlock()
	for _, s := range a.Secrets {
		if strings.Contains(text, s) {
			a.t.Errorf("secret %q is in %q", s, text)
		}
	}
}

// Agree is a browser whose user agrees at address.
func Agree(t testing.TB, address string) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the browser sees status %d", resp.StatusCode)
	}
	return nil
}
