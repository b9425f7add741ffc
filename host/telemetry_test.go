package host

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry/telemetrytest"
)

// traced is a proxy between a raw client and a raw server, and a collector.
type traced struct {
	*testProxy
	t         *testing.T
	collector *telemetrytest.Collector
	telemetry *telemetry.Telemetry
	client    *mcptest.Client
	envelope  string // members of _meta, each with a comma
	closed    sync.Once
}

// startTraced starts everything. The client speaks an era over a transport.
func startTraced(t *testing.T, c combination, era string, server mcptest.ServerOptions) *traced {
	t.Helper()
	w := &traced{t: t, collector: telemetrytest.New()}
	t.Cleanup(w.collector.Close)
	var err error
	w.telemetry, err = telemetry.New(t.Context(), config.Telemetry{OTLP: true, Endpoint: w.collector.URL(), Traces: true, Metrics: true},
		telemetry.Options{Name: Name, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	up := startRaw(t, c.upstream, server)
	w.testProxy = serveProxyOf(t, c, up.received, testConfig(t, up.config), Options{Telemetry: w.telemetry})
	w.client = w.dial(t, mcptest.ClientOptions{})
	if era == mcptest.EraModern {
		w.envelope = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"0"},"io.modelcontextprotocol/clientCapabilities":{},`
	} else if _, err := w.client.Initialize(bounded(t), mcptest.ClientParams); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Close(bounded(t)) })
	return w
}

// start begins a call of a tool. meta are further members of _meta.
func (w *traced) start(id, tool, arguments, meta string) <-chan mcptest.Answer {
	all := strings.TrimSuffix(w.envelope+meta, ",")
	return w.client.Start(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{%s}}`, tool, arguments, all))
}

func (w *traced) call(id, tool, arguments, meta string) mcptest.Answer {
	w.t.Helper()
	select {
	case a := <-w.start(id, tool, arguments, meta):
		if a.Err != nil {
			w.t.Fatal(a.Err)
		}
		return a
	case <-bounded(w.t).Done():
		w.t.Fatalf("%s: no answer", tool)
	}
	return mcptest.Answer{}
}

// tree ends telemetry, and returns the spans of one trace, each with its children below.
func (w *traced) tree(trace string) string {
	w.t.Helper()
	w.closed.Do(func() {
		if err := w.telemetry.Close(bounded(w.t)); err != nil {
			w.t.Fatal(err)
		}
	})
	var spans []telemetrytest.Span
	for _, s := range w.collector.Spans() {
		if s.Trace == trace {
			spans = append(spans, s)
		}
	}
	known := map[string]bool{}
	for _, s := range spans {
		known[s.ID] = true
	}
	var b strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		for _, s := range spans {
			if s.Parent == parent || parent == "" && !known[s.Parent] {
				failure := ""
				if e := s.Attributes["error.type"]; e != "" || s.Failed {
					failure = " !" + e
				}
				fmt.Fprintf(&b, "%s%s %s%s\n", indent, s.Kind, s.Name, failure)
				write(s.ID, indent+"  ")
			}
		}
	}
	write("", "")
	return b.String()
}

// span returns the span of a trace with that kind and name.
func (w *traced) span(trace, kind, name string) telemetrytest.Span {
	w.t.Helper()
	for _, s := range w.collector.Spans() {
		if s.Trace == trace && s.Kind == kind && s.Name == name {
			return s
		}
	}
	w.t.Fatalf("no %s span %q in trace %s", kind, name, trace)
	return telemetrytest.Span{}
}

// traceOf returns the id of a trace for a test, and members of _meta that continue it.
func traceOf(n int) (id, meta string) {
	id = fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", n)
	return id, fmt.Sprintf(`"traceparent":"00-%s-00f067aa0ba902b7-01","tracestate":"rojo=1,congo=t61","baggage":"user=alice;p=1 , x=%%20",`, id)
}

// TestTraces checks the spans of calls, by an otherwise unmodified client and server, in
// both eras.
func TestTraces(t *testing.T) {
	t.Parallel()
	for _, era := range []string{mcptest.EraLegacy, mcptest.EraModern} {
		t.Run(era, func(t *testing.T) {
			w := startTraced(t, combination{config.Stdio, config.StreamableHTTP}, era, mcptest.ServerOptions{Eras: era})
			const secret = "a-secret-value"
			step := func(n int, tool, arguments string) string {
				id, meta := traceOf(n)
				w.call(fmt.Sprintf(`"id-%d"`, n), tool, arguments, meta)
				return id
			}
			echo := step(1, "echo", `{"x":"`+secret+`"}`)
			failing := step(2, "instead", `{"text":"`+secret+`","isError":true}`)
			refused := step(3, "error", `{"code":-32050}`)
			unknown := step(4, "no_such_tool", `{}`)
			script := func(code string) string { return fmt.Sprintf(`{"code":%s}`, wire.Quote(code)) }
			composite := step(5, "eval_starlark", script("a = raw.echo(x='"+secret+"')\nb = raw.count(times=2)\nreturn 1"))
			broken := step(6, "eval_starlark", script("raw.error(code=-32051)"))
			hanging, meta := traceOf(7)
			from := w.received.Len()
			answer := w.start(`"id-7"`, "wait", `{}`, meta)
			if _, _, err := w.received.Find(bounded(t), "wait", from, mcptest.CallOf("wait")); err != nil {
				t.Fatal(err)
			}
			if err := w.client.Notify("notifications/cancelled", `{"requestId":"id-7"}`); err != nil {
				t.Fatal(err)
			}
			w.call(`"id-8"`, "echo", `{}`, "") // after the cancellation, in the order of the stream
			if a := <-answer; !errors.Is(a.Err, mcptest.ErrCancelled) {
				t.Fatalf("a cancelled call was answered: %s", a.Raw)
			}
			if err := w.client.Close(bounded(t)); err != nil {
				t.Fatal(err)
			}
			for _, want := range []struct{ trace, tree string }{
				{echo, "server tools/call echo\n  client tools/call echo\n"},
				{failing, "server tools/call instead !tool_error\n  client tools/call instead !tool_error\n"},
				{refused, "server tools/call error !-32050\n  client tools/call error !-32050\n"},
				{unknown, "server tools/call !-32602\n"},
				{composite, "server tools/call eval_starlark\n  internal execute_tool eval_starlark\n    client tools/call echo\n    client tools/call count\n"},
				{broken, "server tools/call eval_starlark !tool_error\n  internal execute_tool eval_starlark !tool\n    client tools/call error !-32051\n"},
				{hanging, "server tools/call wait !cancelled\n  client tools/call wait !cancelled\n"},
			} {
				if got := w.tree(want.trace); got != want.tree {
					t.Errorf("spans\n%swant\n%s", got, want.tree)
				}
			}

			revision, session := "2025-11-25", true
			if era == mcptest.EraModern {
				revision, session = "2026-07-28", false
			}
			server := w.span(echo, "server", "tools/call echo")
			checkAttributes(t, server.Attributes, session, map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool",
				"jsonrpc.request.id": "id-1", "mcp.protocol.version": revision, "network.transport": "pipe",
			})
			if server.Parent != "00f067aa0ba902b7" || server.State != "rojo=1,congo=t61" {
				t.Errorf("the trace is not continued: parent %s, state %q", server.Parent, server.State)
			}
			client := w.span(echo, "client", "tools/call echo")
			received, _, err := w.received.Find(bounded(t), "echo", 0, mcptest.CallOf("echo"))
			if err != nil {
				t.Fatal(err)
			}
			id := string(received.Msg.ID)
			address, port, _ := strings.Cut(strings.TrimPrefix(w.host.config().Upstreams[0].URL, "http://"), ":")
			checkAttributes(t, client.Attributes, true, map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool",
				"jsonrpc.request.id": strings.Trim(id, `"`), "mcp.protocol.version": revision, "network.transport": "tcp",
				"network.protocol.name": "http", "server.address": address, "server.port": port, "mcp_metatool.upstream.name": "raw",
			})
			for name, want := range map[string]string{
				"traceparent": "00-" + echo + "-" + client.ID + "-01", "tracestate": "rojo=1,congo=t61", "baggage": "user=alice;p=1 , x=%20",
			} {
				if got, _ := wire.GetString(received.Msg.Params, "_meta", name); got != want {
					t.Errorf("the server got %s %q, want %q", name, got, want)
				}
			}
			if got := w.span(refused, "client", "tools/call error").Attributes["rpc.response.status_code"]; got != "-32050" {
				t.Errorf("status code %q", got)
			}
			run := w.span(composite, "internal", "execute_tool eval_starlark").Attributes
			if run["mcp_metatool.run.calls"] != "2" || run["mcp_metatool.run.id"] == "" || run["mcp_metatool.run.fuel"] == "0" {
				t.Errorf("run: %v", run)
			}
			if raw, _ := w.collector.Raw(); strings.Contains(string(raw), secret) {
				t.Error("arguments or results are in the telemetry")
			}
			if got := w.collector.Resource(); got["service.name"] != Name || got["service.version"] != "test" {
				t.Errorf("resource: %v", got)
			}
			checkMetrics(t, w.collector, revision)
		})
	}
}

// checkAttributes compares the attributes of a span. session says whether it has one with
// the id of a session.
func checkAttributes(t *testing.T, got map[string]string, session bool, want map[string]string) {
	t.Helper()
	got = maps.Clone(got)
	if (got["mcp.session.id"] != "") != session {
		t.Errorf("mcp.session.id is %q", got["mcp.session.id"])
	}
	delete(got, "mcp.session.id")
	if !maps.Equal(got, want) {
		t.Errorf("attributes\n%v, want\n%v", got, want)
	}
}

// checkMetrics checks the metrics of TestTraces.
func checkMetrics(t *testing.T, c *telemetrytest.Collector, revision string) {
	t.Helper()
	count := func(metric string, attributes map[string]string) uint64 {
		var n uint64
	points:
		for _, p := range c.Points(metric) {
			for name, value := range attributes {
				if p.Attributes[name] != value {
					continue points
				}
			}
			n += p.Count
		}
		return n
	}
	for _, want := range []struct {
		metric     string
		attributes map[string]string
		count      uint64
	}{
		{"mcp.server.operation.duration", map[string]string{"gen_ai.tool.name": "echo", "mcp.protocol.version": revision, "network.transport": "pipe", "error.type": ""}, 2},
		{"mcp.server.operation.duration", map[string]string{"gen_ai.tool.name": "instead", "error.type": "tool_error"}, 1},
		{"mcp.server.operation.duration", map[string]string{"gen_ai.tool.name": "no_such_tool"}, 0},
		{"mcp.server.operation.duration", map[string]string{"error.type": "-32602", "rpc.response.status_code": "-32602"}, 1},
		{"mcp.client.operation.duration", map[string]string{"gen_ai.tool.name": "echo", "mcp_metatool.upstream.name": "raw"}, 3},
		{"mcp_metatool.run.duration", map[string]string{"gen_ai.tool.name": "eval_starlark", "error.type": ""}, 1},
		{"mcp_metatool.run.fuel", map[string]string{"error.type": "tool"}, 1},
	} {
		if got := count(want.metric, want.attributes); got != want.count {
			t.Errorf("%s %v: %d, want %d; there are %v", want.metric, want.attributes, got, want.count, c.Points(want.metric))
		}
	}
	for _, p := range c.Points("mcp_metatool.server.active_requests") {
		if p.Value != 0 {
			t.Errorf("active requests at the end: %v", p)
		}
	}
}

// TestTracesOfQuestions checks that what an upstream asks a client belongs to the trace of
// the call in the middle of which it asks, or to the one that the upstream names.
func TestTracesOfQuestions(t *testing.T) {
	t.Parallel()
	w := startTraced(t, combination{config.Stdio, config.StreamableHTTP}, mcptest.EraLegacy, mcptest.ServerOptions{Eras: mcptest.EraLegacy})
	const plain = `{"method":"roots/list","params":{}}`
	asking, meta := traceOf(1)
	w.call(`"id-1"`, "ask", plain, meta)
	calling, meta := traceOf(2)
	named, theirs := traceOf(3)
	w.call(`"id-2"`, "ask", `{"method":"roots/list","params":{"_meta":{`+strings.TrimSuffix(theirs, ",")+`}}}`, meta)
	if err := w.client.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ trace, tree string }{
		{asking, "server tools/call ask\n  client roots/list !-32601\n  client tools/call ask\n"}, // the client has none
		{calling, "server tools/call ask\n  client tools/call ask\n"},
		{named, "client roots/list !-32601\n"},
	} {
		if got := w.tree(want.trace); got != want.tree {
			t.Errorf("spans\n%swant\n%s", got, want.tree)
		}
	}
}
