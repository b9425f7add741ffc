// Package otlp sends spans and metrics to a collector by OTLP: over HTTP with protobuf, or by gRPC.
// Both are requests of net/http with the same content, so a single sender serves both, and the
// packages of gRPC, which would be a tenth of the program, are not linked.
//
// The standard variables replace missing options, as in the exporters of the OpenTelemetry SDK
// (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
package otlp

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Options of an exporter.
type Options struct {
	// Endpoint is the address of the collector, http or https, without the path of a signal; "" for
	// the address in the variables, or http://localhost:4318 (4317 for gRPC).
	Endpoint string
	GRPC     bool
	// Headers are sent with every request; nil: the headers in the variables.
	Headers map[string]string
	// UserAgent names the program.
	UserAgent string
}

// NewSpans makes an exporter of spans, without connecting.
func NewSpans(ctx context.Context, o Options) (tracesdk.SpanExporter, error) {
	s, err := newSender(ctx, o, signal{
		variable: "TRACES", path: "v1/traces", items: "spans",
		method: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	})
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, spanClient{s})
}

// spanClient implements otlptrace.Client.
type spanClient struct{ sender *sender }

func (spanClient) Start(context.Context) error { return nil }

func (c spanClient) Stop(context.Context) error {
	c.sender.close()
	return nil
}

func (c spanClient) UploadTraces(ctx context.Context, spans []*traces.ResourceSpans) error {
	// ExportTraceServiceRequest has the same fields, but the package of that type links gRPC.
	message, err := proto.Marshal(&traces.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	return c.sender.send(ctx, message)
}

// NewMetrics makes an exporter of metrics, without connecting.
func NewMetrics(ctx context.Context, o Options) (metricsdk.Exporter, error) {
	s, err := newSender(ctx, o, signal{
		variable: "METRICS", path: "v1/metrics", items: "data points",
		method: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	})
	if err != nil {
		return nil, err
	}
	return metricExporter{s, temporality(), aggregation()}, nil
}

// metricExporter implements metricsdk.Exporter.
type metricExporter struct {
	sender      *sender
	temporality metricsdk.TemporalitySelector
	aggregation metricsdk.AggregationSelector
}

func (e metricExporter) Temporality(kind metricsdk.InstrumentKind) metricdata.Temporality {
	return e.temporality(kind)
}

func (e metricExporter) Aggregation(kind metricsdk.InstrumentKind) metricsdk.Aggregation {
	return e.aggregation(kind)
}

func (e metricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	// As for spans: ExportMetricsServiceRequest has the same fields.
	message, err := proto.Marshal(&metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{convert(data)}})
	if err != nil {
		return err
	}
	return e.sender.send(ctx, message)
}

func (metricExporter) ForceFlush(ctx context.Context) error { return ctx.Err() }

func (e metricExporter) Shutdown(context.Context) error {
	e.sender.close()
	return nil
}
