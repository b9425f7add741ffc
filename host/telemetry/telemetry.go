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
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/origin"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/store"
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

// instruments are the metrics, nil without metrics.
type instruments struct {
	serverDuration, clientDuration metric.Float64Histogram
	serverSession, clientSession   metric.Float64Histogram

	active        metric.Int64UpDownCounter
	restarts      metric.Int64Counter
	upstreamReady metric.Int64ObservableGauge

	runDuration        metric.Float64Histogram
	runFuel, runMemory metric.Int64Histogram
	runCalls           metric.Int64Histogram
	runsActive         metric.Int64ObservableGauge

	fleetInstruments
}

// The bounds of histograms: from the conventions, and from this program.
var (
	seconds  = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
	fuels    = []float64{1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11}
	memories = []float64{8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30}
	counts   = []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// newInstruments makes the metrics.
func newInstruments(m metric.Meter) (instruments, error) {
	var all instruments
	var errs []error
	duration := func(name, description string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(seconds...))
		errs = append(errs, err)
		return h
	}
	histogram := func(name, unit, description string, bounds []float64) metric.Int64Histogram {
		h, err := m.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		g, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return g
	}
	var err error
	all.serverDuration = duration("mcp.server.operation.duration", "Time from a request of a client to its answer.")
	all.clientDuration = duration("mcp.client.operation.duration", "Time from a request to an upstream, or to a client, to its answer.")
	all.serverSession = duration("mcp.server.session.duration", "Time that a session with a client lasted.")
	all.clientSession = duration("mcp.client.session.duration", "Time that a connection with an upstream lasted.")
	all.active, err = m.Int64UpDownCounter("mcp_metatool.server.active_requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests of clients that are not answered yet."))
	errs = append(errs, err)
	all.restarts, err = m.Int64Counter("mcp_metatool.upstream.restarts", metric.WithUnit("{start}"),
		metric.WithDescription("Starts of an upstream after its first one."))
	errs = append(errs, err)
	all.upstreamReady = gauge("mcp_metatool.upstream.ready", "", "1 while an upstream takes calls, otherwise 0.")
	all.runDuration = duration("mcp_metatool.run.duration", "Time that a run of a composite tool took.")
	all.runFuel = histogram("mcp_metatool.run.fuel", "{instruction}", "Instructions that a run of a composite tool executed, with those of the saved tools that it called.", fuels)
	all.runMemory = histogram("mcp_metatool.run.memory", "By", "Peak memory of a run of a composite tool.", memories)
	all.runCalls = histogram("mcp_metatool.run.calls", "{call}", "Calls of tools that a run of a composite tool made.", counts)
	all.runsActive = gauge("mcp_metatool.run.active", "{run}", "Runs of composite tools in progress.")
	all.fleetInstruments, err = newFleetInstruments(m)
	return all, errors.Join(append(errs, err)...)
}

// newRegistry makes the registry for Prometheus, with metrics of the process.
func newRegistry() (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	return r, errors.Join(r.Register(collectors.NewGoCollector()), r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
}

// State is the state of the proxy at a moment.
type State struct {
	Upstreams []UpstreamState
	Runs      int // in progress
	// Fleet is nil for a process without a fleet.
	Fleet *FleetState
}

// UpstreamState is the state of a shared upstream.
type UpstreamState struct {
	Name  string
	Ready bool
}

// observe reports a state to a reader of metrics.
func (t *Telemetry) observe(o metric.Observer, s State) {
	for _, u := range s.Upstreams {
		ready := int64(0)
		if u.Ready {
			ready = 1
		}
		o.ObserveInt64(t.upstreamReady, ready, metric.WithAttributes(keyUpstream.String(u.Name)))
	}
	o.ObserveInt64(t.runsActive, int64(s.Runs))
	t.observeFleet(o, s.Fleet)
}

// fleetInstruments are the metrics of a replica and of the store of the fleet.
type fleetInstruments struct {
	storeDuration  metric.Float64Histogram
	storeAvailable metric.Int64ObservableGauge
	replicas       metric.Int64ObservableGauge
	draining       metric.Int64ObservableGauge
	work           metric.Int64ObservableGauge
}

// FleetState is the state of a replica, of its peers, and of their store.
type FleetState struct {
	// Available says that the store answered the last request.
	Available, Draining bool
	// Replicas are the numbers of replicas by state.
	Replicas map[string]int
	// Work are the figures of fleet.Fleet.Count by name.
	Work map[string]int64
}

// newFleetInstruments makes the metrics of a fleet.
func newFleetInstruments(m metric.Meter) (all fleetInstruments, err error) {
	var errs [5]error
	all.storeDuration, errs[0] = m.Float64Histogram("mcp_metatool.store.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time that a call of the store of the fleet took."), metric.WithExplicitBucketBoundaries(storeSeconds...))
	all.storeAvailable, errs[1] = m.Int64ObservableGauge("mcp_metatool.store.available", metric.WithDescription("1 while the store of the fleet answers, otherwise 0."))
	all.replicas, errs[2] = m.Int64ObservableGauge("mcp_metatool.fleet.replicas", metric.WithUnit("{replica}"), metric.WithDescription("Replicas of the fleet as this one sees them."))
	all.draining, errs[3] = m.Int64ObservableGauge("mcp_metatool.fleet.draining", metric.WithDescription("1 while this replica drains, otherwise 0."))
	all.work, errs[4] = m.Int64ObservableGauge("mcp_metatool.fleet.work", metric.WithDescription("What this replica does, or has not brought to the store yet, by kind."))
	return all, errors.Join(errs[:]...)
}

// storeSeconds are the bounds of the times of the store.
var storeSeconds = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 15}

// observeFleet reports the state of a replica to a reader of metrics.
func (t *Telemetry) observeFleet(o metric.Observer, s *FleetState) {
	if s == nil {
		return
	}
	o.ObserveInt64(t.storeAvailable, flagged(s.Available))
	o.ObserveInt64(t.draining, flagged(s.Draining))
	for _, state := range []string{"live", "silent"} { // zero is also a value
		o.ObserveInt64(t.replicas, int64(s.Replicas[state]), metric.WithAttributes(keyReplicaState.String(state)))
	}
	for kind, n := range s.Work {
		o.ObserveInt64(t.work, n, metric.WithAttributes(keyWork.String(kind)))
	}
}

func flagged(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// StoreCall notes a call of the store of the fleet. A nil Telemetry does nothing.
func (t *Telemetry) StoreCall(operation string, took time.Duration, err error) {
	if t == nil || t.meters == nil {
		return
	}
	attributes := []attribute.KeyValue{keyStoreOperation.String(operation)}
	if kind := storeError(err); kind != "" {
		attributes = append(attributes, keyErrorType.String(kind))
	}
	t.storeDuration.Record(context.Background(), took.Seconds(), metric.WithAttributes(attributes...))
}

// storeError returns the class of an error of a store. A missing document is no error.
func storeError(err error) string {
	switch {
	case err == nil || errors.Is(err, store.ErrNotFound):
		return ""
	case errors.Is(err, store.ErrUnknown):
		return "unknown"
	case errors.As(err, new(*store.ConflictError)):
		return "conflict"
	case errors.As(err, new(*store.FencedError)):
		return "fenced"
	case errors.Is(err, store.ErrFull):
		return "full"
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed):
		return "unavailable"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	}
	return "_OTHER"
}

// maxScrapes is how many readers of metrics are answered at the same time.
const maxScrapes = 4

// Pages returns the handler of /metrics, /healthz and /readyz. ready reports whether the proxy can
// do all its work, or else what the proxy waits for. Readers of /metrics need a token if the
// configuration has any; the other pages show nothing secret. Requests with an unknown host name,
// or from pages of other origins in a browser, are refused. t must have been configured with
// Listen.
func (t *Telemetry) Pages(ready func() (waitsFor string, ok bool)) http.Handler {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: scrapeErrors{t}, MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !t.admits(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token of [telemetry] is required", http.StatusUnauthorized)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if waitsFor, ok := ready(); !ok {
			http.Error(w, "not ready: "+waitsFor, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	rules := origin.NewRules(nil, t.cfg.AllowedHosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !rules.AllowsHost(r) {
			http.Error(w, "this host is not allowed (add it to allowed_hosts of [telemetry])", http.StatusForbidden)
			return
		}
		if ok, _ := rules.AllowsOrigin(r); !ok {
			http.Error(w, "this origin is not allowed", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// admits reports whether a request has one of the tokens, if the configuration has any. Every token
// is compared, in constant time.
func (t *Telemetry) admits(r *http.Request) bool {
	if len(t.cfg.Tokens) == 0 {
		return true
	}
	return bearer.Find(t.cfg.Tokens, r) != nil
}

// scrapeErrors logs errors of /metrics, as promhttp.Logger.
type scrapeErrors struct{ t *Telemetry }

// Println implements promhttp.Logger.
func (e scrapeErrors) Println(v ...any) { e.t.log.Debug("metrics could not be read", "reason", v) }
