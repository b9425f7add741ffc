package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
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

// unavailable returns why a server is not available to a session (nil: to no session in
// particular), as a sentence without secrets. reason is "" if the server is available or will be
// started when needed.
func (u *Upstreams) unavailable(session route.Session, c *config.Upstream) (state servers.State, reason string) {
	if c.Disabled {
		return health.Disabled, fmt.Sprintf("server %q is disabled in the configuration (the user who runs mcp-metatool can enable it)", c.Name)
	}
	m, ok := u.managed(session, c.Name)
	if !ok {
		return "", ""
	}
	st := m.Status()
	switch st.State {
	case servers.Starting:
		if st.Err == "" && m.isRemembered() {
			return "", "" // the lists are known, and calls wait for the server
		}
		if st.Err == "" {
			return st.State, fmt.Sprintf("server %q is still starting (try again in a moment)", c.Name)
		}
		reason = fmt.Sprintf("server %q is down and being restarted; its last error: %s", c.Name, health.LastError(st))
	case servers.Failed:
		reason = fmt.Sprintf("server %q is down: %s", c.Name, health.LastError(st))
		switch {
		case c.Invalid != nil:
			// The error includes the advice.
		case st.RestartAt.IsZero():
			reason += `; it is not restarted, because its configuration has restart = "never"`
		default:
			reason += fmt.Sprintf("; the next start is in %v", max(0, time.Until(st.RestartAt)).Round(100*time.Millisecond))
		}
	case servers.Closed:
		return st.State, fmt.Sprintf("server %q has been shut down", c.Name)
	default:
		return st.State, ""
	}
	return st.State, u.env.mask(reason) + " (health_check shows its state)"
}

// Unavailable implements route.Availability.
func (u *Upstreams) Unavailable(session route.Session, server string) (reason string, starting bool) {
	cfg := u.cfg.Load()
	for i := range cfg.Upstreams {
		if c := &cfg.Upstreams[i]; c.Name == server && route.MayUse(session, server) {
			state, reason := u.unavailable(session, c)
			return reason, state == servers.Starting
		}
	}
	return "", false
}

// OwnerUnavailable implements route.Availability. If the name begins with the prefixes of
// several servers, the longest prefix counts. A server without a prefix may have any
// tool.
func (u *Upstreams) OwnerUnavailable(session route.Session, name string) (reason string, sure bool) {
	owner, candidates := u.owners(session, name)
	if owner != nil {
		if _, reason := u.unavailable(session, owner); reason != "" {
			return reason, true
		}
	}
	for _, c := range candidates {
		if _, reason := u.unavailable(session, c); reason != "" {
			return reason, false
		}
	}
	return "", false
}

// owners returns the server of a public name according to the prefix, or nil, and the servers
// without a prefix, which could have the name.
func (u *Upstreams) owners(session route.Session, name string) (owner *config.Upstream, candidates []*config.Upstream) {
	cfg := u.cfg.Load()
	for i := range cfg.Upstreams {
		c := &cfg.Upstreams[i]
		own, ok := strings.CutPrefix(name, c.Prefix)
		switch {
		case !ok || !c.Exposes(own) || c.Hides(own) || !route.RightsOf(session).Shows(c.Name, own):
		case c.Prefix != "" && own != "" && (owner == nil || len(c.Prefix) > len(owner.Prefix)):
			owner = c
		case c.Prefix == "" && !c.Disabled:
			candidates = append(candidates, c)
		}
	}
	return owner, candidates
}

// AwaitOwner waits until the server of a public name, according to the prefix, has started, for the
// server's timeout at most.
func (u *Upstreams) AwaitOwner(ctx context.Context, name string) {
	owner, _ := u.owners(nil, name)
	if owner == nil {
		return
	}
	for _, m := range u.all() {
		if m.name == owner.Name {
			m.awaitStart(ctx, owner.Timeout)
		}
	}
}

// UnavailableServers implements builtin.Availability.
func (u *Upstreams) UnavailableServers(origin route.Origin) []health.Unavailable {
	var session route.Session
	if origin != nil {
		session = origin.Session()
	}
	cfg := u.cfg.Load()
	var all []health.Unavailable
	for i := range cfg.Upstreams {
		c := &cfg.Upstreams[i]
		if state, reason := u.unavailable(session, c); reason != "" && route.MayUse(session, c.Name) {
			all = append(all, health.Unavailable{Server: abi.Ident(c.Name), State: string(state), Why: reason})
		}
	}
	return all
}

// Failure is the last failure of an upstream.
type Failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"` // with the last lines of stderr, and secrets masked
}

const (
	maxFailure = 64 << 10 // bytes
	// sameFailure is how long the same failure is not saved again: a server may fail every
	// few seconds for days.
	sameFailure = 10 * time.Minute
	failureFile = ".failure.json" // after the name of the upstream
)

// ServersDir returns the folder in which upstreams are remembered.
func ServersDir(store string) string { return filepath.Join(store, "servers") }

// LastFailure returns the remembered last failure of an upstream from the directory of a store;
// false if none is remembered.
func LastFailure(store, name string) (Failure, bool) {
	dir := ServersDir(store)
	if _, err := owner.Check(dir); err != nil {
		return Failure{}, false
	}
	data, err := regular.Read(context.Background(), filepath.Join(dir, name+failureFile), maxFailure)
	var f Failure
	if err != nil || json.Unmarshal(data, &f) != nil || f.At.IsZero() {
		return Failure{}, false
	}
	return f, true
}

// noteFailure remembers the failure of the upstream, for commands that explain the failure later.
// The commands see mistakes in the configuration themselves.
func (m *managedUpstream) noteFailure() {
	if m.conf.Load().Invalid != nil {
		return
	}
	f := Failure{At: time.Now().Truncate(time.Second), Error: m.env.mask(m.Status().Err)}
	m.saving.Lock()
	defer m.saving.Unlock()
	if f.Error == m.failure.Error && f.At.Sub(m.failure.At) < sameFailure || m.isRetired() {
		return
	}
	m.failure = f
	data, err := json.Marshal(f)
	if err != nil { // a text always encodes
		return
	}
	m.env.snapshots.saveAs(m.name+failureFile, m.name, append(data, '\n'))
}

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
