// Package permissions derives the permissions of a saved tool, and the tool's annotations, which
// follow from the permissions. Begin with [Source.Derive].
//
// The calls within reach of a script are found in the sandbox, from the syntax tree; see abi.Lint.
// Package compose enforces the permissions.
package permissions

import (
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Servers knows the tools of servers; see catalog.Catalog.
type Servers interface {
	// Definition returns the raw definition of a tool, by the real name of the server and the
	// server's own name of the tool; nil for an unknown tool.
	Definition(server, tool string) []byte
	// ServerTools returns the server's own names of the tools that scripts may call, by the real
	// name of the server; false if the tools are not known.
	ServerTools(server string) ([]string, bool)
}

// Saved knows the saved tools; see tools.Store.
type Saved interface {
	Get(name string) (tools.Definition, error)
	List() []tools.Definition
}

// Pinned is Servers with digests of the definitions; see catalog.Scope.
type Pinned interface {
	Servers
	// Digest returns the digest of a tool's current definition; see pins.Digest. ok is false for an
	// unknown tool.
	Digest(server, tool string) (digest string, ok bool)
	// PinMode returns how the proxy treats changed definitions of a server.
	PinMode(server string) pins.Mode
}

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
