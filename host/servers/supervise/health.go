package supervise

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// CheckHealth implements builtin.Health. The reports are for agents, and so contain no stderr of
// servers.
func (u *Upstreams) CheckHealth(ctx context.Context, origin route.Origin, server string) ([]health.Report, error) {
	c := health.Checker{}
	var session route.Session
	if origin != nil {
		c.Owner, session = origin, origin.Session()
	}
	return u.check(ctx, c, session, server)
}

// Checkup checks every upstream. The reports are for the user and have all details.
func (u *Upstreams) Checkup(ctx context.Context) []health.Report {
	reports, _ := u.check(ctx, health.Checker{Details: true}, nil, "") // check fails only for an unknown server
	return reports
}

// check checks the upstream called server, which may be the upstream's script name, or all
// upstreams if server is "". check uses the session's instances (nil: no session).
func (u *Upstreams) check(ctx context.Context, c health.Checker, session route.Session, server string) ([]health.Report, error) {
	cfg := u.cfg.Load()
	c.Mask = cfg.NewMasker().Mask
	var targets []health.Target
	unknown := &health.UnknownError{Server: server}
	for i := range cfg.Upstreams {
		conf := &cfg.Upstreams[i]
		if !route.MayUse(session, conf.Name) {
			continue // as if the server did not exist
		}
		unknown.Known = append(unknown.Known, conf.Name)
		if server != "" && abi.Ident(conf.Name) != abi.Ident(server) {
			continue
		}
		t := health.Target{Name: conf.Name, Probe: conf.Probe, Wake: server != ""}
		if t.Probe != nil && route.RightsOf(session).Hides(conf.Name, t.Probe.Call) {
			t.Probe = nil // nor may the clients call the tool
		}
		knows := !route.RightsOf(session).Narrows() // clients with narrowed rights may not know all names
		if knows {
			t.Odd = func() []string { return u.env.Catalog.Odd(conf.Name) }
		}
		if p := u.env.Pins; p != nil {
			if knows {
				t.Pins = func() []string { return p.Drift(conf.Name) }
			}
			t.Permitted = func(tool string) error { return p.Permitted(conf.Name, tool) }
		}
		if !conf.Disabled {
			m, ok := u.managed(session, conf.Name)
			if !ok {
				continue // each session has a separate instance, or the upstream is being removed
			}
			t.Connection = m
		}
		targets = append(targets, t)
	}
	if targets == nil && server != "" {
		return nil, unknown
	}
	return c.Check(ctx, targets), nil
}
