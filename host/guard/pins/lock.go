// Package pins keeps the definitions of servers in a file, so that a proxy or a check detects
// changed definitions. Begin with [Lock] (the definitions, with Read, Write and Compare), [Keeper]
// (the pins of a running proxy: first use, drift, following the file), [Inspect] and [Accept] (for
// commands), and [Source] (the pins of a fleet, in its store).
package pins

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
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

// version is the version of the file format. Version 1 can be read, too: files of version 1 have
// no handshakes and no accepted similar names, and other digests where a definition has characters
// that encoding/json escapes.
const version = 2

// MaxFile is the largest file that Read accepts and Write writes, in bytes.
const MaxFile = 64 << 20

// document is the file: JSON with members sorted by name, so that a changed definition changes only
// its own lines.
//
//	{"version": 2, "servers": {"everything": {
//	  "server": {"sha256": "…", "definition": {"name": "…", "instructions": "…"}},
//	  "tools": {"get-sum": {"sha256": "…", "definition": {"name": "get-sum", …}}}}}}
type document struct {
	Version int                       `json:"version"`
	Servers map[string]documentServer `json:"servers"`
}

// documentServer has the definitions of a server. A list without a record is nil.
type documentServer struct {
	About     *documentEntry           `json:"server,omitempty"`
	Tools     map[string]documentEntry `json:"tools,omitzero"`
	Prompts   map[string]documentEntry `json:"prompts,omitzero"`
	Resources map[string]documentEntry `json:"resources,omitzero"`
	Templates map[string]documentEntry `json:"resourceTemplates,omitzero"`
}

// surfaces returns the lists by surface.
func (s *documentServer) surfaces() map[wire.Surface]*map[string]documentEntry {
	return map[wire.Surface]*map[string]documentEntry{
		wire.Tools: &s.Tools, wire.Prompts: &s.Prompts, wire.Resources: &s.Resources, wire.Templates: &s.Templates,
	}
}

// documentEntry is a definition with its digest, which reveals manual edits and bad merges.
type documentEntry struct {
	SHA256 string `json:"sha256"`
	// Similar are the similar tools or prompts of other servers, as "server.name", for which this
	// definition may be taken.
	Similar    []string       `json:"beside,omitempty"`
	Definition jsontext.Value `json:"definition"`
}

// FileError reports an unusable lock file.
type FileError struct {
	Path, Reason string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("lock file %s: %s (record it again, or restore it from version control)", e.Path, e.Reason)
}

// Read reads a file that Write wrote. The error is fs.ErrNotExist for a missing file, and a
// [*FileError] for wrong content.
func Read(ctx context.Context, at regular.Place) (*Lock, error) {
	raw, err := at.Read(ctx, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	return Decode(raw, at.String())
}

// Decode reads the content of a file; path is for messages. The error is a [*FileError].
func Decode(raw []byte, path string) (*Lock, error) {
	l, err := decode(raw)
	if err != nil {
		return nil, &FileError{path, err.Error()}
	}
	return l, nil
}

func decode(raw []byte) (*Lock, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("is empty")
	}
	var doc document
	if err := jsonv2.Unmarshal(raw, &doc, jsonv2.RejectUnknownMembers(true)); err != nil {
		var head struct {
			Version int `json:"version"`
		}
		if jsonv2.Unmarshal(raw, &head) != nil || head.Version <= version {
			return nil, err
		}
		doc.Version = head.Version
	}
	if doc.Version < 1 || doc.Version > version {
		return nil, fmt.Errorf("has version %d, and this program knows versions up to %d", doc.Version, version)
	}
	l := New()
	for name, lists := range doc.Servers {
		l.servers[name] = server{}
		if lists.About != nil {
			e, err := lists.About.decode(doc.Version)
			if err != nil {
				return nil, fmt.Errorf("server %q %w", name, err)
			}
			l.servers[name][About] = definitions{"": e}
		}
		for surface, entries := range lists.surfaces() {
			if *entries == nil && (doc.Version > 1 || surface != wire.Resources) {
				continue
			}
			defs := definitions{} // also for the resources of version 1, which recorded all lists
			for key, e := range *entries {
				def, err := e.decode(doc.Version)
				if err != nil {
					return nil, fmt.Errorf("server %q, %s %q %w", name, noun(surface), key, err)
				}
				defs[key] = def
			}
			l.servers[name][surface] = defs
		}
	}
	return l, nil
}

// decode reads an entry. The error continues the name of the entry.
func (e *documentEntry) decode(version int) (entry, error) {
	d := NewDefinition(e.Definition)
	if err := d.Ambiguous(); err != nil {
		return entry{}, fmt.Errorf("has a definition that cannot be used: %w", err)
	}
	digest := d.Digest()
	if version == 1 {
		def, err := jsonvalue.Decode(e.Definition)
		if err != nil {
			return entry{}, fmt.Errorf("has a definition that cannot be used: %w", err)
		}
		sum := sha256.Sum256(compact(def))
		digest = hex.EncodeToString(sum[:])
	}
	if digest != e.SHA256 {
		return entry{}, errors.New("does not match its sha256")
	}
	return entry{canonical: d.canonical(), digest: d.Digest(), similar: slices.Sorted(slices.Values(e.Similar))}, nil
}

// Write replaces the file atomically. The same definitions give the same bytes. A new file is
// readable for everyone, like other files in a repository. After an error the old file is
// unchanged.
func (l *Lock) Write(at regular.Place) error {
	raw, err := l.Encode()
	if err == nil {
		err = at.Replace(raw, Perm)
	}
	if err != nil {
		return fmt.Errorf("lock file %s: %w", at, err)
	}
	return nil
}

// Perm is the mode of a new file.
const Perm = 0o644

// Encode returns the content of the file. The only error is a content that is too large.
func (l *Lock) Encode() ([]byte, error) {
	doc := document{Version: version, Servers: map[string]documentServer{}}
	for name, lists := range l.servers {
		var s documentServer
		for surface, entries := range s.surfaces() {
			if defs, recorded := lists[surface]; recorded {
				*entries = map[string]documentEntry{}
				for key, e := range defs {
					(*entries)[key] = e.document()
				}
			}
		}
		if e, ok := lists[About][""]; ok {
			about := e.document()
			s.About = &about
		}
		doc.Servers[name] = s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	if b.Len() > MaxFile {
		return nil, &regular.SizeError{Limit: MaxFile}
	}
	return b.Bytes(), nil
}

func (e entry) document() documentEntry {
	return documentEntry{SHA256: e.digest, Definition: e.canonical, Similar: e.similar}
}
