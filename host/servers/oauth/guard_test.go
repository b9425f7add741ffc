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

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// testNetwork is a network in which all names resolve to this machine. The reach of an
// address depends on its port.
type testNetwork struct {
	t     *testing.T
	roots *x509.CertPool

	queries sync.WaitGroup

	mu    sync.Mutex
	ports map[uint16]reach
}

func newTestNetwork(t *testing.T) *testNetwork {
	n := &testNetwork{t: t, roots: x509.NewCertPool(), ports: map[uint16]reach{}}
	t.Cleanup(n.queries.Wait)
	return n
}

func (n *testNetwork) network() *network {
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

// serveName answers one DNS query (RFC 1035) over a stream: with 127.0.0.1 for A, and
// with no record for other types.
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
	end := 12 // the name follows the header
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

// serve starts a server with a name and a reach.
func (n *testNetwork) serve(name string, r reach, h http.HandlerFunc) (origin string) {
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
func (n *testNetwork) upstream(r reach, issuer *string) spec {
	var origin string
	origin = n.serve("mcp.example.com", r, func(w http.ResponseWriter, r *http.Request) {
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

// issuer starts an authorization server. tokens is its token endpoint; nil: its own.
func (n *testNetwork) issuer(name string, r reach, tokens *string) (issuer string) {
	issuer = n.serve(name, r, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"access_token":"good"}`)
			return
		}
		at := issuer + "/token"
		if tokens != nil {
			at = *tokens
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": at,
			"code_challenge_methods_supported": []string{"S256"}})
	})
	return issuer
}

// redirectBack does what a browser does after its user has consented. It does not
// contact the authorization server.
func redirectBack(login Login) error {
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

// TestAddressesNamedByServers checks which addresses a server may name, depending on its own.
// All names resolve to 127.0.0.1, so that only the check when a connection is made can
// refuse them.
func TestAddressesNamedByServers(t *testing.T) {
	kinds := []reach{reachPublic, reachPrivate, reachLinkLocal, reachLoopback}
	for _, own := range []reach{reachPublic, reachPrivate, reachLinkLocal} {
		for _, other := range kinds {
			for _, what := range []string{"issuer", "token endpoint"} {
				t.Run(fmt.Sprintf("%s names a %s %s", own, other, what), func(t *testing.T) {
					n := newTestNetwork(t)
					asked := false
					inside := n.serve("inside.example.com", other, func(w http.ResponseWriter, _ *http.Request) {
						asked = true
						_, _ = io.WriteString(w, `{"access_token":"good"}`)
					})
					at := inside + "/token"
					issuer := ""
					spec := n.upstream(own, &issuer)
					if what == "issuer" {
						issuer = n.issuer("as.example.com", other, nil)
					} else {
						issuer = n.issuer("as.example.com", reachPublic, &at)
					}
					err := spec.authorize(t.Context(), redirectBack)
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

// TestLiteralAddresses checks that URLs with a literal address are refused
// before a request is sent, and before a browser is opened for one.
func TestLiteralAddresses(t *testing.T) {
	for _, issuer := range []string{
		"https://127.0.0.1:1", "https://[::1]:1", "https://localhost:1", "https://a.LocalHost.:1", "https://10.0.0.1", "https://169.254.169.254",
		"https://[::ffff:10.0.0.1]", "https://127.1", "https://0x7f000001", "https://2130706433/", "https://0.0.0.0:1",
		"http://as.example.com", "http://127.0.0.1:1", "ftp://as.example.com", "https://", "https:///x", "", "as.example.com", "https://u:p@as.example.com",
		"https://as.example.com?x", "https://as.example.com#x", "//as.example.com", "https://as.example.com:x",
	} {
		n := newTestNetwork(t)
		spec := n.upstream(reachPublic, &issuer)
		err := spec.authorize(t.Context(), redirectBack)
		if err == nil || strings.Contains(err.Error(), "dial") {
			t.Errorf("%s: %v", issuer, err)
		}
	}
	n := newTestNetwork(t)
	issuer := ""
	spec := n.upstream(reachPublic, &issuer)
	issuer = n.serve("as.example.com", reachPublic, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "authorization_endpoint": "https://192.168.1.1/apply", "token_endpoint": issuer})
	})
	opened := false
	err := spec.authorize(t.Context(), func(Login) error { opened = true; return nil })
	if err == nil || opened || !strings.Contains(err.Error(), "authorization_endpoint") {
		t.Errorf("opened: %t, %v", opened, err)
	}
}

// TestConfiguredIssuerMayBePrivate checks that a configured issuer may have an address
// that a server may not name, and that the endpoints that it names may not.
func TestConfiguredIssuerMayBePrivate(t *testing.T) {
	n := newTestNetwork(t)
	issuer := ""
	spec := n.upstream(reachPublic, &issuer)
	issuer = n.issuer("as.example.com", reachPrivate, nil)
	spec.OAuth.Issuer = issuer
	if err := spec.authorize(t.Context(), redirectBack); err != nil {
		t.Error(err)
	}
	at := n.serve("inside.example.com", reachPrivate, func(http.ResponseWriter, *http.Request) { t.Error("asked") }) + "/token"
	issuer = n.issuer("as.example.com", reachPrivate, &at)
	spec.OAuth.Issuer = issuer
	if err := spec.authorize(t.Context(), redirectBack); err == nil || !strings.Contains(err.Error(), "it is a private address") {
		t.Errorf("got %v", err)
	}
}

// TestAddressThatChanges checks that a server does not count as one on this
// machine because its name resolves to it for a moment, and that a server that was
// public stays public.
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
