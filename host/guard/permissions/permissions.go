// Package permissions derives the permissions of a saved tool, and the tool's annotations, which
// follow from the permissions. Begin with [Source.Derive].
//
// The calls within reach of a script are found in the sandbox, from the syntax tree; see abi.Lint.
// Package compose enforces the permissions.
package permissions

import (
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
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
