package oauth

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
)

// town is a network in which every name is of this machine, and ports say how
// public an address counts as.
type town struct {
	t     *testing.T
	roots *x509.CertPool

	queries sync.WaitGroup

	mu    sync.Mutex
	ports map[uint16]reach
}

func newTown(t *testing.T) *town {
	n := &town{t: t, roots: x509.NewCertPool(), ports: map[uint16]reach{}}
	t.Cleanup(n.queries.Wait)
	return n
}

func (n *town) network() *network {
	return &network{
		resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			n.queries.Go(func() { serveName(theirs) })
			return ours, nil
		}},
		roots: n.roots,
		reach: func(a netip.AddrPort) reach {
			n.mu.Lock()
			defer n.mu.Unlock()
			if r, ok := n.ports[a.Port()]; ok {
				return r
			}
			return reachOf(a.Addr())
		},
		proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
}

// serveName answers one DNS query (RFC 1035) over a stream: 127.0.0.1 for A,
// nothing for the rest.
func serveName(conn net.Conn) {
	defer conn.Close()
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return
	}
	end := 12 // behind the header is the name
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // its end, type and class
	isA := binary.BigEndian.Uint16(query[end-4:]) == 1
	answer := append([]byte{}, query[:end]...)
	copy(answer[2:12], []byte{0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	if isA {
		answer[7] = 1
		answer = append(answer, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
}

// house starts a server with a name, whose port counts as r.
func (n *town) house(name string, r reach, h http.HandlerFunc) (origin string) {
	s := httptest.NewTLSServer(h)
	n.t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	n.roots.AddCert(s.Certificate())
	port := s.Listener.Addr().(*net.TCPAddr).Port
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[uint16(port)] = r
	return fmt.Sprintf("https://%s:%d", name, port)
}

// upstream starts an MCP server that names an authorization server.
func (n *town) upstream(r reach, issuer *string) spec {
	var origin string
	origin = n.house("mcp.example.com", r, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metadata" {
			_ = json.NewEncoder(w).Encode(map[string]any{"resource": origin + "/mcp", "authorization_servers": []string{*issuer}})
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+origin+`/metadata"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	return spec{httpclient.Config{Name: "web", URL: origin + "/mcp"}, &Config{
		ClientID: "me", TokenFile: filepath.Join(n.t.TempDir(), "tokens.json"), network: n.network(),
	}}
}

// office is an authorization server whose token endpoint may be elsewhere.
func (n *town) office(name string, r reach, tokens *string) (issuer string) {
	issuer = n.house(name, r, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"access_token":"good"}`)
			return
		}
		at := issuer + "/token"
		if tokens != nil {
			at = *tokens
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": at})
	})
	return issuer
}

// comeBack is a browser whose user agrees, without asking the authorization
// server.
func comeBack(login Login) error {
	u, err := url.Parse(login.URL)
	if err != nil {
		return err
	}
	back := url.Values{"code": {"code-given"}, "state": {u.Query().Get("state")}}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(u.Query().Get("redirect_uri") + "?" + back.Encode())
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// TestAddressesNamedByServers: who may have which addresses asked. All names resolve
// to 127.0.0.1, so that only the check at the time of the connection can tell.
func TestAddressesNamedByServers(t *testing.T) {
	kinds := []reach{reachPublic, reachPrivate, reachLinkLocal, reachLoopback}
	for _, own := range []reach{reachPublic, reachPrivate, reachLinkLocal} {
		for _, other := range kinds {
			for _, what := range []string{"issuer", "token endpoint"} {
				t.Run(fmt.Sprintf("%s names a %s %s", own, other, what), func(t *testing.T) {
					n := newTown(t)
					asked := false
					inside := n.house("inside.example.com", other, func(w http.ResponseWriter, _ *http.Request) {
						asked = true
						_, _ = io.WriteString(w, `{"access_token":"good"}`)
					})
					at := inside + "/token"
					issuer := ""
					spec := n.upstream(own, &issuer)
					if what == "issuer" {
						issuer = n.office("as.example.com", other, nil)
					} else {
						issuer = n.office("as.example.com", reachPublic, &at)
					}
					err := spec.authorize(t.Context(), comeBack)
					if may := own.mayName(other); may != (err == nil) {
						t.Fatalf("got %v", err)
					} else if !may && (asked || !strings.Contains(err.Error(), "it is a "+other.String()+" address")) {
						t.Errorf("asked: %t, %v", asked, err)
					}
				})
			}
		}
	}
}

// TestLiteralAddresses are refused before anybody is asked, also where a
// browser would go.
func TestLiteralAddresses(t *testing.T) {
	for _, issuer := range []string{
		"https://127.0.0.1:1", "https://[::1]:1", "https://localhost:1", "https://a.LocalHost.:1", "https://10.0.0.1", "https://169.254.169.254",
		"https://[::ffff:10.0.0.1]", "https://127.1", "https://0x7f000001", "https://2130706433/", "https://0.0.0.0:1",
		"http://as.example.com", "http://127.0.0.1:1", "ftp://as.example.com", "https://", "https:///x", "", "as.example.com", "https://u:p@as.example.com",
		"https://as.example.com?x", "https://as.example.com#x", "//as.example.com", "https://as.example.com:x",
	} {
		n := newTown(t)
		spec := n.upstream(reachPublic, &issuer)
		// What a refused issuer costs is nothing but a check.
		err := spec.authorize(t.Context(), comeBack)
		if err == nil || strings.Contains(err.Error(), "dial") {
			t.Errorf("%s: %v", issuer, err)
		}
	}
	n := newTown(t)
	issuer := ""
	spec := n.upstream(reachPublic, &issuer)
	issuer = n.house("as.example.com", reachPublic, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "authorization_endpoint": "https://192.168.1.1/apply", "token_endpoint": issuer})
	})
	opened := false
	err := spec.authorize(t.Context(), func(Login) error { opened = true; return nil })
	if err == nil || opened || !strings.Contains(err.Error(), "authorization_endpoint") {
		t.Errorf("opened: %t, %v", opened, err)
	}
}

// TestConfiguredIssuerMayBePrivate: the operator may name what a server may not.
// What the issuer names itself is held to the same rule as before.
func TestConfiguredIssuerMayBePrivate(t *testing.T) {
	n := newTown(t)
	issuer := ""
	spec := n.upstream(reachPublic, &issuer)
	issuer = n.office("as.example.com", reachPrivate, nil)
	spec.OAuth.Issuer = issuer
	if err := spec.authorize(t.Context(), comeBack); err != nil {
		t.Error(err)
	}
	at := n.house("inside.example.com", reachPrivate, func(http.ResponseWriter, *http.Request) { t.Error("asked") }) + "/token"
	issuer = n.office("as.example.com", reachPrivate, &at)
	spec.OAuth.Issuer = issuer
	if err := spec.authorize(t.Context(), comeBack); err == nil || !strings.Contains(err.Error(), "it is a private address") {
		t.Errorf("got %v", err)
	}
}

// TestAddressThatChanges: a name that resolves to this machine for a moment makes
// no server one of this machine, and one that was public stays so.
func TestAddressThatChanges(t *testing.T) {
	u, _ := url.Parse("https://mcp.example.com/mcp")
	g := newGuard(u, Config{})
	defer g.close()
	if g.own() != reachPublic {
		t.Errorf("before it was reached, it is %s", g.own())
	}
	for _, step := range []struct{ seen, want reach }{
		{reachLoopback, reachPrivate}, {reachLinkLocal, reachLinkLocal}, {reachPublic, reachPublic}, {reachLoopback, reachPublic},
	} {
		if g.saw(step.seen); g.own() != step.want {
			t.Errorf("at a %s address it is %s, want %s", step.seen, g.own(), step.want)
		}
	}
	var e *addressError
	if err := g.control(t.Context(), "tcp", "127.0.0.1:80", nil); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
}
