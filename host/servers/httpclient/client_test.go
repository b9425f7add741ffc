package httpclient

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// countingConn counts writes.
type countingConn struct {
	net.Conn
	writes *atomic.Int32
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestOneWritePerRequest checks that the headers and the body of a small request are
// written together.
func TestOneWritePerRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	c, err := New(Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var writes atomic.Int32
	dial := c.Transport().DialContext
	c.Transport().DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return countingConn{conn, &writes}, err
	}
	const calls = 3
	for range calls {
		resp, err := c.Do(t.Context(), http.MethodPost, []byte(`{"x":1}`), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != `{"x":1}` {
			t.Errorf("%s, %v", body, err)
		}
	}
	if n := writes.Load(); n != calls {
		t.Errorf("%d writes for %d requests", n, calls)
	}
}
