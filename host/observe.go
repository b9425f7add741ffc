package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry"
)

// isTool reports whether agents can call a tool with the name.
func (h *Host) isTool(name string) bool {
	_, ok := h.catalog.Tool(name)
	return ok
}

// state returns the state for metrics.
func (h *Host) state() telemetry.State {
	s := telemetry.State{Runs: h.sandbox.Active()}
	for _, u := range h.upstreams.States() {
		s.Upstreams = append(s.Upstreams, telemetry.UpstreamState{Name: u.Name, Ready: u.State == servers.Ready})
	}
	if h.fleet != nil {
		s.Fleet = &telemetry.FleetState{Available: h.fleet.Away() == nil, Draining: h.fleet.IsDraining(), Replicas: map[string]int{}, Work: h.fleet.Counts()}
		for _, r := range h.fleet.Replicas() {
			s.Fleet.Replicas[r.State.String()]++
		}
	}
	return s
}

// ServePagesOn serves /metrics, /healthz and /readyz on ln until ctx ends, and closes ln.
// The error is nil when ctx ends, or is the reason why serving failed. Options.Telemetry must be
// configured to listen.
func (h *Host) ServePagesOn(ctx context.Context, ln net.Listener) error {
	server := streamable.NewServer(h.opts.Telemetry.Pages(h.ready), streamable.ServerOptions{MaxConnections: maxMetricsConnections, Log: h.opts.Log})
	server.WriteTimeout = metricsTime
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving metrics on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	err := server.Close()
	<-served
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// Bounds on the readers of pages.
const (
	maxMetricsConnections = 64
	metricsTime           = 10 * time.Second
)
