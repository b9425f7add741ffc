package permissions

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Hints are the annotations of a tool (MCP 2025-11-25, schema.ts, ToolAnnotations). Annotations are
// claims of servers, without a guarantee.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// Worst are the hints of an unknown tool, which the specification gives tools without annotations.
var Worst = Hints{Destructive: true, OpenWorld: true}

// HintsOf returns the hints of the definition of a tool.
func HintsOf(definition []byte) Hints {
	annotations, ok := wire.Get(definition, "annotations")
	if !ok {
		return Worst
	}
	h := Worst
	for name, to := range map[string]*bool{
		"readOnlyHint": &h.ReadOnly, "destructiveHint": &h.Destructive, "idempotentHint": &h.Idempotent, "openWorldHint": &h.OpenWorld,
	} {
		switch raw, _ := wire.Get(annotations, name); string(raw) {
		case "true":
			*to = true
		case "false":
			*to = false
		}
	}
	if h.ReadOnly { // then the other hints about changes mean nothing
		h.Destructive, h.Idempotent = false, true
	}
	return h
}

// OfTool returns the hints of a saved tool with permissions: read-only if every permitted tool is
// read-only, destructive if a permitted tool is destructive, and so on. The result is idempotent
// only if read-only: two idempotent calls in a row need not be idempotent.
//
// hints returns the hints of a server's tool. Unknown tools have the worst hints.
func OfTool(p *tools.Permissions, servers Servers, hints func(server, tool string) Hints) Hints {
	if p == nil || len(p.Unresolved) > 0 {
		return Worst
	}
	all := Hints{ReadOnly: true, Idempotent: true}
	join := func(h Hints) {
		all.ReadOnly = all.ReadOnly && h.ReadOnly
		all.Destructive = all.Destructive || h.Destructive
		all.OpenWorld = all.OpenWorld || h.OpenWorld
	}
	for _, t := range p.Calls {
		server, pattern := cut(t)
		if server == tools.SavedServer {
			continue // the list has the calls of saved tools, too
		}
		if !tools.IsPattern(pattern) {
			if name := tools.Literal(pattern); servers.Definition(server, name) != nil {
				join(hints(server, name))
			} else {
				join(Worst)
			}
			continue
		}
		names, known := servers.ServerTools(server)
		if !known {
			join(Worst)
			continue
		}
		for _, name := range names {
			if tools.Matches(t, server, name) && p.Bounded(server, name) {
				join(hints(server, name))
			}
		}
	}
	all.Idempotent = all.ReadOnly
	return all
}

// JSON returns the hints as annotations.
func (h Hints) JSON() []byte {
	var o wire.Object
	o.Bool("readOnlyHint", h.ReadOnly)
	o.Bool("destructiveHint", h.Destructive)
	o.Bool("idempotentHint", h.Idempotent)
	o.Bool("openWorldHint", h.OpenWorld)
	return o.Bytes()
}
