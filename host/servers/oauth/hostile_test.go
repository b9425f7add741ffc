package oauth

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

// TestHostileTokens checks that a token of another type than Bearer, and one that does not
// fit into a header field, is neither used nor stored.
func TestHostileTokens(t *testing.T) {
	for answer, want := range map[string]string{
		`{"access_token":"x","token_type":"DPoP"}`:                    `a token of type "DPoP"`,
		`{"access_token":"x","token_type":"mac"}`:                     `a token of type "mac"`,
		`{"access_token":"x\r\nX-Evil: 1","token_type":"Bearer"}`:     "other than visible ASCII",
		`{"access_token":"x y"}`:                                      "other than visible ASCII",
		`{"access_token":"ä"}`:                                        "other than visible ASCII",
		`{"access_token":""}`:                                         "without an access token",
		`{"access_token":1}`:                                          "not the expected JSON",
		`{"token_type":"Bearer\u001b[2J"}`:                            "without an access token",
		`[]`:                                                          "not the expected JSON",
		`{"error":"invalid_grant","access_token":"x"}`:                "invalid_grant",
		`{"access_token":"x","refresh_token":["x"]}`:                  "not the expected JSON",
		`{"access_token":"` + strings.Repeat("x", maxDocument) + `"}`: errTooLong.Error(),
	} {
		a := newServer(t)
		a.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/token" {
				return false
			}
			_, _ = io.WriteString(w, answer)
			return true
		}
		spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
		err := spec.authorize(t.Context(), browse(t))
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\x1b\r\n") || len(err.Error()) > 2000 {
			t.Errorf("%.80s: %.500v", answer, err)
		}
		if all, err := (tokenFile{spec.OAuth.TokenFile}).read(); err != nil || len(all.Upstreams) != 0 {
			t.Errorf("%.80s: stored %v, %v", answer, all, err)
		}
	}
}

// TestHostileMetadata checks metadata that is malformed, compressed to almost nothing, or
// nested deeply.
func TestHostileMetadata(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter, issuer string){
		"an issuer that is a list": func(w http.ResponseWriter, issuer string) {
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": []string{issuer}})
		},
		"a word":    func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, `"x"`) },
		"a page":    func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, `<html>`) },
		"nothing":   func(http.ResponseWriter, string) {},
		"null":      func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, `null`) },
		"nested":    func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, strings.Repeat("[", maxDocument-1)) },
		"much text": func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, strings.Repeat(" ", maxDocument+1)) },
		"a gigabyte, compressed": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			block := make([]byte, 1<<20)
			for range 1 << 10 {
				if _, err := z.Write(block); err != nil {
					return // the client does not read on
				}
			}
			_ = z.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newServer(t)
			a.Intercept = func(w http.ResponseWriter, _ *http.Request) bool { write(w, a.Issuer.URL); return true }
			spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
			opened := false
			err := spec.authorize(t.Context(), func(Login) error { opened = true; return nil })
			if err == nil || opened || len(err.Error()) > 2000 {
				t.Errorf("opened: %t, %.500v", opened, err)
			}
		})
	}
}

// TestDowngrades checks that a redirect of metadata to plain HTTP, to another host or to
// another port is not followed.
func TestDowngrades(t *testing.T) {
	for name, to := range map[string]func(issuer string) string{
		"plain HTTP":       func(issuer string) string { return strings.Replace(issuer, "https:", "http:", 1) },
		"another host":     func(issuer string) string { return strings.Replace(issuer, "as.", "other.", 1) },
		"another port":     func(string) string { return "https://as.example.com:1" },
		"another protocol": func(string) string { return "file:///etc/passwd#" },
		"this machine":     func(string) string { return "http://127.0.0.1:1" },
	} {
		n := newTestNetwork(t)
		issuer := ""
		spec := n.upstream(reachPublic, &issuer)
		followed := false
		issuer = n.serve("as.example.com", reachPublic, func(w http.ResponseWriter, r *http.Request) {
			if r.Host != strings.TrimPrefix(issuer, "https://") || strings.HasSuffix(r.URL.Path, "/followed") {
				followed = true
			}
			http.Redirect(w, r, to(issuer)+"/followed", http.StatusFound)
		})
		err := spec.authorize(t.Context(), redirectBack)
		if err == nil || followed || !strings.Contains(err.Error(), "has no metadata") {
			t.Errorf("%s: followed: %t, %v", name, followed, err)
		}
	}
}

// TestMetadataElsewhere checks that a challenge cannot make us read the metadata of a
// server at another origin.
func TestMetadataElsewhere(t *testing.T) {
	attacker := oauthtest.NewAttacker(t)
	a := newServer(t)
	a.Scope = `, resource_metadata="` + attacker.URL + `/metadata"` // the last one counts
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	spec.OAuth.ClientID = "me"
	var shown Login
	if err := spec.authorize(t.Context(), func(l Login) error { shown = l; return errEnough }); err == nil || strings.Contains(shown.URL, attacker.URL) {
		t.Errorf("shown %+v, %v", shown, err)
	}
	attacker.MustHaveNoRequests(t)
}
