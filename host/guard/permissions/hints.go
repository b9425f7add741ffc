package permissions

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Hints are what the annotations of a tool say (MCP 2025-11-25, schema.ts,
// ToolAnnotations). They come from servers, which may say anything.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// Worst are the hints of a tool of which nothing is known. They are those that the
// specification gives tools without annotations.
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
	if h.ReadOnly { // then the others about changes mean nothing
		h.Destructive, h.Idempotent = false, true
	}
	return h
}

// OfTool returns the hints of a saved tool with permissions: it reads only if all that it
// may call reads only, destroys if one of them does, and so on. It is called idempotent
// only if it reads only: two idempotent calls in a row need not be.
//
// hints returns those of a server's tool. Anything that is not known has the worst.
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
			continue // what they may call is in the list, too
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
