package supervise

import (
	"crypto/sha256"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// introduce reads the snapshot for the now known client, if open could not. Only
// clientIdentity.adopt calls introduce, before the upstream is told about the client.
func (m *managedUpstream) introduce() {
	m.open()
	if m.waits {
		m.waits = false
		if !m.restore() {
			m.start()
		}
	}
}

// restore publishes the snapshot of an earlier run, and returns false without a snapshot. With
// NoClient restore publishes the snapshot only if the upstream is not started, because a check is
// about the current state of a server. Before the client is known, restore publishes only the parts
// that depend on no client.
func (m *managedUpstream) restore() bool {
	known, ok := m.env.snapshots.load(m.name, m.key, m.mark())
	if !ok {
		return false
	}
	m.saving.Lock()
	m.saved = sha256.Sum256(known.encode(m.key))
	m.saving.Unlock()
	m.mu.Lock()
	m.wasLate, m.known.Verdict = known.Late, known.Verdict
	begun := m.spoken != 0
	m.mu.Unlock()
	if m.waits && known.client != "" || begun {
		return false
	}
	if known.Handshake == nil || m.env.Clients == NoClient && !lazy(m.conf.Load()) {
		m.update(func(s *Snapshot) { s.Late = known.Late })
		return false
	}
	m.mu.Lock()
	m.known, m.remembered = known, true
	m.mu.Unlock()
	m.env.Receiver(m.name, m.own).OnAsleep()
	m.publishHandshake(known.Handshake)
	for surface, l := range known.Lists {
		if err := m.lists.keep(surface, l.memory()); err != nil {
			m.env.Log.Warn("a remembered list is not used", "upstream", m.name, "list", string(surface), "err", limits.Explain(err))
			continue
		}
		m.publishList(catalog.List{Surface: surface, Items: l.Items, Meta: l.Meta, Stateless: known.stateless(), Remembered: true})
	}
	return true
}

// save saves the snapshot for the next run. With NoClient, an existing snapshot is kept, because an
// upstream may offer less to a client without capabilities. The verdict in the file is always kept:
// updateVerdict saves ours, and another process may have a newer verdict.
func (m *managedUpstream) save() {
	m.saving.Lock()
	defer m.saving.Unlock()
	if m.isRetired() {
		return
	}
	now := m.snapshot()
	now.client = m.mark()
	if stored, ok := m.env.snapshots.load(m.name, m.key, now.client); ok {
		now.Verdict, now.rest = stored.Verdict, stored.without(now.client)
		if m.env.Clients == NoClient && stored.Handshake != nil {
			now = stored
			now.Late = false
		}
	}
	m.replaceFile(now)
}

// mark returns Snapshot.client for the capabilities that the upstream was told. A server of the
// stateless era was told nothing before the listing. NoClient takes any snapshot.
func (m *managedUpstream) mark() string {
	if m.env.Clients == NoClient || m.snapshot().stateless() {
		return ""
	}
	return m.client.mark()
}

// replaceFile saves a snapshot if the snapshot differs from the file. The caller holds m.saving.
func (m *managedUpstream) replaceFile(s Snapshot) {
	file := s.encode(m.key)
	if sum := sha256.Sum256(file); sum != m.saved {
		m.saved = sum
		m.env.snapshots.save(m.name, file)
	}
}

// noteLate is saveLate after a wait, but does nothing for an upstream that was closed meanwhile.
func (m *managedUpstream) noteLate() {
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if !closed {
		m.saveLate()
	}
}

// saveLate saves that the upstream was not ready in time, unless the upstream has become ready
// since. The rest of the snapshot is kept. The upstream may be closed already: callers see a
// failure, and can close the upstream, before the failure gets here.
func (m *managedUpstream) saveLate() {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	note := !m.wasReady && !m.known.Late && !m.retired
	m.mu.Unlock()
	if !note {
		return
	}
	m.update(func(s *Snapshot) { s.Late = true })
	stored, _ := m.env.snapshots.load(m.name, m.key, m.mark())
	stored.Late = true
	m.replaceFile(stored)
}

// updateVerdict gets each verdict about the era of the upstream's protocol. The verdict is saved at
// once, because the server may not survive a question about the era.
func (m *managedUpstream) updateVerdict(v servers.Verdict) {
	m.saving.Lock()
	defer m.saving.Unlock()
	if m.isRetired() {
		return
	}
	m.update(func(s *Snapshot) { s.Verdict = v })
	stored, ok := m.env.snapshots.load(m.name, m.key, m.mark())
	if !ok && v.Era == 0 {
		return // nothing to forget
	}
	stored.Verdict = v
	m.replaceFile(stored)
}
