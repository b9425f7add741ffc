// Package catalog keeps the one namespaced view of all tools: the built-in
// ones, the saved composites, and those of every upstream.
//
//	catalog.go  the sources of tools and what changes them
//	view.go     the immutable view that requests read: lookup, pages, order
//	name.go     public names: prefix, the 64-character rule
//	resolve.go  from the names that scripts use to servers and tools
//	nearest.go  the known names nearest to a wrong one
//
// Tool definitions stay the raw bytes that came in; only their name member is
// replaced.
package catalog

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Kind tells where a tool comes from.
type Kind int

// The kinds, in the order in which tools are listed.
const (
	Builtin Kind = iota
	Composite
	Proxied
)

func (k Kind) String() string {
	return [...]string{"built-in tool", "saved tool", "upstream tool"}[k]
}

// Entry is one tool as agents see it.
type Entry struct {
	Name   string // public name
	Kind   Kind
	Server string // Proxied only: the upstream's name
	Tool   string // Proxied only: the upstream's own name for the tool
	// Definition is the raw tool definition (MCP Tool object) under its public
	// name.
	Definition []byte
}

// Source says how one upstream's tools appear. Both functions are given the
// upstream's own name of a tool; they are called with a lock held.
type Source struct {
	Server string
	Prefix string
	// Exposes tells which tools agents see. Scripts may call the others too.
	Exposes func(tool string) bool
	// Hides tells which tools nobody may call, scripts included.
	Hides func(tool string) bool
}

// Catalog is safe for concurrent use.
type Catalog struct {
	log      *slog.Logger
	onChange func()
	view     atomic.Pointer[view]

	mu         sync.Mutex // guards what follows, and the making of a new view
	sources    []*source
	builtins   []Entry
	composites []Entry
}

type source struct {
	Source
	tools []tool
}

type tool struct {
	name       string // the upstream's own
	definition []byte
}

// New makes a catalog of upstreams that have not listed any tools yet.
// onChange is called, with no lock held, after each change of what agents see;
// it must not block.
func New(sources []Source, log *slog.Logger, onChange func()) *Catalog {
	c := &Catalog{log: log, onChange: onChange}
	for _, s := range sources {
		c.sources = append(c.sources, &source{Source: s})
	}
	c.view.Store(newView(nil, nil, c.sources))
	return c
}

// SetBuiltins replaces the built-in tools.
func (c *Catalog) SetBuiltins(entries []Entry) {
	c.update(func() { c.builtins = kind(entries, Builtin) })
}

// SetComposites replaces the saved tools.
func (c *Catalog) SetComposites(entries []Entry) {
	c.update(func() { c.composites = kind(entries, Composite) })
}

func kind(entries []Entry, k Kind) []Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Kind = k
	}
	return entries
}

// SetUpstream replaces the tools of one upstream by raw definitions, each with
// a name. An unknown server is ignored.
func (c *Catalog) SetUpstream(server string, definitions [][]byte) {
	tools := make([]tool, 0, len(definitions))
	for _, d := range definitions {
		if name, ok := wire.GetString(d, "name"); ok {
			tools = append(tools, tool{name: name, definition: d})
		}
	}
	c.update(func() {
		for _, s := range c.sources {
			if s.Server == server {
				s.tools = tools
			}
		}
	})
}

func (c *Catalog) update(change func()) {
	c.mu.Lock()
	change()
	before, after := c.view.Load(), newView(c.builtins, c.composites, c.sources)
	c.view.Store(after)
	c.mu.Unlock()
	for _, p := range after.problems {
		if !slices.Contains(before.problems, p) {
			c.log.Warn(p)
		}
	}
	if !before.sameList(after) {
		c.onChange()
	}
}

// Lookup finds a tool that agents see.
func (c *Catalog) Lookup(name string) (Entry, bool) {
	e, ok := c.view.Load().byName[name]
	return e, ok
}

// Owner finds whatever has the public name, seen by agents or not.
func (c *Catalog) Owner(name string) (Entry, bool) {
	e, ok := c.view.Load().owners[name]
	return e, ok
}

// Names are the public names of all tools that agents see, in list order.
func (c *Catalog) Names() []string {
	v := c.view.Load()
	names := make([]string, len(v.list))
	for i, e := range v.list {
		names[i] = e.Name
	}
	return names
}

// Problems are the collisions of names, one readable line each.
func (c *Catalog) Problems() []string { return c.view.Load().problems }
