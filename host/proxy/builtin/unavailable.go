package builtin

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// Availability knows which servers are not available.
type Availability interface {
	// UnavailableServers returns the unavailable servers for the session of origin, in the order of
	// the configuration, without waiting.
	UnavailableServers(origin route.Origin) []health.Unavailable
}

type unavailableServers []health.Unavailable

func (h *Handler) unavailable(call route.Call) unavailableServers {
	if h.cfg.Availability == nil {
		return nil
	}
	return h.cfg.Availability.UnavailableServers(call.Origin)
}

// of returns the entries about one server, by the server's script name; "" for all.
func (a unavailableServers) of(server string) []health.Unavailable {
	if server == "" {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(one health.Unavailable) bool { return one.Server != server })
}
