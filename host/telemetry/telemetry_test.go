package telemetry

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry/telemetrytest"
)

// started starts telemetry, which logs to the buffer.
func started(t *testing.T, cfg config.Telemetry) (*Telemetry, *mcptest.Buffer) {
	t.Helper()
	var log mcptest.Buffer
	tel, err := New(t.Context(), cfg, Options{Name: "test", Version: "1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return tel, &log
}

// call follows one call of a tool, and returns the params that are sent.
func call(tel *Telemetry, params string) []byte {
	c := tel.Upstreams().Connect(servers.Spec{Name: "s"}, false)
	sent, span := c.BeginCall(context.Background(), 1, wire.Call{Method: "tools/call", Params: []byte(params)})
	span.End(wire.Reply{Result: []byte(`{}`)}, nil)
	c.Ended()
	return sent
}

// TestSwitchedOff checks that variables of the environment switch nothing on, but can
// switch it off.
func TestSwitchedOff(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	for _, disabled := range []string{"", "true"} {
		t.Setenv("OTEL_SDK_DISABLED", disabled)
		tel, _ := started(t, config.Telemetry{OTLP: disabled != "", Traces: true, Metrics: true})
		if tel != nil {
			t.Errorf("OTEL_SDK_DISABLED=%q: it is switched on", disabled)
		}
		if tel.Upstreams() != nil || tel.Runs() != nil || tel.Front(true, nil) != nil || tel.Close(t.Context()) != nil {
			t.Error("it does something although it is switched off")
		}
		tel.Watch(nil)()
	}
}

// TestEnvironment checks that what the configuration does not say comes from the standard
// variables.
func TestEnvironment(t *testing.T) {
	collector := telemetrytest.New()
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL())
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=1234")
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	tel, _ := started(t, config.Telemetry{OTLP: true, Traces: true, Metrics: true})
	call(tel, `{"name":"t"}`)
	if err := tel.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if spans := collector.Spans(); len(spans) != 1 || spans[0].Name != "tools/call t" {
		t.Errorf("spans: %v", spans)
	}
	if _, headers := collector.Raw(); headers.Get("x-key") != "1234" || collector.Resource()["service.name"] != "mine" {
		t.Errorf("headers %v, resource %v", headers, collector.Resource())
	}
	if got := collector.Points("mcp.client.operation.duration"); got != nil {
		t.Errorf("metrics were sent: %v", got)
	}
}

// TestDeadCollector checks that a collector that takes connections and never answers, or
// does not exist, delays neither calls nor the end, and is logged once.
func TestDeadCollector(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	const gone = "http://127.0.0.1:1" // no process listens there
	for _, protocol := range []config.OTLPProtocol{config.OTLPHTTP, config.OTLPgRPC} {
		for name, endpoint := range map[string]string{"silent": "http://" + silent.Addr().String(), "gone": gone} {
			t.Run(string(protocol)+" "+name, func(t *testing.T) {
				t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
				t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
				tel, log := started(t, config.Telemetry{OTLP: true, Traces: true, Metrics: true, Endpoint: endpoint, Protocol: protocol})
				for range 1000 { // many more than fit into the queue
					call(tel, `{"name":"t"}`)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // there is no time left
				if err := tel.Close(ctx); err != nil {
					t.Error(err)
				}
				for _, signal := range []string{"traces", "metrics"} {
					if n := strings.Count(log.String(), "signal="+signal); n > 1 {
						t.Errorf("%d log entries about %s:\n%s", n, signal, log.String())
					}
				}
			})
		}
	}
}

// TestGuardLogs checks that a failure is logged once, and its end.
func TestGuardLogs(t *testing.T) {
	var log mcptest.Buffer
	g := newGuard(slog.New(slog.NewTextHandler(&log, nil)))
	for _, err := range []error{nil, errors.New("one"), errors.New("two"), nil, errors.New("three")} {
		if g.export(t.Context(), "traces", func(context.Context) error { return err }) != nil {
			t.Error("the SDK would log it, too")
		}
	}
	g.abandon()
	got := log.String()
	if strings.Count(got, "err=one") != 1 || strings.Contains(got, "two") || strings.Count(got, "again") != 1 || strings.Count(got, "err=three") != 1 {
		t.Error(got)
	}
}

// TestInject checks that only the trace context of params changes.
func TestInject(t *testing.T) {
	tel, _ := started(t, config.Telemetry{OTLP: true, Traces: true, Endpoint: "http://127.0.0.1:1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer tel.Close(ctx)
	for before, want := range map[string]string{
		``:                    `{"_meta":{"traceparent":T}}`,
		`{ "n":1e999 }`:       `{ "n":1e999 ,"_meta":{"traceparent":T}}`,
		`{"_meta":{"a":1.0}}`: `{"_meta":{"a":1.0,"traceparent":T}}`,
		`{"_meta":{"traceparent":"x","tracestate":"a=1","baggage":"k=v"},"b":-0}`: `{"_meta":{"traceparent":T,"baggage":"k=v"},"b":-0}`,
		`{"_meta":7}`: `{"_meta":7}`,
		`[1]`:         `[1]`,
	} {
		var params []byte
		if before != "" {
			params = []byte(before)
		}
		ctx, span := tel.tracer.Start(t.Context(), "x")
		id := span.SpanContext()
		got := string(inject(ctx, params))
		if got = strings.Replace(got, `"00-`+id.TraceID().String()+"-"+id.SpanID().String()+`-01"`, "T", 1); got != want {
			t.Errorf("%s: %s, want %s", before, got, want)
		}
	}
}

// TestPages checks the pages, and whom they refuse.
func TestPages(t *testing.T) {
	tel, _ := started(t, config.Telemetry{Listen: "127.0.0.1:0", Tokens: []bearer.Token{{Digest: bearer.DigestOf("first-token")}, {Digest: bearer.DigestOf("second-token")}}, AllowedHosts: []string{"metrics.example.com"}})
	defer tel.Close(t.Context())
	defer tel.Watch(func() State { return State{Upstreams: []UpstreamState{{"s", true}}, Runs: 2} })()
	call(tel, `{"name":"t"}`)
	waitsFor := ""
	pages := httptest.NewServer(tel.Pages(func() (string, bool) { return waitsFor, waitsFor == "" }))
	defer pages.Close()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string, header ...string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, pages.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			if header[i] == "Host" {
				request.Host = header[i+1]
			}
			request.Header.Set(header[i], header[i+1])
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	const bearer = "Bearer second-token"
	for _, tt := range []struct {
		path   string
		header []string
		want   int
	}{
		{"/healthz", nil, 200}, {"/readyz", nil, 200}, {"/", nil, 404},
		{"/metrics", nil, 401}, {"/metrics", []string{"Authorization", "Bearer third-token"}, 401}, {"/metrics", []string{"Authorization", bearer}, 200},
		{"/healthz", []string{"Host", "evil.example.com"}, 403}, {"/metrics", []string{"Host", "evil.example.com", "Authorization", bearer}, 403},
		{"/metrics", []string{"Host", "metrics.example.com", "Authorization", bearer}, 200},
		{"/metrics", []string{"Origin", "https://evil.example.com", "Authorization", bearer}, 403},
	} {
		if got, body := get(tt.path, tt.header...); got != tt.want {
			t.Errorf("%s %v: %d %.200s, want %d", tt.path, tt.header, got, body, tt.want)
		}
	}
	_, body := get("/metrics", "Authorization", bearer)
	for _, want := range []string{
		`mcp_client_operation_duration_seconds_count{gen_ai_operation_name="execute_tool",gen_ai_tool_name="t",mcp_metatool_upstream_name="s",mcp_method_name="tools/call",network_transport="pipe"} 1`,
		`mcp_metatool_upstream_ready{mcp_metatool_upstream_name="s"} 1`, `mcp_metatool_run_active 2`, `go_goroutines `,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s in\n%s", want, body)
		}
	}
	waitsFor = "the sandbox is being compiled"
	if code, body := get("/readyz"); code != 503 || body != "not ready: the sandbox is being compiled\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
}

// TestBounded checks that codes of servers do not become many metrics.
func TestBounded(t *testing.T) {
	for code, want := range map[int]string{-32700: "-32700", -32600: "-32600", -32099: "-32099", 7: otherError, -40000: otherError, -32604: otherError} {
		o := outcomeOf(wire.Reply{Error: wire.Errorf(code, "x").Raw()}, nil)
		if got := o.bounded(); got.status != want || got.errorType != want || o.status != strconv.Itoa(code) {
			t.Errorf("%d: %v, %v", code, got, o)
		}
	}
	if got := (outcome{errorType: toolError}).bounded(); got.errorType != toolError || got.status != "" {
		t.Errorf("%v", got)
	}
}

// TestMistakes checks that no variable stops the start, and that mistakes are reported
// without values.
func TestMistakes(t *testing.T) {
	collector := telemetrytest.New()
	defer collector.Close()
	const hunter = "hunter2"
	wrong := map[string]string{
		resourceVariable: "team=a," + hunter, protocolVariable: hunter, samplerVariable: hunter, samplerOfVariable: hunter,
		queueVariable: "-1", batchVariable: "-7", delayVariable: "0", timeoutVariable: "9999999999999",
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "://" + hunter, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization: Bearer " + hunter,
		"OTEL_EXPORTER_OTLP_COMPRESSION": hunter, "OTEL_EXPORTER_OTLP_CERTIFICATE": "/" + hunter, "OTEL_METRIC_EXPORT_INTERVAL": hunter,
		"OTEL_SPAN_LINK_COUNT_LIMIT": hunter, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": hunter,
	}
	for name, value := range wrong {
		t.Setenv(name, value)
	}
	tel, log := started(t, config.Telemetry{OTLP: true, Traces: true, Metrics: true, Endpoint: collector.URL()})
	call(tel, `{"name":"t"}`)
	if err := tel.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if spans := collector.Spans(); len(spans) != 1 || collector.Resource()["team"] != "a" {
		t.Errorf("spans %v of %v", spans, collector.Resource())
	}
	for name := range wrong {
		if !strings.Contains(log.String(), "variable="+name+" ") {
			t.Errorf("%s is not reported", name)
		}
	}
	if strings.Contains(log.String(), hunter) {
		t.Error(log.String())
	}
	checked := log.String()
	for _, v := range variables {
		for _, name := range v.names {
			if _, set := wrong[name]; !set && strings.Contains(checked, "variable="+name+" ") {
				t.Errorf("%s is not set, and reported", name)
			}
		}
	}
	// A certificate that exists, and an address that needs none.
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate(t))
	tel, log = started(t, config.Telemetry{OTLP: true, Traces: true, Metrics: true, Endpoint: collector.URL()})
	call(tel, `{"name":"t"}`)
	if err := tel.Close(t.Context()); err != nil || !strings.Contains(log.String(), notSent) {
		t.Errorf("%v; log: %s", err, log.String())
	}
}

// certificate returns a file with a certificate.
func certificate(t *testing.T) string {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestMask checks that no secret is sent, wherever clients and servers put it.
func TestMask(t *testing.T) {
	collector := telemetrytest.New()
	defer collector.Close()
	const secret = "s3cret-value"
	masker := &config.Masker{}
	masker.Add(secret)
	tel, err := New(t.Context(), config.Telemetry{OTLP: true, Traces: true, Metrics: true, Endpoint: collector.URL()},
		Options{Log: slog.New(slog.DiscardHandler), Mask: masker.Mask})
	if err != nil {
		t.Fatal(err)
	}
	front := tel.Front(true, func(string) bool { return true })
	long := strings.Repeat("x", maxAttribute-len(secret)/2)
	for method, params := range map[string]string{
		"tools/call": `{"name":"` + secret + `"}`, "resources/read": `{"uri":"https://h/` + secret + `/x"}`, secret: `{}`,
		"prompts/get": `{"name":"` + long + secret + `"}`,
	} {
		front.BeginRequest(noOrigin{}, method, wire.Quote("id-"+secret), []byte(params)).End(wire.Reply{}, nil)
	}
	c := tel.Upstreams().Connect(servers.Spec{Name: "s", URL: "https://" + secret + ".example.com/" + secret}, false)
	_, span := c.BeginCall(t.Context(), 1, wire.Call{Method: "resources/read", Params: []byte(`{"uri":"file:///` + secret + `"}`)})
	span.End(wire.Reply{}, nil)
	c.Ended()
	if err := tel.Close(t.Context()); err != nil {
		t.Error(err)
	}
	raw, _ := collector.Raw()
	if strings.Contains(string(raw), secret[:6]) {
		t.Errorf("the collector got a secret; spans %v, metrics %v", collector.Spans(), collector.Points("mcp.server.operation.duration"))
	}
	ids := 0
	for _, s := range collector.Spans() {
		if s.Attributes["jsonrpc.request.id"] == "id-****" {
			ids++
		}
		for name, value := range s.Attributes {
			if len(value) > maxAttribute {
				t.Errorf("%s has %d bytes", name, len(value))
			}
		}
	}
	if ids != 4 {
		t.Errorf("%d of 4 requests have a masked id: %v", ids, collector.Spans())
	}
}

// noOrigin is the origin of a request whose revision alone is asked for.
type noOrigin struct{ route.Origin }

func (noOrigin) Revision() protocol.Revision { return protocol.Revision{} }
