package oauth

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// documentHost serves a client's metadata over TLS, and fetches it as an authorization
// server does.
func documentHost(t *testing.T, document func(address string) []byte) (address string, fetch func(address string) []byte) {
	t.Helper()
	var s *httptest.Server
	s = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/client.json" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(document(s.URL + "/client.json"))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/client.json", func(address string) []byte {
		resp, err := s.Client().Get(address)
		if err != nil {
			return nil
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return body
	}
}

// TestOrderOfRegistration checks as which client a user logs in: the configured one, else
// the one described by a document, else a registered one, else the error says what to do
// (revision 2026-07-28, basic/authorization/client-registration).
func TestOrderOfRegistration(t *testing.T) {
	port := testenv.Port(t)
	address, fetch := documentHost(t, func(address string) []byte {
		document, err := ClientMetadata(address, []int{port})
		if err != nil {
			t.Error(err)
		}
		return document
	})
	const configured, described, registered = "me", "described", "registered"
	for _, tt := range []struct {
		name           string
		id, document   bool // of the configuration
		reads, accepts bool // documents, registrations
		want           string
	}{
		{"all", true, true, true, true, configured},
		{"a client of ours only", true, false, false, false, configured},
		{"a document", false, true, true, true, described},
		{"a document only", false, true, true, false, described},
		{"a document that the server does not read", false, true, false, true, registered},
		{"no document", false, false, true, true, registered},
		{"nothing that the server knows", false, true, false, false, "does not register clients (register one there yourself, with the redirect URI http://127.0.0.1:"},
		{"nothing but a document", false, false, true, false, "or set client_metadata"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newServer(t)
			a.Clients["me"] = ""
			a.Metadata = map[string]any{"client_id_metadata_document_supported": tt.reads}
			if tt.reads {
				a.Document = fetch
			}
			if !tt.accepts {
				a.Metadata["registration_endpoint"] = ""
			}
			spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
			spec.OAuth.RedirectPort = port
			if tt.id {
				spec.OAuth.ClientID = "me"
			}
			if tt.document {
				spec.OAuth.ClientMetadata = address
			}
			err := spec.authorize(t.Context(), browse(t))
			got, id := "", a.AuthRequest.Get("client_id")
			switch {
			case err != nil:
				if got = tt.want; !strings.Contains(err.Error(), tt.want) || a.AuthCount != 0 {
					got = err.Error()
				}
			case id == "me":
				got = configured
			case id == address:
				got = described
			case len(a.Registered) == 1 && id == a.Registered[0].Get("id"):
				got = registered
			}
			if got != tt.want || got != registered && len(a.Registered) != 0 {
				t.Fatalf("got %q, %d registrations, want %q", got, len(a.Registered), tt.want)
			}
			if err != nil {
				return
			}
			l := spec.dial(t)
			a.Revoke(false)
			if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` || a.Refreshes() != 1 {
				t.Errorf("renewed %d times: %s", a.Refreshes(), got)
			}
			for _, form := range a.Forms {
				if form.Get("client_id") != id || form.Has("client_secret") || form.Get("resource") != spec.URL {
					t.Errorf("sent %v", form)
				}
			}
		})
	}
}

// TestFalseDocuments checks that the test server, like real ones, does not accept a
// document about another client or another redirect, so that TestOrderOfRegistration shows
// that ours is right.
func TestFalseDocuments(t *testing.T) {
	port := testenv.Port(t)
	for name, document := range map[string]func(address string) ([]byte, error){
		"another client":   func(address string) ([]byte, error) { return ClientMetadata(address+"x", []int{port}) },
		"another redirect": func(address string) ([]byte, error) { return ClientMetadata(address, []int{port - 1, port + 1}) },
	} {
		a := newServer(t)
		spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
		spec.OAuth.RedirectPort = port
		spec.OAuth.ClientMetadata, a.Document = documentHost(t, func(address string) []byte {
			text, err := document(address)
			if err != nil {
				t.Error(err)
			}
			return text
		})
		a.Metadata = map[string]any{"client_id_metadata_document_supported": true}
		refused := errors.New("refused")
		err := spec.authorize(t.Context(), func(l Login) error {
			resp, err := http.Get(l.URL)
			if err == nil {
				resp.Body.Close()
			}
			if err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: the browser got %v, %v", name, resp, err)
			}
			return refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClientMetadata checks the document with the members that it must have.
func TestClientMetadata(t *testing.T) {
	text, err := ClientMetadata("https://app.example.com/client.json", []int{0, 7777})
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		ID        string   `json:"client_id"`
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
		Grants    []string `json:"grant_types"`
		Method    string   `json:"token_endpoint_auth_method"`
		Type      string   `json:"application_type"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.ID != "https://app.example.com/client.json" || m.Name == "" || m.Method != "none" || m.Type != "native" || !slices.Contains(m.Grants, "refresh_token") ||
		!slices.Equal(m.Redirects, []string{"http://127.0.0.1/callback", "http://127.0.0.1:7777/callback"}) {
		t.Errorf("%s", text)
	}
}

// TestRegistration checks what a client is registered with, and that the reason of a
// refusal is shown.
func TestRegistration(t *testing.T) {
	a, spec := authorized(t, nil)
	redirect := a.Registered[0].Get("redirect")
	if u, err := url.Parse(redirect); err != nil || u.Hostname() != "127.0.0.1" || u.Scheme != "http" || u.Port() == "" || u.Path != "/callback" ||
		redirect != a.AuthRequest.Get("redirect_uri") || redirect != a.Forms[0].Get("redirect_uri") {
		t.Errorf("redirect %q, %v", redirect, err)
	}
	a.Set(func() {
		a.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/register" {
				return false
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_redirect_uri","error_description":"no loopback\u001b[2J here"}`)
			return true
		}
	})
	err := spec.authorize(t.Context(), browse(t))
	if err == nil || !strings.Contains(err.Error(), "registering as a client failed") || !strings.Contains(err.Error(), "invalid_redirect_uri - no loopback") ||
		strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v", err)
	}
}

// TestIssuerThatChanges checks that after a change of the authorization server nothing of
// the former one is used: the client is registered again, and the tokens, the secret and
// the client's id stay away from the new one (revision 2026-07-28,
// basic/authorization/client-registration, Authorization Server Binding).
func TestIssuerThatChanges(t *testing.T) {
	first, spec := authorized(t, nil)
	second := newServer(t)
	l := spec.dial(t)
	first.SetIssuers(second.Issuer.URL)
	first.Set(func() { first.Trusted = second })
	var auth *httpclient.AuthError
	if _, err := call(t.Context(), l); !errors.As(err, &auth) || !strings.Contains(err.Error(), second.Issuer.URL) || second.AuthCount+len(second.Forms)+len(second.Registered) != 0 {
		t.Fatalf("before the login: %v", err)
	}
	var shown Login
	if err := spec.authorize(t.Context(), func(l Login) error { shown = l; return oauthtest.Consent(t, l.URL) }); err != nil {
		t.Fatal(err)
	}
	if shown.Former != first.Issuer.URL || shown.Issuer != second.Issuer.URL {
		t.Errorf("shown %+v", shown)
	}
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` {
		t.Errorf("after the login: %s", got)
	}
	if len(second.Registered) != 1 || second.AuthRequest.Get("client_id") != second.Registered[0].Get("id") || len(first.Forms) != 1 {
		t.Errorf("%d registrations, client %s, %d requests to the former one", len(second.Registered), second.AuthRequest.Get("client_id"), len(first.Forms))
	}
	second.Revoke(false)
	if got := outcomeOf(call(t.Context(), l)); got != `{"in":1}` || second.Refreshes() != 1 || first.Refreshes() != 0 {
		t.Errorf("renewed: %s", got)
	}
	for _, form := range second.Forms {
		first.MustNotLeak(form.Encode())
		if form.Get("client_id") == first.Registered[0].Get("id") {
			t.Errorf("the former client was sent: %v", form)
		}
	}
	first.SetIssuers(first.Issuer.URL) // and back: a client again
	first.Set(func() { first.Trusted = nil })
	if err := spec.authorize(t.Context(), browse(t)); err != nil || len(first.Registered) != 2 {
		t.Errorf("back: %v, %d registrations", err, len(first.Registered))
	}
}

// TestConfiguredClientStaysWithItsIssuer checks that a configured client without a
// configured issuer is used with the first one only, and that a document about a client
// can be used with any.
func TestConfiguredClientStaysWithItsIssuer(t *testing.T) {
	for _, early := range []bool{false, true} { // with the file of an earlier version
		first := newServer(t)
		first.Clients["me"] = ""
		spec := specOf(first, filepath.Join(t.TempDir(), "tokens.json"))
		spec.OAuth.ClientID = "me"
		if err := spec.authorize(t.Context(), browse(t)); err != nil {
			t.Fatal(err)
		}
		if early {
			file, key := tokenFile{spec.OAuth.TokenFile}, "web "+spec.URL
			entry, err := file.entry(key)
			if err != nil || entry.ClientID != "me" {
				t.Fatal(entry, err)
			}
			entry.ClientID = ""
			if err := file.put(key, entry); err != nil {
				t.Fatal(err)
			}
		}
		second := newServer(t)
		second.Clients["me"] = ""
		first.SetIssuers(second.Issuer.URL)
		err := spec.authorize(t.Context(), browse(t))
		if err == nil || !strings.Contains(err.Error(), "the client_id belongs to "+first.Issuer.URL) || second.AuthCount != 0 {
			t.Errorf("got %v", err)
		}
		spec.OAuth.Issuer = second.Issuer.URL // the operator says that it is right
		if err := spec.authorize(t.Context(), browse(t)); err != nil || second.AuthCount != 1 {
			t.Errorf("got %v", err)
		}
	}

	port := testenv.Port(t)
	address, fetch := documentHost(t, func(address string) []byte {
		document, _ := ClientMetadata(address, []int{port})
		return document
	})
	reads := func(a *oauthtest.Server) {
		a.Document, a.Metadata = fetch, map[string]any{"client_id_metadata_document_supported": true}
	}
	first, second := newServer(t), newServer(t)
	reads(first)
	reads(second)
	spec := specOf(first, filepath.Join(t.TempDir(), "tokens.json"))
	spec.OAuth.ClientMetadata, spec.OAuth.RedirectPort = address, port
	for _, a := range []*oauthtest.Server{first, second} {
		first.SetIssuers(a.Issuer.URL)
		if err := spec.authorize(t.Context(), browse(t)); err != nil || a.AuthRequest.Get("client_id") != address {
			t.Errorf("client %s, %v", a.AuthRequest.Get("client_id"), err)
		}
	}
}

// TestFormerIssuerIsPreferred checks that of several authorization servers the one is used
// whose tokens we have, because only there the former scopes mean something.
func TestFormerIssuerIsPreferred(t *testing.T) {
	first, spec := authorized(t, nil)
	second := newServer(t)
	first.SetIssuers(second.Issuer.URL, first.Issuer.URL)
	if err := spec.authorize(t.Context(), browse(t)); err != nil || first.AuthCount != 2 || second.AuthCount != 0 {
		t.Errorf("got %v", err)
	}
}

// TestAssumePKCE checks that an authorization server that does not say how it supports
// PKCE is used only if the operator vouches for it, and then with PKCE, and that one that
// says it supports only another way is never used.
func TestAssumePKCE(t *testing.T) {
	for _, tt := range []struct {
		methods string
		assume  bool
		want    string
	}{
		{`["plain","S256"]`, false, ""}, {"null", true, ""}, {"null", false, "set assume_pkce"}, {"[]", false, "set assume_pkce"},
		{`["plain"]`, true, "does not support PKCE with S256"}, {`["s256"]`, true, "does not support PKCE with S256"},
	} {
		a := newServer(t)
		a.Methods = tt.methods
		spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
		spec.OAuth.AssumePKCE = tt.assume
		err := spec.authorize(t.Context(), browse(t))
		switch {
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || a.AuthCount+len(a.Registered) != 0):
			t.Errorf("%s, %t: %v", tt.methods, tt.assume, err)
		case tt.want == "" && (err != nil || a.AuthRequest.Get("code_challenge") == "" || a.Forms[0].Get("code_verifier") == ""):
			t.Errorf("%s, %t: %v", tt.methods, tt.assume, err)
		}
	}
}
