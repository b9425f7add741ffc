package origin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func request(local, host string, origins ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	addr, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		panic(err)
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
	r.Host = host
	r.Header["Origin"] = origins
	return r
}

func TestHosts(t *testing.T) {
	rules := NewRules(nil, []string{"Mcp.Example.com", "other.example:81"})
	for host, want := range map[string]bool{
		"127.0.0.1:80": true, "localhost": true, "[::1]:80": true, "mcp.example.com:99": true, "other.example:81": true,
		"other.example:82": false, "evil.example": false, "127.0.0.1.evil.example": false, "10.0.0.1": false, "10.0.0.2": true, "": false,
	} {
		if got := rules.AllowsHost(request("10.0.0.2:80", host)); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
	if !NewRules(nil, []string{"*"}).AllowsHost(request("10.0.0.2:80", "any.example")) {
		t.Error("* does not allow all")
	}
}

func TestOrigins(t *testing.T) {
	rules := NewRules([]string{"https://App.example/"}, nil)
	for _, tt := range []struct {
		origins        []string
		ok, configured bool
	}{
		{nil, true, false},
		{[]string{"http://127.0.0.1:8080"}, true, false},
		{[]string{"http://LOCALHOST:8080"}, true, false},
		{[]string{"https://app.example"}, true, true},
		{[]string{"http://127.0.0.1:8081"}, false, false},
		{[]string{"https://127.0.0.1:8080"}, false, false},
		{[]string{"http://evil.example"}, false, false},
		{[]string{"null"}, false, false},
		{[]string{""}, false, false},
		{[]string{"http://127.0.0.1:8080", "http://127.0.0.1:8080"}, false, false},
	} {
		ok, configured := rules.AllowsOrigin(request("127.0.0.1:8080", "127.0.0.1:8080", tt.origins...))
		if ok != tt.ok || configured != tt.configured {
			t.Errorf("%q: %t, %t", tt.origins, ok, configured)
		}
	}
}
