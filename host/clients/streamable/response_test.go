package streamable

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
)

// TestResponseIsBounded checks that the messages of a response do not wait without a bound for a
// client that does not read, but that a single message always fits.
func TestResponseIsBounded(t *testing.T) {
	t.Parallel()
	out := newResponse(httptest.NewRecorder(), envelope.Envelope{}, 100, nil)
	push := func(size int) {
		if err := out.Push(rpc.Frame{Data: bytes.Repeat([]byte("x"), size)}); err != nil {
			t.Fatal(err)
		}
	}
	push(1000)
	push(100)
	if messages, _, err := out.next(); err != nil || len(messages) != 2 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	for range 5 {
		push(60)
	}
	if messages, _, err := out.next(); err != errOverflow || len(messages) > 3 {
		t.Errorf("%d messages, %v", len(messages), err)
	}
}

// TestIdlePrincipals checks that an idle principal ends, but not while a call waits for an answer.
func TestIdlePrincipals(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{SessionTTL: instant, Access: Access{Tokens: tokens("a", "b")}})
	a, b := w.client(), w.client()
	a.token, b.token = "a", "b"
	state := a.ask("1")
	waiting := w.session()
	b.answers(b.modern(modern("1", "tools/call", `"name":"count"`)), 200, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":$S}}`)
	other := w.session()
	if ended := <-w.backend.Ended; ended != other {
		t.Fatal("the principal with the parked call ended")
	}
	a.answers(a.modern(retry("2", state, "[]")), 200, `{"jsonrpc":"2.0","id":2,"result":{"answer":{"roots":[]},"resultType":"complete","_meta":$S}}`)
	if ended := <-w.backend.Ended; ended != waiting {
		t.Error("another principal ended")
	}
}

// TestCORSOfArgumentHeaders checks that the script of an allowed page may send the headers
// for arguments of tools.
func TestCORSOfArgumentHeaders(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{Access: Access{AllowedOrigins: []string{"https://page"}}})
	res := w.client().do(t.Context(), "OPTIONS", "", "Origin", "https://page",
		"Access-Control-Request-Headers", "content-type, mcp-method, mcp-param-region, x-other, mcp-param-a b")
	want := "Accept, Authorization, Content-Type, Last-Event-Id, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Mcp-Param-Region"
	if got := res.Header.Get("Access-Control-Allow-Headers"); got != want {
		t.Errorf("allowed headers %q", got)
	}
}

// TestRequestsOfAddress checks that no address can take all requests of a principal.
func TestRequestsOfAddress(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{})
	far, local := clientAddress("192.0.2.1:1"), clientAddress("127.0.0.1:1")
	enter := func(address netip.Prefix) error {
		p, err := w.http.principalOf(bearer.Digest{}, address)
		if err == nil {
			t.Cleanup(func() { w.http.leavePrincipal(p, address) })
		}
		return err
	}
	for i := range maxRequests / 2 {
		if err := enter(far); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	var over *quotaError
	if err := enter(far); !errors.As(err, &over) {
		t.Errorf("one more: %v", err)
	}
	if err := enter(local); err != nil {
		t.Errorf("another address: %v", err)
	}
}
