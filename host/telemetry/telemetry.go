// Package telemetry sends traces and metrics to a collector, and shows metrics to Prometheus, by
// the OpenTelemetry SDK. The package observes requests through interfaces of the packages that
// handle them, and changes only the trace context in params._meta. Start with Telemetry.
//
// Names of spans, attributes and metrics follow the semantic conventions for MCP
// (github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md); additional names
// begin with mcp_metatool. Arguments, results and messages of errors, which quote both, can contain
// secrets and are not recorded. A nil *Telemetry is switched off: the interfaces of the other
// packages stay nil, and cost nothing.
package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry/otlp"
)

// scope is the name of the instrumentation.
const scope = "github.com/mcp-metatool/mcp-metatool/host/telemetry"

// maxAttribute bounds the values of attributes, in bytes. Clients and servers choose some
// of them.
const maxAttribute = 1024

// Options of a Telemetry.
type Options struct {
	Name, Version string // of the product
	// Log gets the events of the connection with the collector. The Logger must mask the secrets of
	// the configuration.
	Log *slog.Logger
	// Mask replaces the secrets of the configuration in exported texts. Mask is called
	// concurrently. Nil: no secrets.
	Mask func(text string) string
}

// Telemetry follows requests and runs. A Telemetry is safe for concurrent use. Every method can be
// called on nil, which is switched off.
type Telemetry struct {
	cfg    config.Telemetry
	log    *slog.Logger
	mask   func(text string) string
	agent  string // the name and version of the product
	guard  *guard
	traces *tracesdk.TracerProvider // nil: no spans
	tracer trace.Tracer             // of traces; nil without traces
	meters *metricsdk.MeterProvider // nil: no metrics
	instruments
	registry *prometheus.Registry // nil: nothing is shown to Prometheus
}

// New starts telemetry, without waiting for the collector. The result is nil if the configuration
// and the environment switch everything off. The caller must Close the Telemetry.
func New(ctx context.Context, cfg config.Telemetry, opts Options) (*Telemetry, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		cfg.OTLP = false
	}
	if !cfg.OTLP && cfg.Listen == "" {
		return nil, nil
	}
	quietSDK(opts.Log)
	checkVariables(opts.Log)
	t := &Telemetry{cfg: cfg, log: opts.Log, mask: opts.Mask, agent: opts.Name + "/" + opts.Version, guard: newGuard(opts.Log)}
	if t.mask == nil {
		t.mask = func(text string) string { return text }
	}
	if err := t.start(ctx, describe(ctx, opts)); err != nil {
		return nil, fmt.Errorf("telemetry: %w", errors.Join(err, t.Close(ctx)))
	}
	return t, nil
}

// describe returns the resource, without details of the machine or the process: the findings of
// detectors, such as command lines, can contain secrets. Invalid parts of variables are ignored;
// see checkVariables.
func describe(ctx context.Context, opts Options) *resource.Resource {
	about, _ := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", opts.Name),
			attribute.String("service.version", opts.Version),
			attribute.String("service.instance.id", rand.Text()),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
	)
	return about
}

// start makes the providers.
func (t *Telemetry) start(ctx context.Context, about *resource.Resource) error {
	if exporter := t.spans(ctx); exporter != nil {
		limits := tracesdk.NewSpanLimits()
		if limits.AttributeValueLengthLimit < 0 {
			limits.AttributeValueLengthLimit = maxAttribute
		}
		exporter := maskedSpans{exporter, t.mask, limits.AttributeValueLengthLimit}
		limits.AttributeValueLengthLimit += maxMasked
		t.traces = tracesdk.NewTracerProvider(
			tracesdk.WithBatcher(guardedSpans{exporter, t.guard}, batches()...), tracesdk.WithResource(about), tracesdk.WithRawSpanLimits(limits),
		)
		t.tracer = t.traces.Tracer(scope)
	}
	readers, err := t.readers(ctx)
	if err != nil || len(readers) == 0 {
		return err
	}
	options := []metricsdk.Option{metricsdk.WithResource(about)}
	for _, r := range readers {
		options = append(options, metricsdk.WithReader(r))
	}
	t.meters = metricsdk.NewMeterProvider(options...)
	t.instruments, err = newInstruments(t.meters.Meter(scope))
	return err
}

// readers returns the readers of the metrics: OTLP, Prometheus, both or none.
func (t *Telemetry) readers(ctx context.Context) ([]metricsdk.Reader, error) {
	var readers []metricsdk.Reader
	if exporter := t.metrics(ctx); exporter != nil {
		readers = append(readers, metricsdk.NewPeriodicReader(exporter))
	}
	if t.cfg.Listen != "" {
		registry, err := newRegistry()
		if err != nil {
			return nil, err
		}
		exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
		if err != nil {
			return nil, err
		}
		t.registry = registry
		readers = append(readers, exporter)
	}
	return readers, nil
}

// spans returns the exporter of spans; nil if no traces are sent.
func (t *Telemetry) spans(ctx context.Context) tracesdk.SpanExporter {
	if !t.cfg.OTLP || !t.cfg.Traces || disabled("OTEL_TRACES_EXPORTER") {
		return nil
	}
	exporter, err := otlp.NewSpans(ctx, t.collector("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"))
	if err != nil {
		t.log.Warn(notSent, "signal", "traces", "err", err)
		return nil
	}
	return exporter
}

// metrics returns the exporter of metrics; nil if none are sent.
func (t *Telemetry) metrics(ctx context.Context) metricsdk.Exporter {
	if !t.cfg.OTLP || !t.cfg.Metrics || disabled("OTEL_METRICS_EXPORTER") {
		return nil
	}
	exporter, err := otlp.NewMetrics(ctx, t.collector("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"))
	if err != nil {
		t.log.Warn(notSent, "signal", "metrics", "err", err)
		return nil
	}
	return guardedMetrics{exporter, t.guard}
}

// notSent is logged in place of an error: the configuration has been checked, and mistakes
// in variables stop nothing.
const notSent = "telemetry is not sent: the configuration of the collector and the OTEL_* variables do not fit together"

// disabled reports whether a standard variable switches a signal off.
func disabled(variable string) bool {
	return strings.EqualFold(strings.TrimSpace(os.Getenv(variable)), "none")
}

// Watch registers state, which is called whenever metrics are read, and must not block. stop ends
// the registration.
func (t *Telemetry) Watch(state func() State) (stop func()) {
	if t == nil || t.meters == nil {
		return func() {}
	}
	registration, err := t.meters.Meter(scope).RegisterCallback(func(_ context.Context, o metric.Observer) error {
		t.observe(o, state())
		return nil
	}, t.upstreamReady, t.runsActive, t.storeAvailable, t.replicas, t.draining, t.work)
	if err != nil { // cannot happen: the instruments are of this provider
		t.log.Error("telemetry of upstreams is not available", "err", err)
		return func() {}
	}
	return func() { _ = registration.Unregister() }
}

// Close sends the remaining telemetry until ctx ends, then drops the rest. On return, no goroutine
// is left.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	// The providers stop when their exporters fail, not when ctx ends; so let the exporters fail,
	// to leave no goroutine.
	defer context.AfterFunc(ctx, t.guard.abandon)()
	var errs [2]error
	var ends sync.WaitGroup
	if t.traces != nil {
		ends.Go(func() { errs[0] = t.traces.Shutdown(context.WithoutCancel(ctx)) })
	}
	if t.meters != nil {
		ends.Go(func() { errs[1] = t.meters.Shutdown(context.WithoutCancel(ctx)) })
	}
	ends.Wait()
	t.guard.abandon()
	return errors.Join(errs[:]...)
}
