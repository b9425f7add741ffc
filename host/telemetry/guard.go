package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
)

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
