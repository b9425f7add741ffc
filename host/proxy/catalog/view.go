package catalog

import (
	"maps"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
