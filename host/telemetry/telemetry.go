// Package telemetry sends traces and metrics to a collector, and shows metrics to
// Prometheus, by the OpenTelemetry SDK. It follows requests through interfaces of the
// packages that make and answer them, and changes nothing for them but the trace context
// in params._meta.
//
//	telemetry.go   Telemetry: what is switched on, start and end
//	front.go       requests of clients: SERVER spans
//	upstream.go    requests to upstreams and clients: CLIENT spans
//	run.go         runs of composite tools: INTERNAL spans
//	context.go     the trace context in _meta
//	outcome.go     how a request ended
//	attributes.go  the names of attributes and metrics
//	instruments.go the metrics
//	fleet.go       those of a replica and the store of its fleet
//	otlp.go        how a collector is reached; otlp/ has the exporters
//	environment.go mistakes in the standard variables
//	mask.go        secrets in the names and attributes of spans
//	guard.go       a collector that does not answer
//	sdklog.go      what the SDK would write to standard error
//	pages.go       /metrics, /healthz, /readyz
//
// Names of spans, attributes and metrics are those of the semantic conventions for MCP
// (github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md). What they
// do not have begins with mcp_metatool. No arguments and no results are recorded, since
// they can contain secrets. Messages of errors can quote both, so these are not recorded
// either.
//
// A nil *Telemetry is switched off: the interfaces of the other packages stay nil, and
// cost nothing.
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
	// Log gets what happens to the connection with the collector. It must mask the
	// configuration's secrets itself.
	Log *slog.Logger
	// Mask replaces the secrets of the configuration in what is sent. It is called
	// concurrently. Nil: there are none.
	Mask func(text string) string
}

// Telemetry follows requests and runs. It is safe for concurrent use. Nil is one that is
// switched off; every method can be called on it.
type Telemetry struct {
	cfg    config.Telemetry
	log    *slog.Logger
	mask   func(text string) string
	agent  string // the name and version of the product
	guard  *guard
	traces *tracesdk.TracerProvider // nil: there are no spans
	tracer trace.Tracer             // of traces; nil without it
	meters *metricsdk.MeterProvider // nil: there are no metrics
	instruments
	registry *prometheus.Registry // nil: nothing is shown to Prometheus
}

// New starts telemetry. It returns nil if the configuration and the environment switch
// everything off. Nothing waits for the collector. The caller must Close the Telemetry.
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

// describe returns the resource. It says nothing about the machine or the process: what
// detectors find, such as command lines, can contain secrets. Of the variables, what can be
// read is used; see checkVariables.
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

// readers returns what reads the metrics: OTLP, Prometheus, both or none.
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

// spans returns what takes the spans; nil if no traces are sent.
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

// metrics returns what takes the metrics; nil if none are sent.
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

// Watch registers a function that is asked for the state of the proxy whenever metrics are
// read. It must not block. The returned function ends that.
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

// Close sends what has not been sent yet, until ctx ends. It returns when nothing is left.
// What could not be sent is lost.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	// The providers do not stop when ctx ends, but when their exporters fail, so that no
	// goroutine is left.
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
