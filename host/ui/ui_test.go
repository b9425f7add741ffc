package ui

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/clients/origin"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

const (
	token  = "3TCQ3GEAMK3MOTDLFFFBXWHJQP"
	attack = `<img src=x onerror=alert(1)></script>`
	secret = "hunter2-hunter2-hunter2"
)

// proxy is a Proxy for tests.
type proxy struct {
	cfg     *config.Config
	checked string
	call    func(ctx context.Context, name string, arguments []byte, progress func([]byte)) (wire.Reply, error)
}

func (p *proxy) Config() *config.Config { return p.cfg }

func (p *proxy) Status(server string) (servers.Status, bool) {
	return servers.Status{Name: server, State: servers.Failed, ServerName: attack, Restarts: 3, Tools: 2,
		Err: `upstream "` + server + `": it said ` + secret + "\nlast line"}, server != "own"
}

func (p *proxy) CheckServer(_ context.Context, server string) ([]health.Report, error) {
	p.checked = server
	if server == "missing" {
		return nil, &health.UnknownError{Server: server}
	}
	return []health.Report{{Server: "files", State: servers.Ready, Check: health.OK, Latency: 1.5}}, nil
}

func (p *proxy) Inspect(context.Context, string, string) (abi.Lint, error) {
	call := func(server, tool string, line int) abi.NamedTool {
		return abi.NamedTool{Server: server, Tool: tool, Position: abi.Position{Line: line}}
	}
	return abi.Lint{Parses: true, Calls: []abi.NamedTool{
		call("files", "read", 4), call("files", "read", 2), call("files", "hidden", 5), call("gone", "x", 6), call("tools", "gone", 7),
	}, Warnings: []abi.Warning{{Position: abi.Position{Line: 9}, Message: "is odd"}}}, nil
}

func (p *proxy) CallTool(ctx context.Context, name string, arguments []byte, progress func([]byte)) (wire.Reply, error) {
	return p.call(ctx, name, arguments, progress)
}

// bench is a Handler with what it shows.
type bench struct {
	*httptest.Server
	t      *testing.T
	proxy  *proxy
	store  *tools.Store
	access *Access
	feed   *feed
	log    *journal.Log
	queue  *approval.Queue
}

func newBench(t *testing.T) *bench {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	b := &bench{t: t, proxy: &proxy{cfg: &config.Config{Secrets: []string{secret}, Upstreams: []config.Upstream{
		{Name: "files", Transport: config.Stdio, Command: "/opt/" + "bin/files", Args: []string{secret}},
		{Name: "own", Transport: config.StreamableHTTP, URL: "https://user:pw@wiki.example:8443/mcp?key=" + secret},
		{Name: "off", Disabled: true, Transport: config.Stdio, Command: "off"},
	}}}}
	all, none := func(string) bool { return true }, func(string) bool { return false }
	c := catalog.New([]catalog.Source{{Server: "files", Prefix: "files__", Exposes: func(tool string) bool { return tool != "quiet" }, Hides: func(tool string) bool { return tool == "hidden" }}, {Server: "own", Exposes: all, Hides: none}},
		quiet, func(*catalog.Scope, wire.Surface, []byte) {})
	c.SetUpstream("files", wire.Tools, [][]byte{
		[]byte(`{"name":"read","title":` + string(wire.Quote(attack)) + `,"description":` + string(wire.Quote(attack)) + `,"inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567890}}},"annotations":{"readOnlyHint":true}}`),
		[]byte(`{"name":"write","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}`),
		[]byte(`{"name":"long","title":"` + strings.Repeat("t", 5000) + `","description":"` + strings.Repeat("😀", 3<<20) + `","inputSchema":{"type":"object","title":"` + strings.Repeat("s", 2<<20) + `"}}`),
		[]byte(`{"name":"hidden","inputSchema":{"type":"object"}}`), []byte(`{"name":"quiet","inputSchema":{"type":"object"}}`),
	}, nil)
	c.SetBuiltins([]catalog.Entry{{Name: "save_tool", Saves: true, Definition: []byte(`{"name":"save_tool","inputSchema":{"type":"object"}}`)}})
	var err error
	if b.store, err = tools.OpenStore(t.TempDir(), tools.StoreOptions{Log: quiet}); err != nil {
		t.Fatal(err)
	}
	b.access = newAccess(token, time.Now)
	b.queue = approval.OpenQueue(t.TempDir(), quiet)
	b.log = journal.OpenLog(t.TempDir(), journal.LogOptions{})
	h := New(t.Context(), Options{
		Access: b.access, Version: "1.2.3", Proxy: b.proxy, Catalog: c, Store: b.store, Approvals: b.queue, Journal: b.log.Reader(), Log: quiet,
		Rules: func() origin.Rules { return origin.NewRules(nil, []string{"mcp.example.com"}) },
	})
	b.feed, b.Server = h.feed, httptest.NewServer(h)
	t.Cleanup(func() {
		b.Server.Close()
		h.Close()
		b.store.Close()
		b.log.Close()
		b.queue.Close()
	})
	return b
}

// ask makes a request with the token, unless headers say otherwise, and returns the status
// and the body.
func (b *bench) ask(method, path, body string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp, string(raw)
}

// get asks for JSON.
func (b *bench) get(path string, into any) {
	b.t.Helper()
	resp, body := b.ask(http.MethodGet, "/ui/api/"+path, "")
	if resp.StatusCode != http.StatusOK || json.Unmarshal([]byte(body), into) != nil {
		b.t.Fatalf("%s: %s %s", path, resp.Status, body)
	}
}

// TestAccess checks who gets an answer.
func TestAccess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := b.URL
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
	}{
		{"the token", "GET", "api/state", "", nil, 200},
		{"no token", "GET", "api/state", "", []string{"Authorization", ""}, 401},
		{"another token", "GET", "api/state", "", []string{"Authorization", "Bearer " + token[1:]}, 401},
		{"another scheme", "GET", "api/state", "", []string{"Authorization", "Basic " + token}, 401},
		{"a cookie is no token", "GET", "api/state", "", []string{"Authorization", "", "Cookie", "token=" + token}, 401},
		{"a query is no token", "GET", "api/state?token=" + token, "", []string{"Authorization", ""}, 401},
		{"own origin", "GET", "api/state", "", []string{"Origin", own}, 200},
		{"another origin", "GET", "api/state", "", []string{"Origin", "https://evil.example"}, 403},
		{"another port", "GET", "api/state", "", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"no origin", "GET", "api/state", "", []string{"Origin", "null"}, 403},
		{"a rebound name", "GET", "api/state", "", []string{"Host", "evil.example"}, 403},
		{"a rebound name asks for the page", "GET", "", "", []string{"Host", "evil.example"}, 403},
		{"an allowed name", "GET", "api/state", "", []string{"Host", "mcp.example.com"}, 200},
		{"another site", "GET", "api/state", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port, as browsers say it", "GET", "api/state", "", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"the page itself", "GET", "api/state", "", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"the page without a token", "GET", "", "", []string{"Authorization", ""}, 200},
		{"the page from a file of --open", "GET", "", "", []string{"Authorization", "", "Sec-Fetch-Site", "cross-site"}, 200},
		{"a script", "GET", "main.js", "", []string{"Authorization", ""}, 200},
		{"no file", "GET", "nothing.js", "", nil, 404},
		{"a folder", "GET", "page/main.js", "", nil, 404},
		{"a file outside", "GET", "..%2fui.go", "", nil, 404},
		{"a changed page", "POST", "main.js", "{}", nil, 405},
		{"nothing there", "GET", "api/nothing", "", nil, 404},
		{"another method", "DELETE", "api/state", "", nil, 404},
		{"a form", "POST", "api/call", "name=x", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"text", "POST", "api/call", "{}", []string{"Content-Type", "text/plain"}, 415},
		{"no JSON", "POST", "api/call", "x", nil, 400},
		{"too much", "POST", "api/check", `{"x":"` + strings.Repeat("x", maxBody) + `"}`, nil, 413},
	} {
		resp, body := b.ask(tt.method, Path+tt.path, tt.body, tt.headers...)
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %s %s", tt.name, resp.Status, body)
		}
		policy := resp.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "require-trusted-types-for 'script'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: Content-Security-Policy has no %s", tt.name, part)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: Content-Security-Policy is %s", tt.name, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Access-Control-Allow-Origin": "", "Set-Cookie": ""} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", tt.name, name, got)
			}
		}
		if strings.Contains(body, token) {
			t.Errorf("%s: the answer has the token", tt.name)
		}
	}
	if resp, _ := b.ask(http.MethodGet, "/ui", ""); resp.Header.Get("Location") != Path {
		t.Errorf("/ui leads to %q", resp.Header.Get("Location"))
	}
}

// TestFiles checks that the page loads only its own files, and has no script or style in
// its HTML, which the policy would refuse.
func TestFiles(t *testing.T) {
	t.Parallel()
	entries, err := files.ReadDir("page")
	if err != nil || len(entries) < 10 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		content, err := files.ReadFile("page/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "http://127", "https://", "//cdn", "localStorage", " style=\"", "onclick=\"", "DOMParser", "setTimeout(\""} {
			if strings.Contains(string(content), bad) {
				t.Errorf("%s has %s", e.Name(), bad)
			}
		}
		if lines := strings.Count(string(content), "\n"); lines > 500 {
			t.Errorf("%s has %d lines", e.Name(), lines)
		}
	}
}
