// Package catalog keeps the one namespaced view of all that the upstreams
// have, together with the built-in and the saved tools.
//
//	catalog.go   the sources of the view and what changes them
//	view.go      the immutable view that requests read
//	tools.go     its tools: built-in, saved, and those of upstreams
//	others.go    its prompts, resources and resource templates
//	page.go      ordered lists and their cursors
//	name.go      public names: prefix, the 64-character rule
//	resolve.go   from the names that scripts use to servers and tools
//	template.go  which URIs a resource template stands for
//	merge.go     one _meta or capabilities object out of those of the upstreams
//
// Definitions stay the raw bytes that came in; only the name member of tools
// and prompts is replaced. URIs are never changed.
package catalog

import (
	"bytes"
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
	// Saves says that it changes the saved tools, which is not for every session
	// (route.Session.MaySave). Only built-in tools do.
	Saves bool
	// Definition is the raw tool definition (MCP Tool object) under its public
	// name.
	Definition []byte
}

// Source says how what one upstream has appears. Both functions are given the
// upstream's own name of a tool; they are called with locks held, by any
// goroutine.
type Source struct {
	Server string
	// Prefix of the names of its tools and prompts.
	Prefix string
	// Exposes tells which tools agents see. Scripts may call the others too.
	Exposes func(tool string) bool
	// Hides tells which tools nobody may call, scripts included.
	Hides func(tool string) bool
	// Disabled says that it is configured and not to be used. All that is known of
	// it is its name, for those who ask for it to be told.
	Disabled bool
}

// Catalog is safe for concurrent use.
type Catalog struct {
	log      *slog.Logger
	onChange func(surface wire.Surface, notice []byte)
	view     atomic.Pointer[view]

	mu         sync.Mutex // guards what follows, and the making of a new view
	sources    []*source  // in the order of the configuration
	builtins   []Entry
	composites []Entry
	disabled   []string // servers that are configured and not to be used
}

// source is an upstream with what it has listed last.
type source struct {
	Source
	lists map[wire.Surface]listing
}

// listing is one list of an upstream.
type listing struct {
	items []listed
	meta  []byte // raw _meta of the list result; nil for none
	lost  int    // items that cannot be listed: they have no key
	// remembered says that the upstream listed this when it ran before, and has
	// listed nothing yet since it was started.
	remembered bool
}

// listed is one item of an upstream.
type listed struct {
	own        string // the upstream's own name, or the URI
	public     string // the name that agents see, or the URI
	definition []byte // raw, under that name
}

// New makes a catalog of upstreams that have not listed anything yet, in the
// order of the configuration. onChange is called, with no lock held, after
// each change of what agents see of a surface; it must not block. notice is that
// of SetUpstream, nil if the change has another cause.
func New(sources []Source, log *slog.Logger, onChange func(surface wire.Surface, notice []byte)) *Catalog {
	c := &Catalog{log: log, onChange: onChange}
	c.take(sources, nil)
	c.view.Store(newView(c))
	return c
}

// take replaces the upstreams; was are those of before, by name.
func (c *Catalog) take(sources []Source, was map[string]*source) {
	c.sources, c.disabled = make([]*source, 0, len(sources)), nil
	for _, s := range sources {
		if s.Disabled {
			c.disabled = append(c.disabled, s.Server)
		} else {
			c.sources = append(c.sources, newSource(s, was[s.Server]))
		}
	}
}

// newSource is an upstream with the lists of before, nil for none.
func newSource(s Source, before *source) *source {
	now := &source{Source: s, lists: map[wire.Surface]listing{}}
	if before == nil {
		return now
	}
	for surface, l := range before.lists {
		if s.Prefix != before.Prefix {
			l.items = slices.Clone(l.items)
			for i := range l.items {
				now.name(surface, &l.items[i])
			}
		}
		now.lists[surface] = l
	}
	return now
}

// SetSources replaces the upstreams. What those have listed that stay, going by
// the name of the server, remains, under their names of now.
func (c *Catalog) SetSources(sources []Source) {
	c.mu.Lock()
	before := c.view.Load()
	was := make(map[string]*source, len(c.sources))
	for _, s := range c.sources {
		was[s.Server] = s
	}
	c.take(sources, was)
	after := newView(c)
	c.view.Store(after)
	c.mu.Unlock()
	for _, surface := range wire.Surfaces {
		c.tell(surface, nil, before, after)
	}
}

// SetBuiltins replaces the built-in tools.
func (c *Catalog) SetBuiltins(entries []Entry) { c.setOwn(&c.builtins, entries, Builtin) }

// SetComposites replaces the saved tools.
func (c *Catalog) SetComposites(entries []Entry) { c.setOwn(&c.composites, entries, Composite) }

func (c *Catalog) setOwn(of *[]Entry, entries []Entry, k Kind) {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Kind = k
	}
	c.update(wire.Tools, nil, func() bool {
		if slices.EqualFunc(*of, entries, sameEntry) {
			return false
		}
		*of = entries
		return true
	})
}

func sameEntry(a, b Entry) bool {
	return a.Name == b.Name && bytes.Equal(a.Definition, b.Definition)
}

// SetUpstream replaces one list of an upstream by raw definitions. meta is the
// raw _meta of the list, nil for none. An unknown server is ignored. The
// catalog keeps the slices.
func (c *Catalog) SetUpstream(server string, surface wire.Surface, items [][]byte, meta []byte) {
	c.set(server, surface, items, meta, nil, false)
}

// SetAnnounced is SetUpstream for a list that the upstream announced with a
// notification. notice is the raw params of that, nil for none.
func (c *Catalog) SetAnnounced(server string, surface wire.Surface, items [][]byte, meta, notice []byte) {
	c.set(server, surface, items, meta, notice, false)
}

// SetRemembered is SetUpstream for what an upstream listed when it ran before. It
// is shown like any other list, until the upstream has listed anew, and takes the
// place of none that there is.
func (c *Catalog) SetRemembered(server string, surface wire.Surface, items [][]byte, meta []byte) {
	c.set(server, surface, items, meta, nil, true)
}

func (c *Catalog) set(server string, surface wire.Surface, items [][]byte, meta, notice []byte, remembered bool) {
	c.update(surface, notice, func() bool {
		at := slices.IndexFunc(c.sources, func(s *source) bool { return s.Server == server })
		if at < 0 {
			return false
		}
		s := c.sources[at]
		if _, listed := s.lists[surface]; remembered && listed {
			return false
		}
		l := s.read(surface, items, meta)
		l.remembered = remembered
		s.lists[surface] = l
		return true
	})
}

// read finds the names of items, and gives tools and prompts those that agents
// see.
func (s *source) read(surface wire.Surface, items [][]byte, meta []byte) listing {
	l := listing{items: make([]listed, 0, len(items)), meta: meta}
	for _, raw := range items {
		own, ok := wire.GetString(raw, surface.Key())
		if !ok {
			l.lost++
			continue
		}
		item := listed{own: own, public: own, definition: raw}
		s.name(surface, &item)
		l.items = append(l.items, item)
	}
	return l
}

// name gives a tool or prompt the name that agents see.
func (s *source) name(surface wire.Surface, item *listed) {
	if surface == wire.Tools || surface == wire.Prompts {
		item.public = PublicName(s.Prefix, item.own)
		item.definition, _ = wire.Set(item.definition, wire.Quote(item.public), "name") // an object, GetString has read it
	}
}

func (c *Catalog) update(surface wire.Surface, notice []byte, change func() bool) {
	c.mu.Lock()
	before, after := c.view.Load(), (*view)(nil)
	changed := change()
	if changed {
		after = before.with(c, surface)
		c.view.Store(after)
	}
	c.mu.Unlock()
	if changed {
		c.tell(surface, notice, before, after)
	}
}

// tell tells of what one view has and the one before it had not.
func (c *Catalog) tell(surface wire.Surface, notice []byte, before, after *view) {
	for _, p := range after.lists[surface].problems {
		if !slices.Contains(before.lists[surface].problems, p) {
			c.log.Warn(p)
		}
	}
	if !before.lists[surface].same(after.lists[surface]) {
		c.onChange(surface, notice)
	}
}

// Upstreams are the names of all upstreams in the order of the configuration.
func (c *Catalog) Upstreams() []string { return c.view.Load().upstreams }

// Prefix of the names of what an upstream has; "" for an unknown one.
func (c *Catalog) Prefix(server string) string { return c.view.Load().prefixes[server] }

// Problems are the collisions of names and URIs, one readable line each.
func (c *Catalog) Problems() []string {
	v := c.view.Load()
	var lines []string
	for _, surface := range wire.Surfaces {
		lines = append(lines, v.lists[surface].problems...)
	}
	return lines
}

// Visible are the keys of all that agents see of a surface (names or URIs), in
// list order.
func (c *Catalog) Visible(surface wire.Surface) []string {
	items := c.view.Load().lists[surface].items
	keys := make([]string, len(items))
	for i, e := range items {
		keys[i] = e.key
	}
	return keys
}

// Name is a public name of a tool or prompt of an upstream.
type Name struct {
	Surface wire.Surface // Tools or Prompts
	Public  string       // what agents call it
	Server  string
	Own     string // what the upstream calls it
	// Hashed says that Public is not just prefix and name: it was cut or had
	// other bytes than names may have, and ends in a hash.
	Hashed bool
}

// Names are the public names of all tools and prompts of upstreams that agents
// see, in list order.
func (c *Catalog) Names() []Name { return c.view.Load().names() }
