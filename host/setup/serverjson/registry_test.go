package serverjson

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRegistry(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/v0.1/servers/io.github.a%2Fweather/versions/latest":
			_, _ = w.Write([]byte(`{"server": ` + pkg("npm", "a", "") + `, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deprecated", "statusMessage": "old"}}}`))
		case "/v0.1/servers/io.github.a%2Fother/versions/1.0":
			_, _ = w.Write([]byte(pkg("npm", "a", "")))
		case "/v0.1/servers":
			if r.URL.Query().Get("search") == "weather" && r.URL.Query().Get("version") == "latest" {
				_, _ = w.Write([]byte(`{"servers": [{"server": {"name": "b/weather"}}, {"server": {"name": "\u001b"}}, {"server": {"name": "a/weather"}}], "metadata": {}}`))
			}
		case "/v0.1/servers/a%2Flarge/versions/latest":
			_, _ = w.Write([]byte(strings.Repeat(" ", MaxSize+1)))
		case "/v0.1/servers/a%2Fhtml/versions/latest":
			_, _ = w.Write([]byte("<html>"))
		case "/v0.1/servers/a%2Faway/versions/latest":
			http.Redirect(w, r, "http://example.com/x", http.StatusFound)
		case "/v0.1/servers/a%2Floop/versions/latest":
			http.Redirect(w, r, r.URL.EscapedPath(), http.StatusFound)
		case "/v0.1/servers/a%2Fbroken/versions/latest":
			w.WriteHeader(http.StatusBadGateway)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	r := Registry{server.URL + "/"}
	d, err := r.Get(t.Context(), "io.github.a/weather", "")
	if err != nil || d.Name != "io.github.a/weather" || d.Status != "deprecated" || d.StatusMessage != "old" {
		t.Errorf("%+v, %v", d, err)
	}
	if names, err := r.Search(t.Context(), "weather"); err != nil || !reflect.DeepEqual(names, []string{"a/weather", "b/weather"}) {
		t.Errorf("%q, %v", names, err)
	}
	for name, says := range map[string]string{
		"a/none": "not found", "a/large": "larger", "a/html": "not JSON", "a/away": "only https", "a/loop": "too often", "a/broken": "502",
	} {
		_, err := r.Get(t.Context(), name, "")
		if at := new(FetchError); !errors.As(err, &at) || !strings.Contains(err.Error(), says) || errors.Is(err, ErrNotFound) != (name == "a/none") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Get(t.Context(), "io.github.a/other", "1.0"); err == nil || !strings.Contains(err.Error(), "was asked for") {
		t.Error(err)
	}
	for _, address := range []string{"http://example.com", "ftp://localhost/x", "file:///etc/passwd", "", "https://", ":"} {
		if _, err := Fetch(t.Context(), address); err == nil {
			t.Errorf("%s is fetched", address)
		}
	}
}
