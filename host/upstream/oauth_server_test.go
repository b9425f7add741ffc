package upstream

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

// authServer is a hand-written MCP server with an authorization server beside
// it: metadata, registration, codes with PKCE, tokens that are renewed with
// refresh tokens good for one use.
type authServer struct {
	*webServer
	as *httptest.Server

	mu        sync.Mutex
	n         int               // of tokens, codes and clients so far
	secrets   []string          // everything that must not be seen
	clients   map[string]string // id to redirect URI
	codes     map[string]url.Values
	access    string // the one that is good
	refresh   string // the one that is good
	lifetime  int    // seconds; 0: not said
	refreshes int
	asked     url.Values     // of the last authorization
	methods   string         // of PKCE
	scope     string         // in the challenge
	back      url.Values     // what the browser brings instead; nil: a code
	resource  string         // what the server says that it is; "": its address
	names     []string       // the authorization servers that it names; nil: its own
	says      map[string]any // more members of the authorization server's metadata
	tokenIs   int            // the status of the token endpoint; 0: as it should be
	forms     []url.Values   // that the token endpoint got
}

func newAuthServer(t *testing.T) *authServer {
	a := &authServer{clients: map[string]string{}, codes: map[string]url.Values{}, methods: `["S256"]`, lifetime: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", a.metadata)
	mux.HandleFunc("/register", a.register)
	mux.HandleFunc("/authorize", a.authorize)
	mux.HandleFunc("/token", a.token)
	a.as = httptest.NewServer(mux)
	t.Cleanup(a.as.Close)
	a.webServer = newWebServer(t, func(w http.ResponseWriter, _ *http.Request, m webMessage) { answer(w, m, `{"in":1}`) })
	a.stateful = false
	inner := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		ok := a.access != "" && r.Header.Get("Authorization") == "Bearer "+a.access
		a.mu.Unlock()
		switch {
		case r.URL.Path == "/metadata":
			a.describe(w)
		case ok:
			inner.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="invalid_token", resource_metadata="%s/metadata"%s`, a.URL, a.scope))
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	return a
}

// describe is the metadata of the MCP server (RFC 9728).
func (a *authServer) describe(w http.ResponseWriter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource, names := a.URL+"/mcp", []string{a.as.URL}
	if a.resource != "" {
		resource = a.resource
	}
	if a.names != nil {
		names = a.names
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"resource": resource, "authorization_servers": names})
}

// name changes the authorization servers that the MCP server names.
func (a *authServer) name(issuers ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = issuers
}

func (a *authServer) secret(kind string) string {
	a.n++
	s := fmt.Sprintf("%s-sesame-%d", kind, a.n)
	a.secrets = append(a.secrets, s)
	return s
}

func (a *authServer) metadata(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := map[string]any{
		"issuer": a.as.URL, "authorization_endpoint": a.as.URL + "/authorize", "token_endpoint": a.as.URL + "/token",
		"registration_endpoint": a.as.URL + "/register", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": json.RawMessage(a.methods),
	}
	maps.Copy(m, a.says)
	_ = json.NewEncoder(w).Encode(m)
}

func (a *authServer) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil || asked.Name != "mcp-metatool" || len(asked.Redirects) != 1 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	id := fmt.Sprintf("client-%d", a.n)
	a.clients[id] = asked.Redirects[0]
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"client_id":%q}`, id)
}

// authorize agrees at once and sends the browser back.
func (a *authServer) authorize(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := r.URL.Query()
	a.asked = q
	redirect, ok := a.clients[q.Get("client_id")]
	if !ok || redirect != "" && redirect != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	back := url.Values{"iss": {a.as.URL}}
	if a.back != nil {
		back = a.back
	} else {
		code := a.secret("code")
		a.codes[code] = q
		back.Set("code", code)
	}
	back.Set("state", q.Get("state"))
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (a *authServer) token(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = r.ParseForm()
	a.forms = append(a.forms, r.Form)
	if a.tokenIs != 0 {
		w.WriteHeader(a.tokenIs)
		return
	}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		code := r.Form.Get("code")
		asked, ok := a.codes[code]
		delete(a.codes, code)
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		a.secrets = append(a.secrets, r.Form.Get("code_verifier"))
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("client_id") != r.Form.Get("client_id") {
			a.refuse(w, code)
			return
		}
	case "refresh_token":
		a.refreshes++
		_, known := a.clients[r.Form.Get("client_id")]
		if given := r.Form.Get("refresh_token"); given != a.refresh || !known {
			a.refuse(w, given)
			return
		}
	}
	a.access, a.refresh = a.secret("access"), a.secret("refresh")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","refresh_token":%q`, a.access, a.refresh)
	if a.lifetime != 0 {
		fmt.Fprintf(w, `,"expires_in":%d`, a.lifetime)
	}
	fmt.Fprint(w, "}")
}

// refuse quotes what it was given, as some servers do.
func (a *authServer) refuse(w http.ResponseWriter, given string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"%s is not valid"}`, given)
}

// revoke makes the access token, and also the refresh token, good for nothing.
func (a *authServer) revoke(also bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.access = ""
	if also {
		a.refresh = ""
	}
}

func (a *authServer) counted() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refreshes
}

// mustHide fails the test if a secret is in text.
func (a *authServer) mustHide(text string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.secrets {
		if strings.Contains(text, s) {
			a.t.Errorf("secret %q is in %q", s, text)
		}
	}
}

func (a *authServer) spec(file string) Spec {
	s := a.httpSpec()
	s.Name = "web"
	s.OAuth = &OAuth{TokenFile: file}
	return s
}

// browse is a browser whose user agrees.
func browse(t *testing.T) func(Login) error {
	return func(login Login) error {
		client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(login.URL)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the browser sees status %d", resp.StatusCode)
		}
		return nil
	}
}
