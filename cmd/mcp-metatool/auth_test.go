package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// accessToken is the token that loginServer issues.
const accessToken = "access-token-0123456789"

// loginServer is an MCP server that requires OAuth, with its authorization server (RFC
// 9728, RFC 8414, RFC 7591, RFC 7636).
type loginServer struct {
	*httptest.Server
	t         *testing.T
	challenge string // of PKCE
	redirect  string
}

const (
	registeredClient = "registered-client"
	givenCode        = "given-code"
)

func newLoginServer(t *testing.T) *loginServer {
	s := &loginServer{t: t}
	peer := mcptest.NewServer(mcptest.ServerOptions{})
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() { s.Close(); peer.Close() })
	mcp := peer.HTTP()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+accessToken {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mcp.ServeHTTP(w, r)
	})
	answer := func(path string, v func() map[string]any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasPrefix(path, "POST /register") {
				w.WriteHeader(http.StatusCreated)
			}
			_ = json.NewEncoder(w).Encode(v()) // the client is gone
		})
	}
	answer("/.well-known/oauth-protected-resource/mcp", func() map[string]any {
		return map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}}
	})
	answer("/.well-known/oauth-authorization-server", func() map[string]any {
		return map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"registration_endpoint": s.URL + "/register", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		}
	})
	answer("POST /register", func() map[string]any {
		return map[string]any{"client_id": registeredClient, "token_endpoint_auth_method": "none"}
	})
	mux.HandleFunc("/authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	return s
}

// authorize is the page where the user would agree.
func (s *loginServer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.challenge, s.redirect = q.Get("code_challenge"), q.Get("redirect_uri")
	if q.Get("client_id") != registeredClient || q.Get("scope") != "read" {
		s.t.Errorf("authorize: %v", q)
	}
	back := url.Values{"code": {givenCode}, "state": {q.Get("state")}}
	http.Redirect(w, r, s.redirect+"?"+back.Encode(), http.StatusFound)
}

func (s *loginServer) token(w http.ResponseWriter, r *http.Request) {
	verifier := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if r.FormValue("code") != givenCode || r.FormValue("redirect_uri") != s.redirect ||
		base64.RawURLEncoding.EncodeToString(verifier[:]) != s.challenge {
		s.t.Errorf("token: %v", r.Form)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"access_token":"`+accessToken+`","token_type":"Bearer","expires_in":3600}`)
}

// TestAuth logs in to a server and uses the login.
func TestAuth(t *testing.T) {
	startsProgram(t)
	server := newLoginServer(t)
	dir := t.TempDir()
	config := "[upstream.wiki]\nurl = \"" + server.URL + "/mcp\"\noauth = { scopes = [\"read\"] }\n"
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Deadline(time.Minute))
	defer cancel()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "mcp-metatool", args...)
		cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+dir)
		return cmd
	}

	out, err := command("servers").Output()
	if err == nil || !strings.Contains(string(out), "mcp-metatool auth wiki") {
		t.Errorf("before the login: %v\n%s", err, out)
	}

	cmd := command("auth", "wiki", "--no-browser")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	prompt, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(prompt); lines.Scan(); {
		said += lines.Text() + "\n"
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http") {
			browse(t, address)
		}
	}
	if !strings.Contains(said, "The login asks for the scopes: read\n") || strings.Contains(said, "Log in only if") {
		t.Errorf("said: %s", said)
	}
	if err := cmd.Wait(); err != nil || stdout.String() != "logged in to wiki\n" {
		t.Fatalf("auth: %v\n%s%s", err, said, stdout.String())
	}

	info, err := os.Stat(filepath.Join(dir, "oauth", "tokens.json"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("file of tokens: %v, %v", info, err)
	}
	out, err = command("servers").Output()
	if err != nil || !strings.Contains(string(out), "ready") || strings.Contains(string(out), accessToken) {
		t.Errorf("after the login: %v\n%s", err, out)
	}
}

// browse does what a browser would do.
func browse(t *testing.T, address string) {
	response, err := http.Get(address)
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	if page, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the browser got %s %s, %v", response.Status, page, err)
	}
}
