package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

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
