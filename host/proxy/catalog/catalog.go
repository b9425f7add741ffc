// Package catalog keeps the namespaced list of all tools, prompts and resources of upstreams, of
// built-in tools and of saved tools. Start with Catalog, which takes the changes, and Scope, the
// view for clients with the same rights; requests read an immutable view.
//
// Definitions stay raw; only the name member of tools and prompts is replaced. URIs are never
// changed.
package catalog

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/abi"
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

// Entry is a tool in the form for clients.
type Entry struct {
	Name   string // public name
	Kind   Kind
	Server string // Proxied only: the upstream's name
	Tool   string // Proxied only: the upstream's own name for the tool
	// Saves reports that the tool changes the saved tools, a right that not every session has
	// (route.Session.MaySave). Only built-in tools set Saves.
	Saves bool
	// Gated reports that the tool itself asks for permission (route.Router.PassBuiltin), because
	// its arguments stand for other calls. Only built-in tools set Gated.
	Gated bool
	// Definition is the raw tool definition (MCP Tool object) under the public name.
	Definition []byte
	sound      bool // all clients accept Definition unchanged
	// Define makes Definition from the definitions of upstreams' tools, again whenever these
	// change; nil: Definition does not depend on upstreams. Define must not block. The result is
	// the same as before if Definition, Version and the tools are the same.
	Define  func(*Lookup) []byte
	Version string
}

// Source describes an upstream to the catalog. Exposes and Hides receive the upstream's own name of
// a tool. Any goroutine may call both, with locks held.
type Source struct {
	Server string
	// Prefix is the prefix of the names of the upstream's tools and prompts.
	Prefix string
	// Exposes reports whether clients see a tool. Scripts may also call the other tools.
	Exposes func(tool string) bool
	// Hides reports whether a tool is hidden even from scripts.
	Hides func(tool string) bool
	// Disabled reports that the configuration disables the upstream. Then only the name is known,
	// for error messages.
	Disabled bool
}

// Catalog is the catalog of all tools, prompts, resources and resource templates. A Catalog is safe
// for concurrent use.
type Catalog struct {
	*Scope   // of clients without narrowed rights
	log      *slog.Logger
	onChange ChangeFunc
	scopes   atomic.Pointer[map[string]*Scope] // by bearer.Rights.View; the map does not change
	nothing  *Scope

	mu       sync.Mutex // guards the fields below, and the making of new views and scopes
	sources  []*source  // in the order of the configuration
	disabled []string   // servers disabled by the configuration
	// composites are the saved tools that clients share, by "", and the saved tools of clients with
	// tools of their own, by bearer.Rights.Own.
	composites map[string][]Entry
	pins       Pins            // nil for none
	odd        map[string]bool // servers whose odd items were warned about
}

// ChangeFunc is called, without locks held, after each change that the clients of a scope can see
// in a surface, or that an upstream has announced. A ChangeFunc must not block. notice is
// List.Notice, nil if the change has another cause.
type ChangeFunc func(s *Scope, surface wire.Surface, notice []byte)

// source is an upstream with the latest lists.
type source struct {
	Source
	lists  map[wire.Surface]listing
	barred bool // in the view of a Scope whose clients may use nothing of the upstream
}

// List is a list of an upstream. The catalog keeps the slices.
type List struct {
	Surface wire.Surface
	Items   [][]byte // raw definitions
	Meta    []byte   // raw _meta of the list; nil for none
	// Announced says that the upstream has announced a change of the list. Notice is the raw params
	// of the notification, nil for none.
	Announced bool
	Notice    []byte
	// Stateless says that the upstream belongs to the stateless era. Clients of the handshake era
	// may be unable to read its definitions unchanged.
	Stateless bool
	// Fresh says how long the list is current.
	Fresh envelope.Freshness
	// Remembered says that the list comes from an earlier start of the upstream. A remembered list
	// is used like any other until the upstream sends a new list, and never replaces an existing
	// list.
	Remembered bool
}

// listing is a single list of an upstream.
type listing struct {
	items     []sourceItem
	meta      []byte // raw _meta of the list result; nil for none
	keyless   int    // number of items left out for want of a key
	stateless bool
	fresh     envelope.Freshness
	// remembered reports that the list comes from an earlier start of the upstream, which has not
	// sent a new list yet.
	remembered bool
}

// sourceItem is an item of an upstream.
type sourceItem struct {
	own        string // the upstream's own name, or the URI
	public     string // the public name, or the URI
	definition []byte // raw, with the public name
	handshake  []byte // the same for clients of the handshake era
	refused    bool   // strict clients would refuse the item, so no client sees it
	odd        string // why strict clients refuse the item; "" for a sound item
	schema     []byte // the raw inputSchema, searched for once; nil for none
	sent       *pins.Definition
}

// New returns a catalog of upstreams without lists, in the order of the configuration.
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

// newSource returns a source with the lists of the previous source of the same name, which may be
// nil.
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

// SetSources replaces the upstreams. Upstreams with the same name as before keep their lists, with
// public names that follow the new prefix.
func (c *Catalog) SetSources(sources []Source) {
	c.rebuild(func() {
		previous := make(map[string]*source, len(c.sources))
		for _, s := range c.sources {
			previous[s.Server] = s
		}
		c.setSources(sources, previous)
	})
}

// rebuild makes a change to all surfaces.
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

// step is the step of a scope from a view to the next.
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

// replaced returns entries with the tools of a kind replaced by of, and whether the tools differ
// from the replaced ones.
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
// After an announced change, clients are notified even if the list is the same as before: the list
// may have changed and changed back, and clients with a direct connection to the upstream are
// notified too.
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

// read reads the names of items, and sets the public names of tools and prompts. verdicts belong to
// the items.
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
	item.definition, _ = wire.Set(item.definition, wire.Quote(item.public), "name") // GetString has read the definition, so it is an object
	if same {
		item.handshake = item.definition
	} else {
		item.handshake, _ = wire.Set(item.handshake, wire.Quote(item.public), "name")
	}
}

// update makes a change. The clients that may use something of the server announced, "" for none,
// are notified of the change even if they see none.
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
		known := make(map[Problem]bool, len(before.problems)) // each of thousands of items may have a problem
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

// Prefix returns the prefix of an upstream's public names, "" if the upstream is unknown.
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

// Visible returns the keys (names or URIs) of all items of a surface for clients, in list order.
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
	// Hashed reports that Public ends in a hash instead of being prefix and name: the name was too
	// long or contained invalid bytes.
	Hashed bool
}

// Names returns the public names of all visible tools and prompts of upstreams, in list order.
func (s *Scope) Names() []Name { return s.view.Load().names() }

// view is an immutable state of the catalog.
type view struct {
	rights    *bearer.Rights
	barred    map[string]string // servers of which nothing may be used, by their script names
	upstreams []string          // in the order of the configuration
	prefixes  map[string]string // by upstream
	sources   map[string]Source // by upstream
	disabled  map[string]string // disabled servers by their script names
	lists     map[wire.Surface]list
	fresh     map[wire.Surface][]envelope.Freshness // of each upstream
	tools     tools
	prompts   map[string]ownName // by public name
	resources map[string]string  // servers by URI
	templates []template         // the most literal ones first
	pins      Pins
	withheld  map[wire.Surface][]withheld
	odd       map[wire.Surface]map[string]oddities // by server
}

// ownName is an upstream's own name of a prompt or tool.
type ownName struct{ server, name string }

func newView(c *Catalog, of *Scope) *view {
	v := &view{rights: of.rights, pins: c.pins, withheld: map[wire.Surface][]withheld{}, odd: map[wire.Surface]map[string]oddities{}, barred: map[string]string{}, prefixes: map[string]string{}, sources: map[string]Source{}, disabled: map[string]string{}, lists: map[wire.Surface]list{}, fresh: map[wire.Surface][]envelope.Freshness{}}
	for _, s := range c.narrowed(of) {
		v.sources[s.Server] = s.Source
		if s.barred {
			v.barred[abi.Ident(s.Server)] = s.Server
			continue
		}
		v.upstreams = append(v.upstreams, s.Server)
		v.prefixes[s.Server] = s.Prefix
	}
	for _, server := range c.disabled {
		v.disabled[abi.Ident(server)] = server
	}
	for _, surface := range wire.Surfaces {
		v.build(c, of, surface)
	}
	return v
}

// with returns a copy of v with a surface rebuilt from the catalog's sources.
func (v *view) with(c *Catalog, of *Scope, surface wire.Surface) *view {
	w := *v
	w.lists, w.fresh, w.withheld, w.odd = maps.Clone(v.lists), maps.Clone(v.fresh), maps.Clone(v.withheld), maps.Clone(v.odd)
	w.build(c, of, surface)
	return &w
}

func (v *view) build(c *Catalog, of *Scope, surface wire.Surface) {
	b, sources := builder{surface: surface, rights: of.rights, pins: c.pins, odd: map[string]oddities{}}, c.narrowed(of)
	switch surface {
	case wire.Tools:
		v.tools = b.tools(of, of.builtins, c.saved(of), sources)
	case wire.Prompts:
		v.prompts = b.prompts(sources)
	case wire.Resources:
		v.resources = b.resources(sources)
	case wire.Templates:
		v.templates = b.templates(sources)
	}
	metas := make([]Part, 0, len(c.sources))
	fresh := make([]envelope.Freshness, 0, len(c.sources))
	for _, s := range sources {
		if s.barred {
			continue
		}
		l := s.lists[surface]
		metas = append(metas, Part{s.Server, l.meta})
		fresh = append(fresh, l.fresh)
	}
	v.fresh[surface], v.withheld[surface], v.odd[surface] = fresh, b.withheld, b.odd
	b.meta = MergeMeta(metas)
	v.lists[surface] = b.finish()
}

func (v *view) names() []Name {
	var names []Name
	for _, e := range v.lists[wire.Tools].items {
		if t := v.tools.visible[e.key]; t.Kind == Proxied {
			names = append(names, v.name(wire.Tools, e.key, ownName{t.Server, t.Tool}))
		}
	}
	for _, e := range v.lists[wire.Prompts].items {
		names = append(names, v.name(wire.Prompts, e.key, v.prompts[e.key]))
	}
	return names
}

func (v *view) name(surface wire.Surface, public string, o ownName) Name {
	return Name{Surface: surface, Public: public, Server: o.server, Own: o.name, Hashed: public != v.prefixes[o.server]+o.name}
}
