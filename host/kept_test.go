package host

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// serveBusy is a server of the handshake era whose work is never done: it asks, makes tasks, or
// does not answer. It keeps nothing of what it reads.
func serveBusy(in io.Reader, out *mcptest.LineWriter) {
	lines := bufio.NewReader(in)
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := wire.Parse(line)
		if err != nil || !m.IsRequest() {
			continue
		}
		result := "{}"
		switch name, _ := wire.GetString(m.Params, "name"); {
		case m.Method == "initialize":
			result = `{"protocolVersion":"2025-11-25","serverInfo":{"name":"busy","version":"1"},"capabilities":{"tools":{},"resources":{"subscribe":true},` +
				`"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}`
		case m.Method == "tools/list":
			result = `{"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},` +
				`{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`
		case m.Method == "resources/list", m.Method == "resources/templates/list":
			result = `{"resources":[],"resourceTemplates":[]}`
		case name == "ask":
			_ = out.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"ask%d","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, n))
			continue
		case name == "hang":
			continue
		case name == "task":
			result = fmt.Sprintf(`{"task":{"taskId":"task%d","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000}}`, n)
		}
		if out.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)) != nil {
			return
		}
	}
}

// keeper is a client over HTTP, of which something is kept after its requests are answered.
type keeper struct {
	t       *testing.T
	url     string
	session string
	n       int
}

// post sends a message and returns the answer. with are headers.
func (k *keeper) post(body string, with ...string) string {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, k.url, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer one-token")
	for i := 0; i < len(with); i += 2 {
		r.Header.Set(with[i], with[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer answer.Body.Close()
	if id := answer.Header.Get("Mcp-Session-Id"); id != "" {
		k.session = id
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return string(text)
}

// modern makes a request of the stateless era.
func (k *keeper) modern(method, name, params, junk string) string {
	return k.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d%s","method":%q,"params":{"_meta":%s,%s},"x":"%s"}`, k.n, junk, method, taskMeta, params, junk),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

// legacy sends a message in the session.
func (k *keeper) legacy(members, junk string) string {
	return k.post(fmt.Sprintf(`{"jsonrpc":"2.0",%s,"x":"%s"}`, members, junk), "MCP-Protocol-Version", "2025-11-25", "Mcp-Session-Id", k.session)
}

// junkSize is how much of each message means nothing, in bytes, and keptThings how many there are.
const junkSize, keptThings = 512 << 10, 8

// TestNothingElseIsKept lets clients begin what goes on after the answer, or after they have gone
// away, with messages that are large for no reason. What is then in use is counted for them.
func TestNothingElseIsKept(t *testing.T) {
	cfg := testConfig(t, upstreamOf("busy", "busy"))
	cfg.Execution.MaxTotalMemory, cfg.Execution.TaskAfter = 512<<20, time.Millisecond
	cfg.HTTP.Tokens = bearerTokens("one-token")
	h, _ := startHostFor(t, cfg, ManyClients)
	k := &keeper{t: t, url: "http://" + serveHTTP(t, h) + "/mcp"}
	call := func(tool, more string) string { return fmt.Sprintf(`"name":%q,"arguments":{}%s`, tool, more) }
	for _, kind := range []struct {
		name string
		make func(junk string) string // one thing
		want string                   // in the answer
	}{
		{"calls that wait for their client", func(junk string) string { return k.modern("tools/call", "busy__ask", call("busy__ask", ""), junk) }, "requestState"},
		{"bridged tasks", func(junk string) string { return k.modern("tools/call", "busy__task", call("busy__task", ""), junk) }, `"taskId"`},
		{"tasks of runs", func(junk string) string {
			return k.modern("tools/call", "eval_starlark", `"name":"eval_starlark","arguments":{"code":"busy.hang()"}`, junk)
		}, `"taskId"`},
		{"tasks with progress", func(junk string) string {
			return k.legacy(fmt.Sprintf(`"id":"%d%s","method":"tools/call","params":{%s}`, k.n, junk, call("busy__task", `,"task":{},"_meta":{"progressToken":"t`+junk[:500]+`"}`)), junk)
		}, `"taskId"`},
		{"subscriptions", func(junk string) string {
			return k.legacy(fmt.Sprintf(`"id":%d,"method":"resources/subscribe","params":{"uri":"a:%d","x":"%s"}`, k.n, k.n, junk), junk)
		}, `"result"`},
		{"statuses of tasks", func(junk string) string {
			return k.legacy(fmt.Sprintf(`"method":"notifications/tasks/status","params":{"taskId":"own%d","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1}`, k.n), junk)
		}, ""},
		{"cancelled calls", func(junk string) string {
			id, gone := k.n, make(chan string, 1)
			go func() {
				gone <- k.legacy(fmt.Sprintf(`"id":%d,"method":"tools/call","params":{%s}`, id, call("busy__hang", "")), junk)
			}()
			for len(gone) == 0 { // until it has arrived before that
				k.legacy(fmt.Sprintf(`"method":"notifications/cancelled","params":{"requestId":%d}`, id), "")
			}
			return <-gone
		}, ""},
		{"sessions", func(junk string) string {
			session := k.session
			defer func() { k.session = session }()
			return k.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"k","version":"1"}},"x":"%s"}`, junk[:20<<10]))
		}, "serverInfo"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			k.t = t
			if k.session == "" {
				k.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"k","version":"1"}}}`)
				k.legacy(`"method":"notifications/initialized"`, "")
			}
			junk := strings.Repeat("x", junkSize)
			one := func() {
				k.n++
				if got := kind.make(junk); !strings.Contains(got, kind.want) {
					t.Fatalf("%.500s", got)
				}
			}
			one() // what is made once is there now
			budget := h.sandbox.Budget()
			counted, used := budget.Figures().Used, heapInUse()
			for range keptThings {
				one()
			}
			grown := heapInUse() - used
			counted = max(budget.Figures().Used-counted, 0) // what was counted before may be given back now
			t.Logf("%d bytes are counted, %d more in use", counted, grown)
			if grown > counted+keptThings*junkSize/4 {
				t.Errorf("%d bytes are counted, but %d more in use, after %d things with %d bytes that mean nothing", counted, grown, keptThings, junkSize)
			}
		})
	}
}

// heapInUse returns how many bytes of the heap are in use.
func heapInUse() int64 {
	var m runtime.MemStats
	for range 3 { // cleanups let go of more
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
