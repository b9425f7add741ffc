package host

import (
	"cmp"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/sessions"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// sharedSessions returns the Fleet with which HTTP sessions continue in another replica; nil
// without a fleet. The caller must Close the Sessions of the result. ttl is the life of the
// sessions of a lost replica.
func (h *Host) sharedSessions(ttl time.Duration) *streamable.Fleet {
	if h.fleet == nil {
		return nil
	}
	all := sessions.Open(sessions.Options{
		Store: h.fleet.Store(), Self: h.fleet.ID(), TTL: cmp.Or(ttl, streamable.DefaultSessionTTL), Log: h.opts.Log,
		Away: func() bool { return h.fleet.Away() != nil },
		Lost: func(replica string) bool {
			r := h.fleet.Replica(replica)
			return r.Lost()
		},
	})
	h.fleet.Count("sessions", func() int64 {
		held, _ := all.Held()
		return int64(held)
	})
	return &streamable.Fleet{
		Sessions: all, Self: h.fleet.ID(), Replica: h.fleet.Replica, Replicas: h.fleet.Replicas, Draining: h.fleet.IsDraining,
		Forward: h.peers.Forward,
	}
}

var (
	_ clients.Restorer = backend{}
)

// Keep implements clients.Restorer.
func (b backend) Keep(s route.Session) (k route.Kept, called policy.Counts, ok bool) {
	return b.Router.Keep(s)
}

// Restore implements clients.Restorer.
func (b backend) Restore(s route.Session, k route.Kept, called policy.Counts) {
	b.upstreams.BeginSession(s)
	b.Router.Restore(s, k, called)
	b.follower.BeginSession(s)
}
