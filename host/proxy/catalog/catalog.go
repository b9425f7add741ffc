// Package catalog keeps the one namespaced list of everything that upstreams, built-in
// tools and saved tools offer.
//
//	catalog.go    Catalog, and what changes it
//	view.go       the immutable view that requests read
//	scope.go      Scope: what clients with the same rights see
//	tools.go      its tools: built-in, saved, and those of upstreams
//	resources.go  its prompts, resources and resource templates
//	page.go       ordered lists and their cursors
//	name.go       public names: prefix, the 64-character rule
//	resolve.go    resolving the names that scripts use to servers and tools
//	template.go   matching URIs with resource templates
//	pins.go       definitions that are not as they were pinned
//	odd.go        items that strict clients refuse
//	merge.go      merging the _meta or capabilities objects of upstreams
//
// Definitions stay raw; only the name member of tools and prompts is replaced. URIs are
// never changed.
package catalog

import (
	"bytes"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/strict"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Kind is the origin of a tool.
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

// Entry is one tool in the form in which clients see it.
type Entry struct {
	Name   string // public name
	Kind   Kind
	Server string // Proxied only: the upstream's name
	Tool   string // Proxied only: the upstream's own name for the tool
	// Saves reports that the tool changes the saved tools, which not every session
	// may do (route.Session.MaySave). Only built-in tools do that.
	Saves bool
	// Gated reports that the tool itself asks whether it may be called
	// (route.Router.PassBuiltin), because its arguments stand for something else. Only
	// built-in tools do that.
	Gated bool
	// Definition is the raw tool definition (MCP Tool object) under its public
	// name.
	Definition []byte
	sound      bool // Definition is as all clients accept it
	// Define makes Definition of the definitions of upstreams' tools, again whenever
	// these change; nil if it does not depend on them. It must not block. It returns
	// the same as before if Definition and Version are the same and so are the tools.
	Define  func(*Lookup) []byte
	Version string
}

// Source describes one upstream to the catalog. Exposes and Hides receive the upstream's
// own name of a tool. Any goroutine may call them, with locks held.
type Source struct {
	Server string
	// Prefix is the prefix of the names of its tools and prompts.
	Prefix string
	// Exposes reports whether clients see a tool. Scripts may also call the others.
	Exposes func(tool string) bool
	// Hides reports whether a tool is hidden, so that not even scripts may call it.
	Hides func(tool string) bool
	// Disabled reports that the configuration disables the upstream. Then only its
	// name is known, for error messages.
	Disabled bool
}

// Catalog is the catalog of all tools, prompts, resources and resource templates. It is
// safe for concurrent use.
type Catalog struct {
	*Scope   // of clients whose rights are not narrowed
	log      *slog.Logger
	onChange ChangeFunc
	scopes   atomic.Pointer[map[string]*Scope] // by bearer.Rights.View; the map does not change
	nothing  *Scope

	mu       sync.Mutex // guards the fields below, and the making of new views and scopes
	sources  []*source  // in the order of the configuration
	disabled []string   // servers that the configuration disables
	// composites are the saved tools that clients share, by "", and those of clients that
	// have their own, by bearer.Rights.Own.
	composites map[string][]Entry
	pins       Pins            // nil for none
	odd        map[string]bool // the servers that were warned of because they list odd items
}

// ChangeFunc is called, without locks held, after each change that the clients of a scope
// can see in a surface, or that an upstream has announced. It must not block. notice is
// List.Notice, nil if the change has another cause.
type ChangeFunc func(s *Scope, surface wire.Surface, notice []byte)

// source is an upstream with its latest lists.
type source struct {
	Source
	lists  map[wire.Surface]listing
	barred bool // for the clients of one Scope: they may use nothing of it
}

// List is a list of an upstream. The catalog keeps the slices.
type List struct {
	Surface wire.Surface
	Items   [][]byte // raw definitions
	Meta    []byte   // raw _meta of the list; nil for none
	// Announced says that the upstream has announced a change of the list. Notice is the raw
	// params of the notification, nil for none.
	Announced bool
	Notice    []byte
	// Stateless says that the upstream is of the stateless era. Clients of the handshake era
	// may not be able to read its definitions as they are.
	Stateless bool
	// Fresh says how long the list is current.
	Fresh envelope.Freshness
	// Remembered says that the list is from an earlier start of the upstream. It is used
	// like any other list until the upstream sends a new one. It does not replace a list
	// that is already there.
	Remembered bool
}

// listing is one list of an upstream.
type listing struct {
	items     []sourceItem
	meta      []byte // raw _meta of the list result; nil for none
	keyless   int    // number of items that were left out because they have no key
	stateless bool
	fresh     envelope.Freshness
	// remembered reports that the list is from an earlier start of the upstream,
	// which has not sent a new one yet.
	remembered bool
}

// sourceItem is one item of an upstream.
type sourceItem struct {
	own        string // the upstream's own name, or the URI
	public     string // the public name, or the URI
	definition []byte // raw, with the public name
	handshake  []byte // the same for clients of the handshake era
	refused    bool   // strict clients would refuse it, so none sees it
	odd        string // what is odd about it; "" for nothing
	schema     []byte // its raw inputSchema, which is searched for once; nil for none
	sent       *pins.Definition
}

// New returns a catalog of upstreams that have not listed anything yet, in the order of
// the configuration.
func New(sources []Source, log *slog.Logger, onChange ChangeFunc) *Catalog {
	c := &Catalog{Scope: &Scope{}, log: log, onChange: onChange, composites: map[string][]Entry{}, nothing: &Scope{rights: bearer.Nothing}}
	c.scopes.Store(&map[string]*Scope{})
	c.nothing.view.Store(newView(&Catalog{Scope: &Scope{}}, c.nothing))
	c.setSources(sources, nil)
	c.Scope.view.Store(newView(c, c.Scope))
	return c
}

// setSources replaces the upstreams. previous has the ones before, by name.
func (c *Catalog) setSources(sources []Source, previous map[string]*source) {
	c.sources, c.disabled = make([]*source, 0, len(sources)), nil
	for _, s := range sources {
		if s.Disabled {
			c.disabled = append(c.disabled, s.Server)
		} else {
			c.sources = append(c.sources, newSource(s, previous[s.Server]))
		}
	}
}

// newSource returns a source with the lists of the previous one of the same name, which
// may be nil.
func newSource(s Source, previous *source) *source {
	created := &source{Source: s, lists: map[wire.Surface]listing{}}
	if previous == nil {
		return created
	}
	for surface, l := range previous.lists {
		if s.Prefix != previous.Prefix {
			l.items = slices.Clone(l.items)
			for i := range l.items {
				created.name(surface, &l.items[i])
			}
		}
		created.lists[surface] = l
	}
	return created
}

// SetSources replaces the upstreams. Upstreams with the same name as before keep their
// lists, with public names that follow the new prefix.
func (c *Catalog) SetSources(sources []Source) {
	c.rebuild(func() {
		previous := make(map[string]*source, len(c.sources))
		for _, s := range c.sources {
			previous[s.Server] = s
		}
		c.setSources(sources, previous)
	})
}

// rebuild makes a change that concerns all surfaces.
func (c *Catalog) rebuild(change func()) {
	c.mu.Lock()
	change()
	steps := c.step(func(s *Scope, _ *view) *view { return newView(c, s) })
	warnings := c.newlyOdd()
	c.mu.Unlock()
	c.warn(warnings)
	for _, surface := range wire.Surfaces {
		for _, s := range steps {
			c.report(surface, false, nil, s)
		}
	}
}

// step is the step of a scope from one view to the next.
type step struct {
	scope         *Scope
	before, after *view
}

// step replaces the views of all scopes. The caller holds c.mu.
func (c *Catalog) step(next func(s *Scope, before *view) *view) []step {
	var steps []step
	for _, s := range c.all() {
		before := s.view.Load()
		after := next(s, before)
		s.view.Store(after)
		steps = append(steps, step{s, before, after})
	}
	return steps
}

// replaced returns tools of ours that replace others, and whether they differ from those.
func replaced(of, entries []Entry, k Kind) (now []Entry, changed bool) {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Kind = k
		entries[i].sound = k == Builtin || strict.Sound(wire.Tools, entries[i].Definition)
	}
	if slices.EqualFunc(of, entries, sameEntry) {
		return of, false
	}
	return entries, true
}

func sameEntry(a, b Entry) bool {
	return a.Name == b.Name && bytes.Equal(a.Definition, b.Definition) && a.Version == b.Version
}

// SetUpstream is SetList for a list of which nothing else is known.
func (c *Catalog) SetUpstream(server string, surface wire.Surface, items [][]byte, meta []byte) {
	c.SetList(server, List{Surface: surface, Items: items, Meta: meta})
}

// SetList replaces a list of an upstream. An unknown server is ignored.
//
// Clients are also told of a change that an upstream has announced if the list is the same
// as before: it may have changed and changed back, and clients that are connected to the
// upstream itself are told, too.
func (c *Catalog) SetList(server string, list List) {
	told := ""
	if list.Announced && list.Surface != wire.Templates { // which have no notification of their own
		told = server
	}
	verdicts := make([]strict.Verdict, len(list.Items)) // a long list takes some time
	for i, raw := range list.Items {
		verdicts[i] = strict.Judge(list.Surface, raw, list.Stateless)
	}
	c.update(list.Surface, told, list.Notice, func() bool {
		at := slices.IndexFunc(c.sources, func(s *source) bool { return s.Server == server })
		if at < 0 {
			return false
		}
		s := c.sources[at]
		if _, listed := s.lists[list.Surface]; list.Remembered && listed {
			return false
		}
		s.lists[list.Surface] = s.read(list, verdicts)
		return true
	})
}

// read reads the names of items, and sets the public names of tools and prompts. verdicts are
// those of the items.
func (s *source) read(list List, verdicts []strict.Verdict) listing {
	l := listing{
		items: make([]sourceItem, 0, len(list.Items)), meta: list.Meta,
		stateless: list.Stateless, fresh: list.Fresh, remembered: list.Remembered,
	}
	for i, raw := range list.Items {
		var found [2][]byte
		wire.Pick(raw, []string{list.Surface.Key(), "inputSchema"}, found[:])
		own, ok := wire.Text(found[0])
		if !ok {
			l.keyless++
			continue
		}
		item := sourceItem{own: own, public: own, definition: raw, handshake: raw, schema: found[1], sent: pins.NewDefinition(raw)}
		v := &verdicts[i]
		if item.refused = v.Refused != ""; !item.refused {
			item.definition, item.handshake = v.Stateless, v.Handshake
		}
		if v.Odd() {
			item.odd = v.Summary()
		}
		s.name(list.Surface, &item)
		l.items = append(l.items, item)
	}
	return l
}

// name sets the public name of a tool or prompt.
func (s *source) name(surface wire.Surface, item *sourceItem) {
	if surface != wire.Tools && surface != wire.Prompts {
		return
	}
	item.public = PublicName(s.Prefix, item.own)
	same := &item.handshake[0] == &item.definition[0]
	item.definition, _ = wire.Set(item.definition, wire.Quote(item.public), "name") // it is an object, since GetString has read it
	if same {
		item.handshake = item.definition
	} else {
		item.handshake, _ = wire.Set(item.handshake, wire.Quote(item.public), "name")
	}
}

// update makes a change. The clients that may use something of the server announced, ""
// for none, are told of the change even if they see none.
func (c *Catalog) update(surface wire.Surface, announced string, notice []byte, change func() bool) {
	c.mu.Lock()
	var steps []step
	if change() {
		steps = c.step(func(s *Scope, before *view) *view { return before.with(c, s, surface) })
	}
	warnings := c.newlyOdd()
	c.mu.Unlock()
	c.warn(warnings)
	for _, s := range steps {
		c.report(surface, announced != "" && s.scope.HasServer(announced), notice, s)
	}
}

// report logs new problems, and calls onChange if clients see a change or are told anyway.
func (c *Catalog) report(surface wire.Surface, told bool, notice []byte, s step) {
	before, after := s.before.lists[surface], s.after.lists[surface]
	if s.scope == c.Scope && len(after.problems) > 0 {
		known := make(map[Problem]bool, len(before.problems)) // there may be one for each of thousands of items
		for _, p := range before.problems {
			known[p] = true
		}
		for _, p := range after.problems {
			if !known[p] {
				c.log.Warn(p.String())
			}
		}
	}
	if told || !before.same(after) {
		c.onChange(s.scope, surface, notice)
	}
}

// Upstreams returns the names of all upstreams, in the order of the configuration.
func (s *Scope) Upstreams() []string { return s.view.Load().upstreams }

// Prefix returns the prefix of an upstream's public names, "" if it is unknown.
func (s *Scope) Prefix(server string) string { return s.view.Load().prefixes[server] }

// Problems returns the collisions of names and URIs and similar problems.
func (s *Scope) Problems() []Problem {
	v := s.view.Load()
	all := append(v.pinProblems(), v.oddProblems()...)
	for _, surface := range wire.Surfaces {
		all = append(all, v.lists[surface].problems...)
	}
	return all
}

// Visible returns the keys (names or URIs) of everything that clients see of a surface,
// in list order.
func (s *Scope) Visible(surface wire.Surface) []string {
	items := s.view.Load().lists[surface].items
	keys := make([]string, len(items))
	for i, e := range items {
		keys[i] = e.key
	}
	return keys
}

// Name is a public name of a tool or prompt of an upstream.
type Name struct {
	Surface wire.Surface // Tools or Prompts
	Public  string
	Server  string
	Own     string // the upstream's own name
	// Hashed reports that Public is not simply prefix and name: it was shortened or
	// contained bytes that names may not have, and ends in a hash.
	Hashed bool
}

// Names returns the public names of all tools and prompts of upstreams that clients see,
// in list order.
func (s *Scope) Names() []Name { return s.view.Load().names() }
