package telemetry

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// How often and how long an export is repeated that the collector did not take. Spans that
// end meanwhile wait in a queue of bounded length, and are dropped when it is full.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Second
	retryTotal = 20 * time.Second
)

// spanExporter makes the exporter of spans. It does not connect. What the configuration
// does not say, the exporter takes from the standard variables.
func (t *Telemetry) spanExporter(ctx context.Context) (tracesdk.SpanExporter, error) {
	var exporter tracesdk.SpanExporter
	var err error
	if t.protocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") == config.OTLPgRPC {
		options := []otlptracegrpc.Option{otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
		})}
		if t.cfg.Endpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(t.cfg.Endpoint))
		}
		if t.cfg.Headers != nil {
			options = append(options, otlptracegrpc.WithHeaders(t.cfg.Headers))
		}
		exporter, err = otlptracegrpc.New(ctx, options...)
	} else {
		options := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
		})}
		if t.cfg.Endpoint != "" {
			options = append(options, otlptracehttp.WithEndpointURL(signalURL(t.cfg.Endpoint, "v1/traces")))
		}
		if t.cfg.Headers != nil {
			options = append(options, otlptracehttp.WithHeaders(t.cfg.Headers))
		}
		exporter, err = otlptracehttp.New(ctx, options...)
	}
	return exporter, err
}

// metricExporter is spanExporter for metrics.
func (t *Telemetry) metricExporter(ctx context.Context) (metricsdk.Exporter, error) {
	var exporter metricsdk.Exporter
	var err error
	if t.protocol("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") == config.OTLPgRPC {
		options := []otlpmetricgrpc.Option{otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{
			Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
		})}
		if t.cfg.Endpoint != "" {
			options = append(options, otlpmetricgrpc.WithEndpointURL(t.cfg.Endpoint))
		}
		if t.cfg.Headers != nil {
			options = append(options, otlpmetricgrpc.WithHeaders(t.cfg.Headers))
		}
		exporter, err = otlpmetricgrpc.New(ctx, options...)
	} else {
		options := []otlpmetrichttp.Option{otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
			Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
		})}
		if t.cfg.Endpoint != "" {
			options = append(options, otlpmetrichttp.WithEndpointURL(signalURL(t.cfg.Endpoint, "v1/metrics")))
		}
		if t.cfg.Headers != nil {
			options = append(options, otlpmetrichttp.WithHeaders(t.cfg.Headers))
		}
		exporter, err = otlpmetrichttp.New(ctx, options...)
	}
	return exporter, err
}

// protocol returns the protocol of a signal: that of the configuration, or that of the
// standard variables, of which the first is for this signal. OTLPHTTP is also used in place
// of one that is not supported.
func (t *Telemetry) protocol(variable string) config.OTLPProtocol {
	name := cmp.Or(t.cfg.Protocol, config.OTLPProtocol(cmp.Or(os.Getenv(variable), os.Getenv(protocolVariable))))
	if name != config.OTLPgRPC {
		return config.OTLPHTTP
	}
	return name
}

// signalURL returns the address of a signal over HTTP, below that of the collector.
func signalURL(endpoint, path string) string {
	joined, err := url.JoinPath(endpoint, path)
	if err != nil { // cannot happen: the configuration has been checked
		return endpoint
	}
	return joined
}
