package builtin

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// Labels remembers the labels (package flow) of the answers that sessions were given. Both methods
// take and return names, such as "private".
type Labels interface {
	// Of returns the labels of the session of an origin.
	Of(o route.Origin) []string
	// Give notes that the client of a session is given something with labels.
	Give(o route.Origin, names []string)
}

// labelled adds labels to a result. Without labels, reply is returned unchanged.
func (h *Handler) labelled(reply wire.Reply, call route.Call, names []string) wire.Reply {
	if len(names) == 0 {
		return reply
	}
	if h.cfg.Labels != nil {
		h.cfg.Labels.Give(call.Origin, names)
	}
	reply.Result = compose.Labelled(reply.Result, names)
	return reply
}

// addLabels adds the labels of the answers of a run to labels.
func addLabels(labels []string, rec *journal.Record) []string {
	for _, name := range rec.FlowLabels() {
		if !slices.Contains(labels, name) {
			labels = append(labels, name)
		}
	}
	return labels
}

// isWithheld reports whether the content of a run is hidden from clients, because information flow
// ended the run.
func isWithheld(r *journal.Record) bool { return r.Flows(journal.FlowDeny) }

// withheldRun returns the visible part of a withheld run, the same as in the run's reply.
func withheldRun(r *journal.Record) shownRun {
	f := compose.WithheldFailure(r)
	return shownRun{
		Run: r.ID, Tool: r.Definition.Name, Started: stamp(r.Start), Outcome: string(abi.ErrPermission), Calls: []shownCall{}, Logs: []string{},
		Error: f.Error(), Hint: "What the run did is withheld. The user of mcp-metatool can see it: mcp-metatool runs show " + r.ID,
	}
}
