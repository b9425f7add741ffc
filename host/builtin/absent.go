package builtin

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/health"
	"github.com/mcp-metatool/mcp-metatool/host/route"
)

// Absences knows the servers that are not available.
type Absences interface {
	// Absences returns those for the session of origin, in the order of the
	// configuration. It does not wait.
	Absences(origin route.Origin) []health.Absence
}

type absences []health.Absence

func (h *Handler) absences(call route.Call) absences {
	if h.cfg.Absences == nil {
		return nil
	}
	return h.cfg.Absences.Absences(call.Origin)
}

// of returns the absences of one server, by its script name; "" for all.
func (a absences) of(server string) []health.Absence {
	if server == "" {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(one health.Absence) bool { return one.Server != server })
}
