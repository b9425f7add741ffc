package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry/otlp"
)

// collector returns how a signal is sent. The exporter takes missing settings from the standard
// variables; protocol is the variable with the protocol of this signal.
func (t *Telemetry) collector(protocol string) otlp.Options {
	return otlp.Options{Endpoint: t.cfg.Endpoint, GRPC: t.protocol(protocol) == config.OTLPgRPC, Headers: t.cfg.Headers, UserAgent: t.agent}
}

// protocol returns the protocol of a signal: from the configuration, or from the standard
// variables, first from variable, which is for this signal. OTLPHTTP replaces an unsupported
// protocol.
func (t *Telemetry) protocol(variable string) config.OTLPProtocol {
	name := cmp.Or(t.cfg.Protocol, config.OTLPProtocol(cmp.Or(os.Getenv(variable), os.Getenv(protocolVariable))))
	if name != config.OTLPgRPC {
		return config.OTLPHTTP
	}
	return name
}

// The standard variables whose mistakes are reported. The SDK takes its defaults instead, except
// for the variables in batches.
const (
	protocolVariable  = "OTEL_EXPORTER_OTLP_PROTOCOL"
	queueVariable     = "OTEL_BSP_MAX_QUEUE_SIZE"
	batchVariable     = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
	delayVariable     = "OTEL_BSP_SCHEDULE_DELAY"
	timeoutVariable   = "OTEL_BSP_EXPORT_TIMEOUT"
	resourceVariable  = "OTEL_RESOURCE_ATTRIBUTES"
	samplerVariable   = "OTEL_TRACES_SAMPLER"
	samplerOfVariable = "OTEL_TRACES_SAMPLER_ARG"
)

// variables are the standard variables, each with a function that returns the mistake in a value,
// "" for none, without quoting the value, which can be secret.
var variables = []struct {
	names []string
	check func(value string) (mistake string)
}{
	{[]string{queueVariable, batchVariable, delayVariable, timeoutVariable}, badSize},
	{[]string{"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"}, badSize},
	{ofOTLP("TIMEOUT"), badSize},
	{[]string{
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	}, badLimit},
	{ofOTLP("PROTOCOL"), badProtocol},
	{ofOTLP("ENDPOINT"), badAddress},
	{ofOTLP("HEADERS"), badList},
	{[]string{resourceVariable}, badList},
	{[]string{"OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION"}, oneOf("gzip", "none")},
	{slices.Concat(ofOTLP("CERTIFICATE"), ofOTLP("CLIENT_CERTIFICATE"), ofOTLP("CLIENT_KEY")), badFile},
	{[]string{samplerVariable}, oneOf("always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")},
	{[]string{samplerOfVariable}, badRatio},
}

// ofOTLP returns the names of a setting of the exporters: for all signals, and for each.
func ofOTLP(setting string) []string {
	return []string{"OTEL_EXPORTER_OTLP_" + setting, "OTEL_EXPORTER_OTLP_TRACES_" + setting, "OTEL_EXPORTER_OTLP_METRICS_" + setting}
}

// checkVariables logs the mistakes in the standard variables. No mistake is fatal: hosts pass on
// the variables of their own telemetry.
func checkVariables(log *slog.Logger) {
	for _, v := range variables {
		for _, name := range v.names {
			value := strings.TrimSpace(os.Getenv(name))
			if value == "" {
				continue
			}
			if mistake := v.check(value); mistake != "" {
				log.Warn("a variable for telemetry has a mistake, which is ignored", "variable", name, "mistake", mistake)
			}
		}
	}
}

// maxSize bounds numbers of spans, for which the SDK allocates memory at once, and times in
// milliseconds.
const maxSize = 1 << 20

func badSize(value string) string {
	if n, err := strconv.Atoi(value); err != nil || n <= 0 || n > maxSize {
		return fmt.Sprintf("it is not a whole number from 1 to %d", maxSize)
	}
	return ""
}

func badLimit(value string) string {
	if _, err := strconv.Atoi(value); err != nil {
		return "it is not a whole number"
	}
	return ""
}

func badProtocol(value string) string {
	return oneOf(string(config.OTLPHTTP), string(config.OTLPgRPC))(value)
}

func badAddress(value string) string {
	if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "it is not an address of a collector (write http://127.0.0.1:4318, or https://HOST)"
	}
	return ""
}

func badList(value string) string {
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" && !strings.Contains(part, "=") {
			return `a part of it has no "=" (write KEY=VALUE,...)`
		}
	}
	return ""
}

func badFile(value string) string {
	if info, err := os.Stat(value); err != nil || !info.Mode().IsRegular() {
		return "there is no such file"
	}
	return ""
}

func badRatio(value string) string {
	if r, err := strconv.ParseFloat(value, 64); err != nil || !(r >= 0 && r <= 1) {
		return "it is not a number from 0 to 1"
	}
	return ""
}

func oneOf(values ...string) func(string) string {
	return func(value string) string {
		if slices.Contains(values, strings.ToLower(value)) {
			return ""
		}
		return "it is none of " + strings.Join(values, ", ")
	}
}

// batches returns the options of batches of spans that replace mistaken variables: the SDK uses
// them unchecked, and panics for a negative size, and never rests without a delay.
func batches() []tracesdk.BatchSpanProcessorOption {
	bad := func(name string) bool {
		value := os.Getenv(name)
		return value != "" && badSize(value) != ""
	}
	var options []tracesdk.BatchSpanProcessorOption
	if bad(queueVariable) || bad(batchVariable) { // the SDK derives either from the other
		options = append(options, tracesdk.WithMaxQueueSize(tracesdk.DefaultMaxQueueSize), tracesdk.WithMaxExportBatchSize(tracesdk.DefaultMaxExportBatchSize))
	}
	if bad(delayVariable) {
		options = append(options, tracesdk.WithBatchTimeout(tracesdk.DefaultScheduleDelay*time.Millisecond))
	}
	if bad(timeoutVariable) {
		options = append(options, tracesdk.WithExportTimeout(tracesdk.DefaultExportTimeout*time.Millisecond))
	}
	return options
}

// maskedSpans is a SpanExporter that masks secrets. Clients and servers choose names, ids and URIs,
// and can put a secret there, for example in the path of an address. Masking here takes no time of
// a request.
type maskedSpans struct {
	tracesdk.SpanExporter
	mask  func(text string) string
	limit int // of the value of an attribute, in bytes
}

// maxMasked is the additional length of values before they are masked, in bytes, so that no value
// ends with a part of a secret.
const maxMasked = 4 << 10

// ExportSpans implements tracesdk.SpanExporter.
func (e maskedSpans) ExportSpans(ctx context.Context, spans []tracesdk.ReadOnlySpan) error {
	masked := make([]tracesdk.ReadOnlySpan, len(spans))
	for i, s := range spans {
		masked[i] = maskedSpan{s, e.text(s.Name()), maskAttributes(s.Attributes(), e.text)}
	}
	return e.SpanExporter.ExportSpans(ctx, masked)
}

// text returns a text masked, and cut at the limit.
func (e maskedSpans) text(s string) string {
	s = e.mask(s)
	if len(s) > e.limit {
		s = strings.ToValidUTF8(s[:e.limit], "")
	}
	return s
}

// maskedSpan is a span without secrets.
type maskedSpan struct {
	tracesdk.ReadOnlySpan
	name       string
	attributes []attribute.KeyValue
}

func (s maskedSpan) Name() string                     { return s.name }
func (s maskedSpan) Attributes() []attribute.KeyValue { return s.attributes }

// maskAttributes returns the attributes with masked texts, without changing all.
func maskAttributes(all []attribute.KeyValue, mask func(text string) string) []attribute.KeyValue {
	masked := make([]attribute.KeyValue, len(all))
	for i, a := range all {
		if a.Value.Type() == attribute.STRING {
			a.Value = attribute.StringValue(mask(a.Value.AsString()))
		}
		masked[i] = a
	}
	return masked
}

// repeatLog is the interval between log messages about an unreachable collector.
const repeatLog = 10 * time.Minute

// guard keeps an unreachable collector from filling the log, and from holding up the end of the
// process. All exporters share a guard.
type guard struct {
	log *slog.Logger
	ctx context.Context // ends the exports in progress
	end context.CancelFunc

	mu     sync.Mutex           // guards failed; a leaf
	failed map[string]time.Time // when the failure of a signal was logged; absent for a working signal
}

func newGuard(log *slog.Logger) *guard {
	g := &guard{log: log, failed: map[string]time.Time{}}
	g.ctx, g.end = context.WithCancel(context.Background())
	return g
}

// abandon ends the exports in progress and makes later ones fail at once.
func (g *guard) abandon() { g.end() }

// export runs an export and logs a failure. The error is not returned, because the SDK would log
// every failure too.
func (g *guard) export(ctx context.Context, signal string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	err := g.ctx.Err()
	if err == nil {
		err = f(ctx)
	}
	now := time.Now()
	g.mu.Lock()
	logged, failing := g.failed[signal]
	switch {
	case err == nil:
		delete(g.failed, signal)
	case !failing || now.Sub(logged) >= repeatLog:
		g.failed[signal] = now
	}
	g.mu.Unlock()
	switch {
	case err == nil && failing:
		g.log.Info("the collector accepts telemetry again", "signal", signal)
	case err != nil && (!failing || now.Sub(logged) >= repeatLog):
		g.log.Warn("telemetry is lost: the collector does not accept it (repeated at most every 10 minutes)", "signal", signal, "err", err)
	}
	return nil
}

// guardedSpans is a SpanExporter behind a guard.
type guardedSpans struct {
	tracesdk.SpanExporter
	guard *guard
}

// ExportSpans implements tracesdk.SpanExporter.
func (e guardedSpans) ExportSpans(ctx context.Context, spans []tracesdk.ReadOnlySpan) error {
	return e.guard.export(ctx, "traces", func(ctx context.Context) error { return e.SpanExporter.ExportSpans(ctx, spans) })
}

// guardedMetrics is a metric exporter behind a guard.
type guardedMetrics struct {
	metricsdk.Exporter
	guard *guard
}

// Export implements metricsdk.Exporter.
func (e guardedMetrics) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	return e.guard.export(ctx, "metrics", func(ctx context.Context) error { return e.Exporter.Export(ctx, data) })
}

var silence sync.Once

// quietSDK keeps the SDK from writing the values of invalid variables to standard error. See
// checkVariables.
func quietSDK(log *slog.Logger) {
	silence.Do(func() { otel.SetLogger(logr.Discard()) })
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { // the error can quote values, too
		log.Debug("the telemetry SDK reports an error")
	}))
}
