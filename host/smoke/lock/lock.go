// Package lock keeps the definitions that servers had in a file, so that a
// check can tell when they change.
//
//	lock.go     Lock, Read, Write
//	compare.go  Compare: what changed, property by property
package lock

import (
	"encoding/json"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Lists are the lists of one server: raw JSON arrays of definitions, pages
// joined. A surface that is not in it was not asked for.
type Lists map[wire.Surface][]byte

// Lock holds the definitions of servers. It is not safe for concurrent use.
type Lock struct {
	servers map[string]map[wire.Surface]map[string]entry
}

// entry is one definition.
type entry struct {
	SHA256     string          `json:"sha256"`
	Definition json.RawMessage `json:"definition"`
}

// New returns a lock without servers.
func New() *Lock { return &Lock{} }

// Has tells whether there is anything of the server.
func (l *Lock) Has(server string) bool { return false }

// Set replaces what the lock has of a server. Surfaces that lists does not have
// stay.
func (l *Lock) Set(server string, lists Lists) error { return nil }

// Read reads a file that Write wrote. A file that does not exist is an error
// for which errors.Is fs.ErrNotExist; one that is wrong a [*FileError].
func Read(path string) (*Lock, error) { return nil, nil }

// Write replaces the file at once. The same definitions give the same bytes.
func (l *Lock) Write(path string) error { return nil }

// Change is one difference between a lock and what a server offers.
type Change struct {
	Server  string
	Surface wire.Surface
	Name    string // of the tool or prompt; URI of the resource
	// Path is where in the definition: "$.inputSchema.properties.a.type"; "" for
	// the definition as a whole.
	Path string
	// Kind is Added, Removed or Changed.
	Kind Kind
	// Was and Is are both sides, clipped JSON; "" for none.
	Was, Is string
}

// Kind is a way of changing.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// String is a line such as
//
//	tool "get-sum": property "a" changed type: "number" -> "string" (inputSchema)
func (c Change) String() string { return "" }

// Compare tells how what a server offers now differs from what the lock has of
// it, in order of surface, name and path; none when it is the same. Only the
// surfaces in lists are compared. A server that the lock does not have is all
// new.
func (l *Lock) Compare(server string, lists Lists) ([]Change, error) { return nil, nil }
