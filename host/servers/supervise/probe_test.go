package supervise

import (
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// TestProtocols checks the explanation of each server's protocol, and that the findings of a probe
// are remembered.
func TestProtocols(t *testing.T) {
	t.Parallel()
	old, _ := server(t, "old", mcptest.ServerOptions{})
	both, _ := server(t, "both", mcptest.ServerOptions{Eras: "both"})
	pinned, _ := server(t, "pinned", mcptest.ServerOptions{Eras: "both"})
	pinned.Protocol = "legacy"
	cfg := configOf(t, old, both, pinned)
	r := start(t, cfg, NoClient)
	for _, m := range r.all() {
		if err := m.Ready(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []ProtocolReport{
		{"old", "", "2025-11-25", "initialize, because server/discover was answered with error -32000: Bad Request: Mcp-Session-Id header is required", "", "server/discover was answered with error -32000: Bad Request: Mcp-Session-Id header is required", ""},
		{"both", "", "2026-07-28", "server/discover was answered", "2026-07-28", "server/discover was answered", ""},
		{"pinned", "legacy", "2025-11-25", "configured", "2026-07-28", "server/discover was answered", ""},
	} {
		if got := r.Protocols(bounded(t)); got[i] != want {
			t.Errorf("got  %+v\nwant %+v", got[i], want)
		}
	}
	for _, m := range r.all() {
		want := map[string]protocol.Era{"old": protocol.Handshake, "both": protocol.Stateless}[m.name]
		s, ok := m.env.snapshots.load(m.name, m.key, "")
		if got := s.Verdict; !ok || got.Era != want || (want != 0) == got.At.IsZero() {
			t.Errorf("%s: %+v", m.name, got)
		}
	}
}

// TestVerdictOfAnotherProcess checks that a running process does not take back the verdict of
// another process's probe, and that the running process can still forget the verdict.
func TestVerdictOfAnotherProcess(t *testing.T) {
	t.Parallel()
	conf, _ := server(t, "old", mcptest.ServerOptions{})
	r := start(t, configOf(t, conf), ManyClients)
	m := r.all()[0]
	if err := m.Ready(bounded(t)); err != nil {
		t.Fatal(err)
	}
	m.saving.Lock() // the start may not have been saved yet
	stored, ok := m.env.snapshots.load(m.name, m.key, "")
	stored.Verdict = servers.Verdict{Era: protocol.Stateless, At: time.Now()}
	m.env.snapshots.save(m.name, stored.encode(m.key))
	m.saving.Unlock()
	if !ok {
		t.Fatal("nothing was saved")
	}
	for _, step := range []struct {
		name string
		do   func()
		want protocol.Era
	}{
		{"something else is saved", func() {
			m.update(func(s *Snapshot) { s.Handshake = []byte(`{"protocolVersion":"2025-11-25"}`) })
			m.save()
		}, protocol.Stateless},
		{"found to be wrong", func() { m.updateVerdict(servers.Verdict{}) }, 0},
		{"asked again", func() { m.updateVerdict(servers.Verdict{Era: protocol.Handshake, At: time.Now()}) }, protocol.Handshake},
	} {
		step.do()
		if s, ok := m.env.snapshots.load(m.name, m.key, ""); !ok || s.Verdict.Era != step.want {
			t.Errorf("%s: era %v, want %v", step.name, s.Verdict.Era, step.want)
		}
	}
}
