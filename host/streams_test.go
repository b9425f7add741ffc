package host

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// readiness waits until /readyz answers with a status, and returns what it says.
func (p taskProcess) readiness(status int) string {
	p.t.Helper()
	address := strings.TrimSuffix(p.url, "/mcp") + readyPath
	for end := time.Now().Add(maxWait); ; time.Sleep(testenv.Quiet(20 * time.Millisecond)) {
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			p.t.Fatal(err)
		}
		if answer.StatusCode == status {
			return string(text)
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: %d %s, want %d", readyPath, answer.StatusCode, text, status)
		}
	}
}

// TestLostStreams loses what a fleet has in its store. A replica that had it is not ready, says why,
// and makes nothing again, nor does one that is started in its folder. When a process has made it again,
// they go on.
func TestLostStreams(t *testing.T) {
	t.Parallel()
	place := fleettest.New(t, *long)
	a := replicaWithServer(t, place.URL())
	a.readiness(http.StatusOK)
	place.Lose(t)
	if says := a.readiness(http.StatusServiceUnavailable); !strings.Contains(says, "mcp-metatool fleet init") || strings.Contains(says, "nats://") {
		t.Error(says)
	}
	if p := a.host.problems(nil)(); len(p) != 1 || !strings.Contains(p[0], "mcp-metatool fleet init") {
		t.Errorf("health_check says %q", p)
	}
	quiet := slog.New(slog.DiscardHandler)
	if _, err := openStreams(t.Context(), a.host.config(), jetstream.Options{Make: jetstream.MakeNew, Log: quiet}); !errors.Is(err, store.ErrMissing) {
		t.Errorf("a replica that is started in the same folder: %v", err)
	}
	a.readiness(http.StatusServiceUnavailable)
	made, err := InitFleet(t.Context(), a.host.config(), quiet)
	if err != nil || len(made) != 4 {
		t.Fatalf("made %v: %v", made, err)
	}
	a.readiness(http.StatusOK)
	if p := a.host.problems(nil)(); p != nil {
		t.Errorf("health_check says %q", p)
	}
	a.beginSession("one-token", "client")
}
