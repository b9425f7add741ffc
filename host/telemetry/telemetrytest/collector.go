// Package telemetrytest is a collector for tests: it takes traces and metrics over OTLP, by HTTP
// with protobuf, and by gRPC.
package telemetrytest

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	Name              string
	Kind              string // "server", "client", "internal"
	Trace, ID, Parent string // in hexadecimal; Parent is "" for a root
	State             string
	Failed            bool
	Attributes        map[string]string
}

// Point is a received point of a metric.
type Point struct {
	Metric     string
	Attributes map[string]string
	Count      uint64  // of a histogram
	Value      float64 // of a histogram the sum
}

// Collector is a collector. The methods are safe for concurrent use.
type Collector struct {
	server *httptest.Server

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when something arrives
	spans    []Span
	points   []Point
	resource map[string]string
	headers  http.Header
	raw      []byte
}

// New starts a collector on a port of this machine. The caller must Close the Collector.
func New() *Collector {
	c := &Collector{changed: make(chan struct{})}
	takeSpans := func(w http.ResponseWriter, r *http.Request) {
		var request traces.TracesData // with the fields of ExportTraceServiceRequest, whose package links gRPC
		c.receive(w, r, &request, func() {
			for _, of := range request.ResourceSpans {
				c.resource = attributes(of.Resource.GetAttributes())
				for _, scope := range of.ScopeSpans {
					for _, s := range scope.Spans {
						c.spans = append(c.spans, span(s))
					}
				}
			}
		})
	}
	takeMetrics := func(w http.ResponseWriter, r *http.Request) {
		var request metrics.MetricsData
		c.receive(w, r, &request, func() {
			c.points = nil // they are cumulative
			for _, of := range request.ResourceMetrics {
				for _, scope := range of.ScopeMetrics {
					for _, m := range scope.Metrics {
						c.points = append(c.points, points(m)...)
					}
				}
			}
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", takeSpans)
	mux.HandleFunc("POST /opentelemetry.proto.collector.trace.v1.TraceService/Export", takeSpans)
	mux.HandleFunc("POST /v1/metrics", takeMetrics)
	mux.HandleFunc("POST /opentelemetry.proto.collector.metrics.v1.MetricsService/Export", takeMetrics)
	c.server = httptest.NewUnstartedServer(mux)
	c.server.Config.Protocols = new(http.Protocols)
	c.server.Config.Protocols.SetHTTP1(true)
	c.server.Config.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	c.server.Start()
	return c
}

// URL returns the address of the collector.
func (c *Collector) URL() string { return c.server.URL }

// Close ends the collector.
func (c *Collector) Close() { c.server.Close() }

// receive decodes a request, and calls keep with c.mu held.
func (c *Collector) receive(w http.ResponseWriter, r *http.Request, into proto.Message, keep func()) {
	body := io.Reader(r.Body)
	grpc := r.Header.Get("Content-Type") == "application/grpc"
	zipped := r.Header.Get("Content-Encoding") == "gzip"
	if grpc {
		head := make([]byte, 5) // whether the message is compressed, and the message's length
		if _, err := io.ReadFull(body, head); err != nil || r.ProtoMajor != 2 || r.Header.Get("TE") != "trailers" {
			http.Error(w, "this is no call by gRPC", http.StatusBadRequest)
			return
		}
		zipped = head[0] == 1 && r.Header.Get("Grpc-Encoding") == "gzip"
		body = io.LimitReader(body, int64(binary.BigEndian.Uint32(head[1:])))
	}
	if zipped {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err == nil {
		err = proto.Unmarshal(raw, into)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.headers = append(c.raw, raw...), r.Header
	keep()
	close(c.changed)
	c.changed = make(chan struct{})
	if grpc {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(make([]byte, 5)) // an empty message
		w.Header().Set("Grpc-Status", "0")
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Spans returns the received spans, in the order of their ends.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Points returns the points of a metric in the last export.
func (c *Collector) Points(metric string) []Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Point
	for _, p := range c.points {
		if p.Metric == metric {
			found = append(found, p)
		}
	}
	return found
}

// Resource returns the attributes of the sender.
func (c *Collector) Resource() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource
}

// Raw returns all received bytes, and the headers of the last request.
func (c *Collector) Raw() ([]byte, http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw), c.headers
}

// Wait waits until the condition holds, which is checked when something has arrived, or
// until ctx ends.
func (c *Collector) Wait(ctx context.Context, condition func() bool) error {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func span(s *traces.Span) Span {
	return Span{
		Name: s.Name, Kind: kinds[s.Kind],
		Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		State: s.TraceState, Failed: s.Status.GetCode() == traces.Status_STATUS_CODE_ERROR, Attributes: attributes(s.Attributes),
	}
}

var kinds = map[traces.Span_SpanKind]string{
	traces.Span_SPAN_KIND_SERVER: "server", traces.Span_SPAN_KIND_CLIENT: "client", traces.Span_SPAN_KIND_INTERNAL: "internal",
}

func points(m *metrics.Metric) []Point {
	var all []Point
	for _, p := range m.GetHistogram().GetDataPoints() {
		all = append(all, Point{m.Name, attributes(p.Attributes), p.Count, p.GetSum()})
	}
	for _, p := range m.GetExponentialHistogram().GetDataPoints() {
		all = append(all, Point{m.Name, attributes(p.Attributes), p.Count, p.GetSum()})
	}
	for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
		all = append(all, Point{m.Name, attributes(p.Attributes), 0, float64(p.GetAsInt()) + p.GetAsDouble()})
	}
	return all
}

func attributes(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, kv := range list {
		switch v := kv.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			all[kv.Key] = strconv.FormatInt(v.IntValue, 10)
		default:
			all[kv.Key] = fmt.Sprint(kv.Value)
		}
	}
	return all
}
