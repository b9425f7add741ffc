package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// faultCase is a fault of a server, and what its client sees of it through us.
type faultCase struct {
	fault string // arguments of the tool
	// stdio, http and sse are parts of the error with which a call ends; "" means the
	// right answer, "-" that there is no such fault.
	stdio, http, sse string
	// ends says that the server or its connection is gone. All other calls in flight
	// then fail at once, with this error.
	ends bool
}

const (
	noFault  = "-"
	timedOut = "no answer to tools/call within"
)

var faultCases = []faultCase{
	{`{"kind":"crash-before"}`, "its process ended: exit status 3", "before the answer", "its event stream broke off", true},
	{`{"kind":"crash-during"}`, "its process ended: exit status 3", "before the answer", "its event stream broke off", true},
	{`{"kind":"crash-after"}`, "", "", "", true},
	{`{"kind":"close-stdout"}`, "it closed its output", noFault, "its event stream broke off", true},
	{`{"kind":"hang"}`, timedOut, timedOut, timedOut, false},
	{`{"kind":"stop-reading"}`, timedOut, noFault, noFault, false},
	{`{"kind":"slow","size":20,"pause":1}`, "", "", "", false},
	{`{"kind":"half-line"}`, timedOut, noFault, noFault, false},
	{`{"kind":"garbage","count":100}`, "", "", "", false},
	{`{"kind":"flood","count":2000,"size":100}`, "", "", "", false},
	{`{"kind":"huge-line","size":3000000}`, "", "", "", false},
	{`{"kind":"wrong-id"}`, "", "", "", false},
	{`{"kind":"only-wrong-id"}`, timedOut, timedOut, timedOut, false},
	{`{"kind":"duplicate","count":3}`, "", "", "", false},
}

// of returns the expected text for a transport.
func (c faultCase) of(transport config.Transport) string {
	return map[config.Transport]string{config.Stdio: c.stdio, config.StreamableHTTP: c.http, config.LegacySSE: c.sse}[transport]
}

// TestFaultsOfServers checks what a client sees of each fault: the call is answered in
// any case, calls that have lost their server fail at once, and the server is available
// again soon. Run it with -v for the table.
func TestFaultsOfServers(t *testing.T) {
	t.Parallel()
	transports := []config.Transport{config.Stdio, config.StreamableHTTP}
	if *long {
		transports = append(transports, config.LegacySSE)
	}
	for _, transport := range transports {
		for _, tt := range faultCases {
			if tt.of(transport) == noFault {
				continue
			}
			kind, _ := wire.GetString([]byte(tt.fault), "kind")
			t.Run(fmt.Sprintf("%s/%s", transport, kind), func(t *testing.T) {
				t.Parallel()
				testFault(t, transport, tt)
			})
		}
	}
}

func testFault(t *testing.T, transport config.Transport, tt faultCase) {
	up := startRaw(t, transport, mcptest.ServerOptions{})
	if transport == config.Stdio && (tt.ends || tt.http == noFault) { // it is about a process
		up.config = inOwnProcess(up.config)
	}
	if tt.of(transport) == timedOut { // the timeout applies to the start too, which may take several attempts
		up.config.Timeout = testenv.Deadline(time.Second)
	}
	w := serveProxy(t, combination{config.Stdio, transport}, up.received, testConfig(t, up.config))
	p := pair(t, w.dial(t, mcptest.ClientOptions{}), up.received)
	ctx := bounded(t)
	serving(t, ctx, p)
	var other <-chan mcptest.Answer
	if tt.ends {
		other = p.Client.Start(`"other"`, "tools/call", mcptest.ToolParams("wait", "{}", `"t"`))
		if _, _, err := p.Client.Log.Find(ctx, "progress", 0, mcptest.ProgressWith(`"t"`)); err != nil {
			t.Fatal(err)
		}
	}

	begun := time.Now()
	answer := toolCall(t, ctx, p, "fault", tt.fault)
	took := time.Since(begun)
	got, want := failure(answer), tt.of(transport)
	// Over HTTP each call has a connection: if that of the other call is the first to be noticed, the
	// session is found to be lost, and all calls with it.
	const lost = "it has forgotten our session"
	if tt.ends && want != "" && transport == config.StreamableHTTP && strings.Contains(got, lost) {
		want = lost
	}
	if !strings.Contains(got, want) || (want == "") != (got == "") {
		t.Errorf("want %q in %s", want, answer.Raw)
	}
	othersTook := "lives on"
	if tt.ends {
		select {
		case a := <-other:
			othersTook = "answered after " + time.Since(begun).Round(time.Millisecond).String()
			if failure(a.Entry) == "" {
				t.Errorf("the other call: %s %v", a.Raw, a.Err)
			}
		case <-ctx.Done():
			t.Fatal("the other call is not answered")
		}
	}
	calls := serving(t, ctx, p) // half a line may spoil the answer to this call too
	if again, err := p.Client.Request(ctx, "9999", "ping", ""); err != nil || again.Msg.Error != nil {
		t.Errorf("the session: %s %v", again.Raw, err)
	}
	if got == "" {
		got = "the right answer"
	}
	status := w.host.Upstreams(ctx)[0]
	t.Logf("%-45s | %8s | %s | other call %s | serves again after %v, call %d, restarts %d",
		tt.fault, took.Round(100*time.Microsecond), got, othersTook, time.Since(begun).Round(time.Millisecond), calls, status.Restarts)
	if tt.ends && status.Restarts == 0 {
		t.Error("it was not started again")
	}
}

// serving calls the server until it answers, and returns how many calls that took.
func serving(t *testing.T, ctx context.Context, p *mcptest.Pair) (calls int) {
	t.Helper()
	for calls = 1; failure(toolCall(t, ctx, p, "echo", `{}`)) != ""; calls++ {
	}
	return calls
}

// toolCall calls a tool and waits for the answer.
func toolCall(t *testing.T, ctx context.Context, p *mcptest.Pair, tool, arguments string) mcptest.Entry {
	t.Helper()
	id := fmt.Sprint(p.Client.Log.Len() + 1000)
	e, err := p.Client.Request(ctx, id, "tools/call", mcptest.ToolParams(tool, arguments, ""))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// failure returns the text of an error result or a JSON-RPC error, "" for a result.
func failure(e mcptest.Entry) string {
	if e.Msg.Error != nil {
		return "JSON-RPC error " + string(e.Msg.Error)
	}
	if failed, _ := wire.Get(e.Msg.Result, "isError"); string(failed) != "true" {
		return ""
	}
	content, _ := wire.Get(e.Msg.Result, "content")
	items, err := wire.Elements(content)
	if err != nil || len(items) == 0 {
		return string(e.Msg.Result)
	}
	text, _ := wire.GetString(items[0], "text")
	return "isError: " + text
}

// TestHealthCheckTellsNothingOfOthers checks that agents do not see what a server
// wrote, since that may be part of another session's answer.
func TestHealthCheckTellsNothingOfOthers(t *testing.T) {
	t.Parallel()
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	w := serveProxy(t, combination{config.Stdio, config.Stdio}, up.received, testConfig(t, inOwnProcess(up.config)))
	p := pair(t, w.dial(t, mcptest.ClientOptions{}), w.received)
	ctx := bounded(t)
	toolCall(t, ctx, p, "fault", `{"kind":"garbage"}`)
	toolCall(t, ctx, p, "fault", `{"kind":"crash-before"}`)
	e := toolCall(t, ctx, p, "health_check", `{}`)
	if got := string(e.Raw); !strings.Contains(got, "exit status 3") || strings.Contains(got, "this is not JSON-RPC") {
		t.Errorf("%s", got)
	}
	if err := w.host.Upstreams(ctx)[0].Err; !strings.Contains(err, "this is not JSON-RPC") { // for the user who runs us
		t.Errorf("%s", err)
	}
}
