package doctor

import (
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// flow looks at the labels of tools. Faults that show without tools are among the warnings of the
// configuration.
func (e *examination) flow() {
	if e.Config.Flow == nil || e.Observed == nil {
		return
	}
	var tools []flow.Tool
	complete := true
	for _, u := range e.enabled() {
		o := e.Observed[u.Name]
		complete = complete && o.Status.State == servers.Ready
		for _, definition := range o.Tools {
			name, _ := wire.GetString(definition, "name")
			tools = append(tools, flow.Tool{Server: u.Name, Name: name, Definition: definition})
		}
	}
	for _, a := range e.Config.Flow.Advise(tools, complete) {
		switch a.Kind {
		case flow.MatchesNothing:
			e.find(idFlowPattern, "flow", "correct the pattern, or remove it; "+e.command("tools")+" lists the tools", "%s", a.Text)
		case flow.KeepsSecrets:
			e.find(idFlowServer, upstreamObject(a.Object), "give it the label it needs (private = [\""+a.Object+".*\"] in [flow]), if secrets can get there", "%s", a.Text)
		case flow.Shapeless:
			e.find(idFlowShape, "flow", "add its shape to [flow.shapes], if scripts do more with its answers than pass them on", "%s", a.Text)
		}
	}
}
