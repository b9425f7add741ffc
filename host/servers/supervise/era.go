package supervise

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// A server with both eras of the protocol is used in the era of the client that a request is made
// for: the questions of the server's tools, and their form, depend on the era. Each era has a
// separate connection, and over stdio a separate process, because few servers can change the era of
// a connection: servers of the Go SDK 1.8 take every request of a connection for a request of the
// first request's era, and server/discover changes the era for good. The other connection is begun
// when a client needs the other era. Clients see the lists of the upstream's own connection.

// eraWait is how long the first calls of clients wait for a connection of their era, from the start
// of the connection. Later calls go over the upstream's own connection until the other connection
// is ready.
const eraWait = 5 * time.Second

// inEra is an upstream as seen by clients of an era.
type inEra struct {
	*managedUpstream
	era protocol.Era
}

var _ route.Submitter = inEra{}

// Server implements route.Upstream.
func (m inEra) Server() (result []byte, ok bool) {
	if sp := m.spares.inEra(m.era); sp != nil {
		if result, ok := sp.up.Server(); ok {
			return result, true
		}
	}
	return m.managedUpstream.Server()
}

// Call implements route.Upstream.
func (m inEra) Call(ctx context.Context, call wire.Call) (wire.Reply, error) {
	return m.callIn(ctx, m.era, call)
}

// Submit implements route.Submitter.
func (m inEra) Submit(call wire.Call, complete wire.CompletionFunc) (cancel func(cause error), ok bool) {
	return m.submitIn(m.era, call, complete)
}

// ofConnection are the requests about a connection, made for no particular client.
var ofConnection = map[string]bool{
	protocol.MethodSetLevel: true, protocol.MethodResourcesSubscribe: true, protocol.MethodResourcesUnsubscribe: true,
}

// otherEra reports whether a request belongs to a connection of another era than the own
// connection. known is false if findEras has to find the eras of the server.
func (m *managedUpstream) otherEra(era protocol.Era, method string) (other, known bool) {
	if era == 0 || ofConnection[method] {
		return false, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	may, ask := m.spec.MaySpeak(era, m.known.Verdict)
	switch {
	case !may && !ask, m.spoken == era:
		return false, true
	case m.spoken == 0, ask:
		return false, false
	}
	return true, true
}

// findEras waits until the own connection has an era, and finds out whether a server in use in the
// handshake era speaks the other era too. The error is the reason for the upstream's failure, or
// the cause of ctx.
func (m *managedUpstream) findEras(ctx context.Context, up *servers.Upstream, era protocol.Era, method string) error {
	if _, err := up.Handshake(ctx); err != nil {
		return err
	}
	m.asking.Lock()
	defer m.asking.Unlock()
	if _, known := m.otherEra(era, method); known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.env.eraWait)
	defer cancel()
	if also, err := up.AlsoStateless(ctx); err == nil {
		m.noteEra(protocol.Stateless, also)
	}
	return nil // without an answer, the next call asks again
}

// noteEra notes whether the server speaks an era that a connection was begun for. The server speaks
// the era of the own connection.
func (m *managedUpstream) noteEra(era protocol.Era, speaks bool) {
	v := servers.Verdict{Era: protocol.Stateless, At: time.Now()}
	switch {
	case speaks:
	case era == protocol.Stateless:
		v.Era = protocol.Handshake
	default:
		v.Only = true
	}
	if now := m.snapshot().Verdict; now.Era != v.Era || now.Only != v.Only {
		m.updateVerdict(v)
	}
}

// compareEra gets the list of a spare of another era. If an item differs from the pinned item, the
// spare is not used: definitions may differ between the eras, and clients see the definitions of
// the own connection.
func (m *managedUpstream) compareEra(sp *spare, surface wire.Surface, items [][]byte) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, surface, items) {
		m.env.Log.Warn("the server's offer in another era differs from the pins: clients of the other era use the connection of this era",
			"upstream", m.name, "list", string(surface))
		sp.unlike.Store(true)
		m.noteEra(sp.era, false)
	}
}

// inEra returns the spare begun for an era, or nil.
func (s *spares) inEra(era protocol.Era) *spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.all {
		if sp.era == era && !sp.unlike.Load() {
			return sp
		}
	}
	return nil
}

// findInEra returns the spare for an era, or nil if a spare is impossible. The caller holds s.mu.
func (s *spares) findInEra(m *managedUpstream, era protocol.Era) *spare {
	for _, sp := range s.all {
		if sp.era == era {
			return sp
		}
	}
	if s.closed || time.Since(s.failed) < spareRetry {
		return nil
	}
	m.env.Log.Info("a connection of another era is begun, for the clients of the other era", "upstream", m.name)
	return s.add(m, era)
}

// awaitSpare waits until a spare has started. The wait for a spare of another era is short: then
// the error is the error of an ended context, and the spare is not to be retired.
func (m *managedUpstream) awaitSpare(ctx context.Context, sp *spare) (err error, late bool) {
	select {
	case <-sp.up.Started():
	default:
		if sp.era != 0 {
			until, cancel := context.WithDeadline(ctx, sp.begun.Add(m.env.eraWait))
			defer cancel()
			err = sp.up.Ready(until)
			return err, until.Err() != nil
		}
	}
	return sp.up.Ready(ctx), ctx.Err() != nil
}
