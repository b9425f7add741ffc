package host

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// TestDrain serves HTTP as a replica whose store comes late, goes away, and comes back, and
// which drains and ends.
func TestDrain(t *testing.T) {
	t.Parallel()
	place := fleettest.New(t, *long)
	place.Cut(true)
	cfg := testConfig(t)
	cfg.Store.NATS, cfg.Store.Prefix, cfg.Store.Replicas, cfg.Store.PeerListen = []string{place.URL()}, "test", 1, "127.0.0.1:0"
	cfg.Store.Keys = []sealed.Key{{ID: "a"}}
	cfg.HTTP = config.HTTP{Path: config.DefaultPath}
	h, log := startHostFor(t, cfg, ManyClients)
	h.drain.settle = 0
	address := serveHTTP(t, h)
	// probe returns the status and the body of a page, and whether the connection is closed.
	probe := func(path string) (int, string, bool) {
		t.Helper()
		r, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body), r.Close
	}
	ready := func(status int, body string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			got, text, _ := probe(readyPath)
			if got == status && strings.Contains(text, body) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %d %s; want %d %s\n%s", readyPath, got, text, status, body, log)
			}
		}
		if got, text, _ := probe(livePath); got != http.StatusOK || text != "ok\n" {
			t.Fatalf("%s: %d %s", livePath, got, text)
		}
	}
	ready(http.StatusServiceUnavailable, "the store of the fleet has not answered yet")
	place.Cut(false)
	ready(http.StatusOK, "ok")
	place.Cut(true)
	for end := time.Now().Add(time.Minute); h.fleet.Away() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody notices that the store is away")
		}
	}
	ready(http.StatusOK, "ok")
	if !h.Drain(true) {
		t.Fatal("it is in no fleet")
	}
	ready(http.StatusServiceUnavailable, "this replica drains")
	if _, _, closed := probe(livePath); !closed {
		t.Error("a replica that drains keeps connections")
	}
	select {
	case <-h.Drained():
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	r, err := http.Post("http://"+address+config.DefaultPath, "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if h.drain.refuses() == nil || h.Busy() != 0 {
		t.Errorf("it takes sessions; %d requests", h.Busy())
	}
}
