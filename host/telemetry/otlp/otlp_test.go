package otlp

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mcp-metatool/mcp-metatool/host/telemetry/telemetrytest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestExport checks that spans and metrics arrive by both protocols, compressed or not.
func TestExport(t *testing.T) {
	for _, grpc := range []bool{false, true} {
		for _, compression := range []string{"none", "gzip"} {
			t.Run(fmt.Sprintf("grpc=%t %s", grpc, compression), func(t *testing.T) {
				t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
				collector := telemetrytest.New()
				defer collector.Close()
				export(t, Options{Endpoint: collector.URL(), GRPC: grpc, Headers: map[string]string{"x-key": "1"}, UserAgent: "me/1"})

				spans := collector.Spans()
				if len(spans) != 2 || spans[0].Name != "child" || spans[0].Parent != spans[1].ID || spans[0].Kind != "client" || !spans[0].Failed ||
					spans[0].Attributes["text"] != "ä" || spans[0].Attributes["count"] != "-7" {
					t.Errorf("%+v", spans)
				}
				if of := collector.Resource(); of["service.name"] != "test" {
					t.Errorf("from %v", of)
				}
				for name, want := range map[string]telemetrytest.Point{
					"counter": {Attributes: map[string]string{"a": "b"}, Value: 3}, "gauge": {Value: -1.5}, "histogram": {Count: 2, Value: 11},
				} {
					got := collector.Points(name)
					if len(got) != 1 || got[0].Count != want.Count || got[0].Value != want.Value || len(want.Attributes) > 0 && got[0].Attributes["a"] != "b" {
						t.Errorf("%s: %+v", name, got)
					}
				}
				_, headers := collector.Raw()
				if headers.Get("x-key") != "1" || headers.Get("User-Agent") != "me/1" {
					t.Errorf("%v", headers)
				}
			})
		}
	}
}

// export exports two spans and three metrics.
func export(t *testing.T, o Options) {
	t.Helper()
	spans, err := NewSpans(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	of := resource.NewSchemaless(attribute.String("service.name", "test"))
	provider := tracesdk.NewTracerProvider(tracesdk.WithBatcher(spans), tracesdk.WithResource(of))
	ctx, parent := provider.Tracer("x").Start(t.Context(), "parent")
	_, child := provider.Tracer("x").Start(ctx, "child", trace.WithSpanKind(trace.SpanKindClient))
	child.SetAttributes(attribute.String("text", "ä"), attribute.Int("count", -7))
	child.SetStatus(1, "failed") // codes.Error
	child.End()
	parent.End()
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}

	points, err := NewMetrics(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	meters := metricsdk.NewMeterProvider(metricsdk.WithReader(metricsdk.NewPeriodicReader(points)), metricsdk.WithResource(of))
	meter := meters.Meter("x")
	counter, err1 := meter.Int64Counter("counter")
	gauge, err2 := meter.Float64Gauge("gauge")
	histogram, err3 := meter.Int64Histogram("histogram")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	counter.Add(ctx, 3, metric.WithAttributes(attribute.String("a", "b")))
	gauge.Record(ctx, -1.5)
	histogram.Record(ctx, 4)
	histogram.Record(ctx, 7)
	if err := meters.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAddress checks where the signals are sent.
func TestAddress(t *testing.T) {
	const all, own, insecure = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_INSECURE"
	of := signal{variable: "TRACES", path: "v1/traces", method: "/Traces/Export"}
	for _, tt := range []struct {
		variables  map[string]string
		endpoint   string
		http, grpc string
	}{
		{nil, "", "http://localhost:4318/v1/traces", "http://localhost:4317/Traces/Export"},
		{nil, "https://c.example.com/x/", "https://c.example.com/x/v1/traces", "https://c.example.com/Traces/Export"},
		{map[string]string{all: "http://c:1/x"}, "", "http://c:1/x/v1/traces", "http://c:1/Traces/Export"},
		{map[string]string{all: "http://c:1", own: "https://d:2"}, "", "https://d:2/", "https://d:2/Traces/Export"},
		{map[string]string{all: "http://c:1", own: " https://d:2/y/z "}, "", "https://d:2/y/z", "https://d:2/Traces/Export"},
		{map[string]string{all: "http://c:1", own: "://"}, "", "http://c:1/v1/traces", "http://c:1/Traces/Export"},
		{map[string]string{all: "http://c:1", own: "https://d:2"}, "http://e:3", "http://e:3/v1/traces", "http://e:3/Traces/Export"},
		{map[string]string{all: "c:1"}, "", "http://localhost:4318/v1/traces", "https://c:1/Traces/Export"},
		{map[string]string{all: "127.0.0.1:1", insecure: "true"}, "", "http://localhost:4318/v1/traces", "http://127.0.0.1:1/Traces/Export"},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range tt.variables {
				t.Setenv(name, value)
			}
			for grpc, want := range map[bool]string{false: tt.http, true: tt.grpc} {
				if got := of.address(Options{Endpoint: tt.endpoint, GRPC: grpc}).String(); got != want {
					t.Errorf("%v, grpc=%t: %s, want %s", tt.variables, grpc, got, want)
				}
			}
		})
	}
}

// TestSettings checks the variables besides those of addresses, and which of two decides.
func TestSettings(t *testing.T) {
	for name, value := range map[string]string{
		"HEADERS": "a=1", "METRICS_HEADERS": " b = x%20y ,c=,bad name=1,d=%zz,e", "TIMEOUT": "1500", "METRICS_TIMEOUT": "soon", "COMPRESSION": "gzip",
		"METRICS_TEMPORALITY_PREFERENCE": "Delta", "METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram",
		"CERTIFICATE": "/does/not/exist",
	} {
		t.Setenv(prefix+name, value)
	}
	c, err := signal{variable: "METRICS"}.read(t.Context(), Options{})
	if err != nil || len(c.headers) != 2 || c.headers["b"] != "x y" || c.headers["c"] != "" || c.timeout != 1500*time.Millisecond || !c.zip {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := (signal{variable: "TRACES"}).read(t.Context(), Options{}); err != nil || c.headers["a"] != "1" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := (signal{variable: "TRACES"}).read(t.Context(), Options{Headers: map[string]string{}}); err != nil || len(c.headers) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
	collector := telemetrytest.New()
	defer collector.Close()
	export(t, Options{Endpoint: collector.URL()})
	if got := collector.Points("histogram"); len(got) != 1 || got[0].Count != 2 || got[0].Value != 11 {
		t.Errorf("an exponential histogram: %+v", got)
	}
}

// TestCertificates checks that the certificate of the collector is checked by that of the
// variable, that the own one is sent, and that plain HTTP is refused.
func TestCertificates(t *testing.T) {
	for _, grpc := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			if grpc {
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Grpc-Status", "0")
			}
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		defer s.Close()
		o := Options{Endpoint: s.URL, GRPC: grpc}
		of := signal{variable: "TRACES", path: "v1/traces", method: "/Traces/Export"}
		strange, err := newSender(t.Context(), o, of)
		if err != nil {
			t.Fatal(err)
		}
		if f := strange.attempt(t.Context(), nil); f == nil || !strings.Contains(f.err.Error(), "certificate") {
			t.Errorf("grpc=%t, without the certificate: %+v", grpc, f)
		}
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(prefix+"CERTIFICATE", file)
		known, err := newSender(t.Context(), o, of)
		if err != nil {
			t.Fatal(err)
		}
		if f := known.attempt(t.Context(), nil); f != nil {
			t.Errorf("grpc=%t: %v", grpc, f.err)
		}
		known.close()
		strange.close()
		if _, err := newSender(t.Context(), Options{Endpoint: "http://127.0.0.1:1", GRPC: grpc}, of); !errors.Is(err, errCertificates) {
			t.Errorf("grpc=%t, over plain HTTP: %v", grpc, err)
		}
		t.Setenv(prefix+"CERTIFICATE", "")
	}
}

// answers answers one request after another.
type answers struct {
	list []func() (*http.Response, error)
	made []time.Time
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.made = append(a.made, time.Now())
	n := min(len(a.made), len(a.list)) - 1 // the last one is repeated
	return a.list[n]()
}

func answer(code int, body string, header ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func away() (*http.Response, error) { return nil, errors.New("connection refused") }

// retryDetails are the details of a status with a RetryInfo of 4.5 seconds.
func retryDetails() string {
	delay := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 4)
	delay = protowire.AppendVarint(protowire.AppendTag(delay, 2, protowire.VarintType), 5e8)
	info := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), delay)
	detail := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "type.googleapis.com/google.rpc.RetryInfo")
	detail = protowire.AppendBytes(protowire.AppendTag(detail, 2, protowire.BytesType), info)
	status := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 8)
	return base64.StdEncoding.EncodeToString(protowire.AppendBytes(protowire.AppendTag(status, 3, protowire.BytesType), detail))
}

// partial is an answer that says that the collector has refused 3 spans.
func partial() string {
	p := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3)
	p = protowire.AppendString(protowire.AppendTag(p, 2, protowire.BytesType), "too old")
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), p))
}

// TestRetry checks which requests are repeated, how soon, and which errors are reported.
func TestRetry(t *testing.T) {
	ok := answer(200, "")
	grpc := func(code string, more ...string) func() (*http.Response, error) {
		return answer(200, "", append([]string{"Grpc-Status", code, "Grpc-Message", "over%20there"}, more...)...)
	}
	for name, tt := range map[string]struct {
		grpc     bool
		list     []func() (*http.Response, error)
		attempts int // 0: until the time is over
		after    time.Duration
		err      string
	}{
		"taken":              {false, []func() (*http.Response, error){ok}, 1, 0, ""},
		"busy":               {false, []func() (*http.Response, error){answer(503, ""), answer(429, ""), ok}, 3, time.Second, ""},
		"busy for some time": {false, []func() (*http.Response, error){answer(503, "", "Retry-After", "7"), ok}, 2, 7 * time.Second, ""},
		"busy for too long":  {false, []func() (*http.Response, error){answer(503, "later", "Retry-After", "21"), ok}, 1, 0, "503: later"},
		"away":               {false, []func() (*http.Response, error){away}, 0, 10 * time.Second, "refused"},
		"refused":            {false, []func() (*http.Response, error){answer(400, "bad")}, 1, 0, "400: bad"},
		"partly":             {false, []func() (*http.Response, error){answer(200, partial(), "Content-Type", protobuf)}, 1, 0, "refuses 3 spans: too old"},
		"gRPC: taken":        {true, []func() (*http.Response, error){grpc("0")}, 1, 0, ""},
		"gRPC: partly":       {true, []func() (*http.Response, error){answer(200, string(frame([]byte(partial()), false)), "Grpc-Status", "0")}, 1, 0, "refuses 3 spans: too old"},
		"gRPC: unavailable":  {true, []func() (*http.Response, error){grpc("14"), grpc("0")}, 2, 0, ""},
		"gRPC: exhausted":    {true, []func() (*http.Response, error){grpc("8")}, 1, 0, "code 8 of gRPC: over there"},
		"gRPC: exhausted, with a time": {true, []func() (*http.Response, error){
			grpc("8", "Grpc-Status-Details-Bin", retryDetails()), grpc("0"),
		}, 2, 4500 * time.Millisecond, ""},
		"gRPC: denied":     {true, []func() (*http.Response, error){grpc("7")}, 1, 0, "code 7"},
		"gRPC: a proxy":    {true, []func() (*http.Response, error){answer(502, ""), grpc("0")}, 2, 0, ""},
		"gRPC: a web page": {true, []func() (*http.Response, error){answer(200, "<html>", "Content-Type", "text/html")}, 1, 0, "does not come from a gRPC collector"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := newSender(t.Context(), Options{GRPC: tt.grpc}, signal{variable: "TRACES", items: "spans"})
				if err != nil {
					t.Fatal(err)
				}
				a := &answers{list: tt.list}
				s.client.Transport = a
				begin := time.Now()
				err = s.send(t.Context(), []byte("x"))
				if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				took := time.Since(begin)
				if took < tt.after || took > retryTotal || tt.attempts > 0 && len(a.made) != tt.attempts || tt.attempts == 0 && len(a.made) < 4 {
					t.Errorf("%d attempts in %v", len(a.made), took)
				}
				if !slices.IsSortedFunc(a.made, time.Time.Compare) {
					t.Error(a.made)
				}
			})
		})
	}
}

// TestRetryEnds checks that nothing is repeated after the end of the context, and that an
// attempt has a limit.
func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newSender(t.Context(), Options{}, signal{variable: "TRACES"})
		if err != nil {
			t.Fatal(err)
		}
		a := &answers{list: []func() (*http.Response, error){away}}
		s.client.Transport = a
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.send(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || len(a.made) != 1 {
			t.Errorf("%v after %d attempts", err, len(a.made))
		}
		s.client.Transport = silent{}
		begin := time.Now()
		if f := s.attempt(t.Context(), nil); f == nil || !f.again || time.Since(begin) != defaultTimeout {
			t.Errorf("%+v after %v", f, time.Since(begin))
		}
	})
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
