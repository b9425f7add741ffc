// Package permissions derives what a saved tool may call, and what can be said of it
// because of that.
//
//	permissions.go  what is needed: the tools of servers, and saved tools
//	derive.go       Derive: from what a script can reach to tools.Permissions
//	narrow.go       the bounds that an author gives
//	hints.go        Hints: annotations of a tool, from those of what it can call
//
// What a script can reach is found in the sandbox, from its syntax tree; see abi.Lint.
// Package compose enforces the result.
package permissions

import (
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Servers knows the tools of servers; see catalog.Catalog.
type Servers interface {
	// Definition returns the raw definition of a tool, by the real name of the server and
	// the server's own name of the tool; nil if there is none.
	Definition(server, tool string) []byte
	// ServerTools returns the server's own names of the tools that scripts may call, by
	// the real name of the server; false if they are not known.
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
	// Digest returns the digest of a tool's definition as the server has it now; see
	// pins.Digest. ok is false if there is no such tool.
	Digest(server, tool string) (digest string, ok bool)
	// PinMode returns what is done about definitions of a server that have changed.
	PinMode(server string) pins.Mode
}
