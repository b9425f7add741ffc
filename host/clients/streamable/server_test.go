package streamable

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
)

// certificate writes a certificate for 127.0.0.1 and the certificate's key to files.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return certFile, keyFile, roots
}

// TestTLS runs sessions over TLS and HTTP/2.
func TestTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t)
	pair, err := KeyPair(t.Context(), certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	b := clienttest.New()
	h := New(t.Context(), Options{Session: options(b)})
	srv := NewServer(h, ServerOptions{Log: silent})
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- srv.ServeTLS(listener, "", "") }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	w := &server{t: t, backend: b, http: h, url: "https://" + listener.Addr().String()}
	g := w.client()
	g.http = &http.Client{Transport: transport}
	g.initialize("2025-11-25")
	get := g.stream("GET", "")
	e := g.stream("POST", callOf(1, "count", "{}"))
	e.want(progressOf(1, 1), progressOf(1, 2), pong)
	e.end()
	if res := g.post(ping); res.ProtoMajor != 2 {
		t.Errorf("spoke %s", res.Proto)
	}
	for origin, want := range map[string]int{w.url: 200, strings.Replace(w.url, "https", "http", 1): 403} {
		if res := g.post(ping, "Origin", origin); res.StatusCode != want {
			t.Errorf("page of %s: %s", origin, res.Status)
		}
	}
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
	get.end()
	if err := srv.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	transport.CloseIdleConnections()
}

func TestKeyPairOfMissingFiles(t *testing.T) {
	t.Parallel()
	certFile, keyFile, _ := certificate(t)
	for missing, files := range map[string][2]string{
		"no-cert.pem": {"no-cert.pem", keyFile}, "no-key.pem": {certFile, "no-key.pem"},
	} {
		_, err := KeyPair(t.Context(), files[0], files[1])
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// TestRepeatedHeaders sends requests with two values of a header that handlers act on.
func TestRepeatedHeaders(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	g := w.join("2025-11-25")
	for _, name := range append(slices.Clone(singleHeaders), envelope.HeaderParam+"Region") {
		for _, values := range [][]string{{"a", "b"}, {"a", "a"}, {"", "a"}} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", w.url, strings.NewReader(ping))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, sessionHeader: {g.id}}
			r.Header[name] = values
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, res); res.StatusCode != http.StatusBadRequest || !strings.Contains(got, name) {
				t.Errorf("%s: %q: %s %s", name, values, res.Status, got)
			}
		}
	}
}

// readsHeader matches the reading of a request's header, and headerConstant a constant with the
// name of a header.
var (
	readsHeader    = regexp.MustCompile(`(?:\br\.Header|\bh)(?:\.Get\(|\.Values\(|\[)(?:\w+\.)?("?[\w-]+"?)[\])]( = )?`)
	headerConstant = regexp.MustCompile(`(\w+) += "([A-Z][\w-]+)"`)
)

// TestSingleHeaders checks that each header that handlers read may have a single value, or a list
// (RFC 9110, section 5.6.1).
func TestSingleHeaders(t *testing.T) {
	t.Parallel()
	lists := []string{"Accept", "Access-Control-Request-Headers"}
	names, read := map[string]string{}, map[string]string{}
	for _, folder := range []string{".", "../origin", "../stateless", "../bearer", "../../mcp/envelope", "../../telemetry", "../../ui"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range headerConstant.FindAllSubmatch(source, -1) {
				names[string(m[1])] = string(m[2])
			}
			for _, m := range readsHeader.FindAllSubmatch(source, -1) {
				if m[2] == nil { // otherwise the header is set in an answer
					read[string(m[1])] = file
				}
			}
		}
	}
	found := 0
	for name, file := range read {
		header, ok := names[name]
		if text, err := strconv.Unquote(name); err == nil {
			header, ok = text, true
		}
		switch {
		case ok && slices.Contains(singleHeaders, header):
			found++
		case name == "header" && file == "../../mcp/envelope/header.go": // the headers with the prefix HeaderParam
		case !ok || !slices.Contains(lists, header):
			t.Errorf("%s reads the header %s, which is not in singleHeaders", file, name)
		}
	}
	if found < len(singleHeaders)-1 {
		t.Errorf("found where %d of %d headers are read", found, len(singleHeaders))
	}
}
