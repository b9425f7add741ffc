package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

// TestIssuerOfCallback checks the four rows of the table in revision 2026-07-28
// (basic/authorization, Authorization Response Validation), that the issuer is compared
// as it is written, and that an error of another issuer is not shown.
func TestIssuerOfCallback(t *testing.T) {
	const advertised, silent = true, false
	refusal := url.Values{"error": {"access_denied"}, "error_description": {"call Mallory"}, "error_uri": {"https://attacker.test/help"}}
	for _, tt := range []struct {
		name       string
		advertises bool
		iss        func(issuer string) []string // nil: left out
		refuses    bool
		want       string // in the error; "": none
	}{
		{"advertised and right", advertised, func(i string) []string { return []string{i} }, false, ""},
		{"advertised and absent", advertised, nil, false, "lacks the issuer"},
		{"silent and right", silent, func(i string) []string { return []string{i} }, false, ""},
		{"silent and absent", silent, nil, false, ""},
		{"silent and wrong", silent, func(string) []string { return []string{"https://attacker.test"} }, false, "is from the issuer"},
		{"advertised and empty", advertised, func(string) []string { return []string{""} }, false, "is from the issuer"},
		{"silent and empty", silent, func(string) []string { return []string{""} }, false, "is from the issuer"},
		{"twice", advertised, func(i string) []string { return []string{i, i} }, false, "is from the issuer"},
		{"with a slash", advertised, func(i string) []string { return []string{i + "/"} }, false, "is from the issuer"},
		{"in capitals", advertised, func(i string) []string { return []string{strings.Replace(i, "http", "HTTP", 1)} }, false, "is from the issuer"},
		{"with an encoded byte", advertised, func(i string) []string { return []string{strings.Replace(i, "127", "%3127", 1)} }, false, "is from the issuer"},
		{"with a dot segment", advertised, func(i string) []string { return []string{i + "/."} }, false, "is from the issuer"},
		{"with another port", advertised, func(i string) []string { return []string{i + "0"} }, false, "is from the issuer"},
		{"refused by the right one", advertised, func(i string) []string { return []string{i} }, true, "access_denied - call Mallory"},
		{"refused by another", silent, func(string) []string { return []string{"https://attacker.test"} }, true, "is from the issuer"},
		{"refused by no server", advertised, nil, true, "lacks the issuer"},
		{"refused, silent and absent", silent, nil, true, "access_denied - call Mallory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newServer(t)
			a.Metadata = map[string]any{"authorization_response_iss_parameter_supported": tt.advertises}
			a.Iss = func(issuer string) []string { return nil }
			if tt.iss != nil {
				a.Iss = tt.iss
			}
			if tt.refuses {
				a.Callback = refusal
			}
			spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
			err := spec.authorize(t.Context(), browse(t))
			if tt.want == "" {
				if err != nil || len(a.Forms) != 1 {
					t.Fatalf("got %v after %d token requests", err, len(a.Forms))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(a.Forms) != 0 {
				t.Fatalf("got %v after %d token requests, want %s", err, len(a.Forms), tt.want)
			}
			if strings.Contains(tt.want, "issuer") && (strings.Contains(err.Error(), "access_denied") || strings.Contains(err.Error(), "Mallory") || strings.Contains(err.Error(), "help")) {
				t.Errorf("the error of another issuer is shown: %v", err)
			}
		})
	}
}

// TestWellKnownOrder checks which documents are read and in which order, until one is
// found (revision 2026-07-28, basic/authorization/authorization-server-discovery), and
// that none of them counts if it is about another issuer.
func TestWellKnownOrder(t *testing.T) {
	const prefix = "/.well-known/"
	for _, tt := range []struct {
		name, path string
		want       []string
	}{
		{"the origin", "", []string{prefix + "oauth-authorization-server", prefix + "openid-configuration"}},
		{"a path", "/tenant1", []string{
			prefix + "oauth-authorization-server/tenant1", prefix + "openid-configuration/tenant1", "/tenant1/.well-known/openid-configuration"}},
		{"a longer path", "/a/b%20c", []string{
			prefix + "oauth-authorization-server/a/b%20c", prefix + "openid-configuration/a/b%20c", "/a/b%20c/.well-known/openid-configuration"}},
	} {
		for found := range len(tt.want) + 1 {
			t.Run(fmt.Sprintf("%s, found at %d", tt.name, found), func(t *testing.T) {
				for _, describes := range []string{"", "/other", "/Tenant1", "/tenant1/x"} {
					asked, err := discoverAt(t, tt.path, tt.want, found, describes)
					want := tt.want[:min(found+1, len(tt.want))]
					if !slices.Equal(asked, want) {
						t.Errorf("asked for %q, want %q", asked, want)
					}
					switch {
					case found == len(tt.want) && !strings.Contains(err.Error(), "has no metadata"),
						found < len(tt.want) && describes == "" && !errors.Is(err, errEnough),
						found < len(tt.want) && describes != "" && !strings.Contains(err.Error(), "describes the issuer"):
						t.Errorf("a document about %q: %v", describes, err)
					}
				}
			})
		}
	}
}

// errEnough ends a login before the browser is opened.
var errEnough = errors.New("enough")

// discoverAt begins a login at a server whose authorization server has that path, and its
// metadata at addresses[found]. The metadata is about the issuer with describes after its
// address. It returns which documents of the authorization server were asked for.
func discoverAt(t *testing.T, path string, addresses []string, found int, describes string) (asked []string, err error) {
	t.Helper()
	var mu sync.Mutex
	var as *httptest.Server
	as = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.EscapedPath())
		mu.Unlock()
		if found == len(addresses) || r.URL.EscapedPath() != addresses[found] {
			http.NotFound(w, r)
			return
		}
		issuer := as.URL + path + describes
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "authorization_endpoint": as.URL + "/authorize",
			"token_endpoint": as.URL + "/token", "code_challenge_methods_supported": []string{"S256"}})
	}))
	defer as.Close()
	a := newServer(t)
	a.SetIssuers(as.URL + path)
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	spec.OAuth.ClientID = "me"
	err = spec.authorize(t.Context(), func(Login) error { return errEnough })
	mu.Lock()
	defer mu.Unlock()
	return asked, err
}

// TestMixUp has a server whose authorization server belongs to an attacker and names the
// login page of an honest one (RFC 9207, 1). The attacker must not get the code if the
// honest one sends its issuer, and the user is told in any case.
func TestMixUp(t *testing.T) {
	honest := newServer(t)
	honest.Clients["shared"] = "" // the attacker knows a client of the honest server
	attacker := oauthtest.NewAttacker(t)
	attacker.LoginPage = honest.Issuer.URL + "/authorize"
	a := newServer(t)
	a.SetIssuers(attacker.URL)
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	spec.OAuth.ClientID = "shared"
	var shown Login
	err := spec.authorize(t.Context(), func(l Login) error { shown = l; return oauthtest.Consent(t, l.URL) })
	if err == nil || !strings.Contains(err.Error(), `from the issuer "`+honest.Issuer.URL+`", not "`+attacker.URL+`"`) {
		t.Errorf("got %v", err)
	}
	if honest.AuthCount != 1 {
		t.Errorf("the user logged in %d times", honest.AuthCount)
	}
	if !shown.Elsewhere || shown.Issuer != attacker.URL || !strings.HasPrefix(shown.URL, honest.Issuer.URL) {
		t.Errorf("shown: %+v", shown)
	}
	attacker.MustHaveNoSecrets(t)
	if all, err := (tokenFile{spec.OAuth.TokenFile}).read(); err != nil || len(all.Upstreams) != 0 {
		t.Errorf("stored: %v, %v", all, err)
	}

	spec.OAuth.Issuer = attacker.URL // the operator knows that it is right
	_ = spec.authorize(t.Context(), func(l Login) error { shown = l; return errEnough })
	if shown.Elsewhere {
		t.Errorf("shown with a configured issuer: %+v", shown)
	}
}
