package supervise

import (
	"context"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// ProtocolReport explains which revision is spoken with an upstream.
type ProtocolReport struct {
	Server     string `json:"server"`
	Configured string `json:"configured"`     // the key protocol
	Protocol   string `json:"protocol"`       // the revision in use; "" for none
	How        string `json:"how"`            // how the revision was found
	Found      string `json:"found"`          // the revision without a handshake found by a probe; "" for none
	Probe      string `json:"probe"`          // the outcome of the probe
	Next       string `json:"next,omitempty"` // the resulting change
}

// Protocols asks every enabled upstream for the upstream's revisions, each over a separate
// connection, and remembers the findings.
func (u *Upstreams) Protocols(ctx context.Context) []ProtocolReport {
	cfg := u.cfg.Load()
	var reports []ProtocolReport
	var managed []*managedUpstream
	for _, conf := range Enabled(cfg) {
		if m, ok := u.managed(nil, conf.Name); ok {
			managed = append(managed, m)
			reports = append(reports, ProtocolReport{Server: conf.Name, Configured: string(conf.Protocol)})
		}
	}
	var asked sync.WaitGroup
	for i, m := range managed {
		asked.Go(func() { m.explain(ctx, &reports[i]) })
	}
	asked.Wait()
	return reports
}

// explain asks the upstream, and completes the report.
func (m *managedUpstream) explain(ctx context.Context, r *ProtocolReport) {
	st := m.Status()
	r.Protocol, r.How = m.env.mask(st.ProtocolVersion), m.env.mask(st.Agreed)
	spec, err := m.resolve(ctx, m.spec)
	if err != nil {
		r.Probe = m.env.mask(err.Error())
		return
	}
	found := servers.Probe(ctx, spec, m.client.name, m.client.version)
	r.Found, r.Probe = m.env.mask(found.Revision), m.env.mask(found.Text)
	if auto := m.spec.Protocol == "" || m.spec.Protocol == servers.ProtocolAuto; !auto || found.Era == 0 {
		return
	}
	v := servers.Verdict{Era: found.Era, At: time.Now()}
	v.Only = v.Era == protocol.Stateless && m.snapshot().Verdict.Only
	m.updateVerdict(v)
	switch spoken, ok := protocol.Lookup(st.ProtocolVersion); {
	case !ok || spoken.Era() == found.Era:
	case found.Era == protocol.Stateless:
		r.Next = "it is used for clients of that revision"
	default:
		r.Next = "another revision is used from the next start on"
	}
}
