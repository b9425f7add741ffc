package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/metric"
)

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
