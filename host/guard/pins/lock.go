// Package pins keeps the definitions of servers in a file, so that a proxy or a check detects
// changed definitions. Begin with [Lock] (the definitions, with Read, Write and Compare), [Keeper]
// (the pins of a running proxy: first use, drift, following the file), [Inspect] and [Accept] (for
// commands), and [Source] (the pins of a fleet, in its store).
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

// Lists are the lists of a server: raw JSON arrays of definitions, with all pages joined. A missing
// surface was not requested.
type Lists map[wire.Surface][]byte

// About stands for a server's description of itself, in place of a surface.
const About wire.Surface = "server"

// Lock holds the definitions of servers. Concurrent use is not safe.
type Lock struct {
	servers map[string]server
}

// server has the definitions of a server by surface; a surface without a record is missing. About
// has a single definition, without a name.
type server map[wire.Surface]definitions

// definitions are entries by name or URI.
type definitions map[string]entry

// entry is a definition.
type entry struct {
	canonical []byte
	digest    string
	// similar are the similar tools or prompts of other servers, as "server.name", sorted. The
	// similarity was accepted with the definition.
	similar []string
}

// New returns a lock without servers.
func New() *Lock { return &Lock{servers: map[string]server{}} }

// Has reports whether the lock has definitions of the server.
func (l *Lock) Has(name string) bool { return l.servers[name] != nil }

// HasItem reports whether the lock has a definition of the server with a name or URI.
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

// Clone returns an independent copy.
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

// Set replaces the definitions of a server. Surfaces missing in lists stay unchanged. After an
// error nothing has changed.
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

// SetAbout replaces the record of a server's handshake: name and instructions. handshake is the raw
// result of initialize, or nil for none.
func (l *Lock) SetAbout(name string, handshake []byte) {
	l.surface(name, About)[""] = about(handshake)
}

// Drop removes a server. An unknown server is no error.
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

// about returns the pinned part of a handshake.
func about(handshake []byte) entry {
	own, _ := wire.GetString(handshake, "serverInfo", "name")
	text, _ := wire.GetString(handshake, "instructions")
	raw := wire.Marshal(map[string]string{"name": own, "instructions": text})
	canonical, err := Canonical(raw)
	if err != nil {
		panic(err) // the value was just encoded
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

// compact encodes a value as JSON with members sorted by name, as in files of version 1.
func compact(def any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(def); err != nil {
		panic(err) // the value was decoded from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// noun returns the name of an item of the surface.
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

// Noun names the kind of the item: server, tool, prompt, resource, resource template.
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
