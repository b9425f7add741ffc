package host

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/health"
	"github.com/mcp-metatool/mcp-metatool/host/route"
)

// CheckHealth implements builtin.Health. It is for agents: what servers wrote to
// stderr is left out.
func (h *Host) CheckHealth(ctx context.Context, origin route.Origin, server string) ([]health.Report, error) {
	c := health.Checker{}
	var session route.Session
	if origin != nil {
		c.Owner, session = origin, origin.Session()
	}
	return h.check(ctx, c, session, server)
}

// Checkup checks every upstream, for whoever runs the product.
func (h *Host) Checkup(ctx context.Context) []health.Report {
	reports, _ := h.check(ctx, health.Checker{Details: true}, nil, "") // asks for none that is unknown
	return reports
}

// check checks the upstreams as a session (nil: none) reaches them, or the one
// called server, which can be what scripts call it.
func (h *Host) check(ctx context.Context, c health.Checker, session route.Session, server string) ([]health.Report, error) {
	cfg := h.config()
	c.Mask = cfg.NewMasker().Mask
	var targets []health.Target
	unknown := &health.UnknownError{Server: server}
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		unknown.Known = append(unknown.Known, u.Name)
		if server != "" && abi.Ident(u.Name) != abi.Ident(server) {
			continue
		}
		t := health.Target{Name: u.Name, Probe: u.Probe, Wake: server != ""}
		if !u.Disabled {
			connection, ok := h.upstreams.For(session, u.Name)
			if !ok {
				continue // only sessions have it, or it is being removed
			}
			t.Connection = connection.Upstream.(*slot)
		}
		targets = append(targets, t)
	}
	if targets == nil && server != "" {
		return nil, unknown
	}
	return c.Check(ctx, targets), nil
}
