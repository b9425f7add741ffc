package builtin

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/route"
)

// Absence is a server that is not there.
type Absence struct {
	Server string `json:"server"` // script name
	State  string `json:"state"`  // starting, failed, closed, disabled
	// Why is a sentence for models: what is the matter and what to do. There are no
	// secrets in it.
	Why string `json:"why"`
}

// Absences knows the servers that are not there.
type Absences interface {
	// Absences are they as the session of origin reaches them, in the order of the
	// configuration. Nothing is waited for.
	Absences(origin route.Origin) []Absence
}

type absences []Absence

func (h *Handler) absences(call route.Call) absences {
	if h.cfg.Absences == nil {
		return nil
	}
	return h.cfg.Absences.Absences(call.Origin)
}

// of are those of one server, by its script name; "" for all.
func (a absences) of(server string) []Absence {
	if server == "" {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(one Absence) bool { return one.Server != server })
}
