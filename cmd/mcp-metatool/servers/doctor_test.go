package servers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestLines checks that the lines of a stack trace keep their indentation, and that long
// ones are broken.
func TestLines(t *testing.T) {
	const trace = "failed:\n  File a\n\tat b\none two three"
	for n, want := range map[int]string{0: trace, 9: "failed:\n  File a\nat b\none two\nthree"} {
		if got := strings.Join(lines(trace, n), "\n"); got != want {
			t.Errorf("%d columns: %q, want %q", n, got, want)
		}
	}
}

// TestClockOf checks that the clock of a server is read from its answer, whatever that is,
// and that it does not get the path of the address.
func TestClockOf(t *testing.T) {
	date := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || r.URL.RawQuery != "" {
			t.Errorf("the server got %s", r.URL)
		}
		w.Header().Set("Date", date)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	ahead, ok := clockOf(t.Context(), server.URL+"/secret?key=secret")
	if !ok || (ahead-time.Hour).Abs() > time.Minute {
		t.Errorf("%v, %v", ahead, ok)
	}
	date = "no date"
	if _, ok := clockOf(t.Context(), server.URL); ok {
		t.Error("it has no date")
	}
	server.Close()
	if _, ok := clockOf(t.Context(), server.URL); ok {
		t.Error("there is no server")
	}
}
