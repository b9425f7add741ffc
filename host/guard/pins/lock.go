// Package pins keeps the definitions that servers had in a file, so that a proxy or a check
// can tell when they change.
//
//	digest.go      Digest: the digest of a definition; its canonical form
//	definition.go  Definition: a definition with its digest
//	lock.go        Lock: the definitions of servers
//	file.go        Read, Write: the file
//	compare.go     Compare: what changed, property by property
//	describe.go    a change in words
//	confusable.go  names that can be taken for each other
//	show.go        a definition in lines, and the diff of two
//	finding.go     Finding: what is to be said about a definition
//	keeper.go      Keeper: the pins of a running proxy
//	trust.go       first use
//	drift.go       Findings, for reports
//	status.go      Inspect, Accept: for commands
//	follow.go      following the file
//	shared.go      Source: the pins of a fleet, in its store
//	fleet.go       the Keeper of a fleet
package pins

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Lists are the lists of one server: raw JSON arrays of definitions, with all pages joined.
// A surface that is missing was not requested.
type Lists map[wire.Surface][]byte

// About stands for what a server says about itself, where a surface is named.
const About wire.Surface = "server"

// Lock holds the definitions of servers. It is not safe for concurrent use.
type Lock struct {
	servers map[string]server
}

// server has the definitions of a server by surface; a surface that was never recorded is
// missing. About has one definition, without a name.
type server map[wire.Surface]definitions

// definitions are entries by name or URI.
type definitions map[string]entry

// entry is one definition.
type entry struct {
	canonical []byte
	digest    string
	// beside are the tools or prompts of other servers that this one may be taken for, as
	// "server.name", sorted. They were accepted with it.
	beside []string
}

// New returns a lock without servers.
func New() *Lock { return &Lock{servers: map[string]server{}} }

// Has reports whether the lock has definitions of the server.
func (l *Lock) Has(name string) bool { return l.servers[name] != nil }

// HasItem reports whether the lock has a definition of the server with that name or URI.
func (l *Lock) HasItem(server, name string) bool {
	for _, surface := range pinned {
		if _, ok := l.servers[server][surface][name]; ok {
			return true
		}
	}
	return false
}

// Tools returns the digests of a server's tools by their names; nil if none were recorded.
func (l *Lock) Tools(server string) map[string]string {
	defs := l.servers[server][wire.Tools]
	if defs == nil {
		return nil
	}
	digests := map[string]string{}
	for name, e := range defs {
		digests[name] = e.digest
	}
	return digests
}

// Servers returns the sorted names of the servers.
func (l *Lock) Servers() []string { return slices.Sorted(maps.Keys(l.servers)) }

// Clone returns a copy that can be changed independently.
func (l *Lock) Clone() *Lock {
	c := New()
	for name, s := range l.servers {
		c.servers[name] = server{}
		for surface, defs := range s {
			c.servers[name][surface] = maps.Clone(defs)
		}
	}
	return c
}

// Set replaces the definitions of a server. Surfaces that are not in lists stay as they
// are. After an error nothing has changed.
func (l *Lock) Set(name string, lists Lists) error {
	read := server{}
	for surface, raw := range lists {
		defs, err := readList(surface, raw)
		if err != nil {
			return err
		}
		read[surface] = defs
	}
	for surface, defs := range read {
		l.surface(name, surface)
		l.servers[name][surface] = defs
	}
	return nil
}

// SetAbout replaces what the lock has of a server's handshake: its name and instructions.
// handshake is the raw result of initialize, or nil for none.
func (l *Lock) SetAbout(name string, handshake []byte) {
	l.surface(name, About)[""] = about(handshake)
}

// Drop removes a server. The lock need not have it.
func (l *Lock) Drop(name string) { delete(l.servers, name) }

// surface returns the definitions of a surface, which become recorded if they were not.
func (l *Lock) surface(name string, surface wire.Surface) definitions {
	if l.servers[name] == nil {
		l.servers[name] = server{}
	}
	if l.servers[name][surface] == nil {
		l.servers[name][surface] = definitions{}
	}
	return l.servers[name][surface]
}

// about returns what is pinned of a handshake.
func about(handshake []byte) entry {
	own, _ := wire.GetString(handshake, "serverInfo", "name")
	text, _ := wire.GetString(handshake, "instructions")
	raw := wire.Marshal(map[string]string{"name": own, "instructions": text})
	canonical, err := Canonical(raw)
	if err != nil {
		panic(err) // it was just encoded
	}
	return entry{canonical: canonical, digest: Digest(raw)}
}

// ListError says why a server's list cannot be stored.
type ListError struct {
	Surface wire.Surface
	Reason  string
}

func (e *ListError) Error() string { return fmt.Sprintf("list of %s: %s", e.Surface, e.Reason) }

func readList(surface wire.Surface, raw []byte) (definitions, error) {
	if !slices.Contains(wire.Surfaces, surface) {
		return nil, &ListError{surface, "there is no such surface"}
	}
	items, err := wire.Elements(raw)
	if err != nil {
		return nil, &ListError{surface, "it is not an array"}
	}
	defs := definitions{}
	for i, item := range items {
		key, ok := wire.GetString(item, surface.Key())
		if !ok {
			return nil, &ListError{surface, fmt.Sprintf("item %d has no %s", i, surface.Key())}
		}
		if _, twice := defs[key]; twice {
			return nil, &ListError{surface, fmt.Sprintf("it contains %q twice", key)}
		}
		d := NewDefinition(item)
		if err := d.Ambiguous(); err != nil {
			return nil, &ListError{surface, fmt.Sprintf("%q: %v", key, err)}
		}
		defs[key] = entry{canonical: d.canonical(), digest: d.Digest()}
	}
	return defs, nil
}

// compact encodes a value as JSON with members sorted by name, as files of version 1 have it.
func compact(def any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(def); err != nil {
		panic(err) // the value was decoded from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// noun returns the name of one item of the surface.
func noun(s wire.Surface) string {
	switch s {
	case wire.Templates:
		return "resource template"
	case About:
		return "server"
	}
	return string(s[:len(s)-1])
}

// Item names a definition.
type Item struct {
	Server  string
	Surface wire.Surface
	Name    string // of the tool or prompt; URI of the resource; "" with About
}

// String returns the item for people: tool "a" of server "b".
func (i Item) String() string {
	if i.Surface == About {
		return fmt.Sprintf("server %q", i.Server)
	}
	return fmt.Sprintf("%s %q of server %q", noun(i.Surface), display.Clip(i.Name, maxName), i.Server)
}

// maxName is how many characters of a name String has.
const maxName = 100

// Noun says what the item is: server, tool, prompt, resource, resource template.
func (i Item) Noun() string { return noun(i.Surface) }

// Target returns the item as commands name it: SERVER.NAME, or SERVER.
func (i Item) Target() string {
	if i.Surface == About {
		return i.Server
	}
	return i.Server + "." + i.Name
}

// compareItems orders items by server, surface and name.
func compareItems(a, b Item) int {
	order := []wire.Surface{About, wire.Tools, wire.Prompts, wire.Resources, wire.Templates}
	return cmp.Or(cmp.Compare(a.Server, b.Server),
		cmp.Compare(slices.Index(order, a.Surface), slices.Index(order, b.Surface)), cmp.Compare(a.Name, b.Name))
}
