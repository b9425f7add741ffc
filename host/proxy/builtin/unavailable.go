package builtin

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// Availability knows which servers are not available.
type Availability interface {
	// UnavailableServers returns them for the session of origin, in the order of the
	// configuration. It does not wait.
	UnavailableServers(origin route.Origin) []health.Unavailable
}

type unavailableServers []health.Unavailable

func (h *Handler) unavailable(call route.Call) unavailableServers {
	if h.cfg.Availability == nil {
		return nil
	}
	return h.cfg.Availability.UnavailableServers(call.Origin)
}

// of returns those of one server, by its script name; "" for all.
func (a unavailableServers) of(server string) []health.Unavailable {
	if server == "" {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(one health.Unavailable) bool { return one.Server != server })
}
