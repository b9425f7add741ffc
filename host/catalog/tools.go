package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// tools is what there is to know of tools, beside their list.
type tools struct {
	seen    map[string]Entry // what agents see, by public name
	all     []Entry          // what agents or scripts may call
	owners  map[string]Entry // every public name that is taken
	servers []string         // script names, in the order of the configuration
	scripts map[string]*scriptServer
}

// Tool finds a tool that agents see.
func (c *Catalog) Tool(name string) (Entry, bool) {
	e, ok := c.view.Load().tools.seen[name]
	return e, ok
}

// All are the tools that somebody may call, agents or scripts: built-in tools,
// saved tools, upstreams as configured, by name within each. Those that the
// configuration hides are not among them. A tool whose public name another has
// is, as scripts do not call it by that. The slice must not be changed.
func (c *Catalog) All() []Entry { return c.view.Load().tools.all }

// Owner finds whatever tool has the public name, seen by agents or not.
func (c *Catalog) Owner(name string) (Entry, bool) {
	e, ok := c.view.Load().tools.owners[name]
	return e, ok
}

// Describe says whose tool e is, for messages.
func (e Entry) Describe() string {
	if e.Kind == Proxied {
		return fmt.Sprintf("tool %q of upstream %q", e.Tool, e.Server)
	}
	return "the " + e.Kind.String()
}

func (b *builder) tools(c *Catalog) tools {
	t := tools{seen: map[string]Entry{}, owners: map[string]Entry{}, scripts: map[string]*scriptServer{}}
	for rank, own := range [][]Entry{c.builtins, c.composites} {
		for _, e := range own {
			if b.tool(&t, e, rank, true) {
				t.all = append(t.all, e)
			}
		}
	}
	for i, s := range c.sources {
		b.sourceTools(&t, s, i+2)
	}
	return t
}

// tool enters e under its public name, unless another tool has that.
func (b *builder) tool(t *tools, e Entry, rank int, visible bool) bool {
	if owner, taken := t.owners[e.Name]; taken {
		b.problem("tool name %q: %s hides %s (give one of them another name or prefix)",
			e.Name, owner.Describe(), e.Describe())
		return false
	}
	t.owners[e.Name] = e
	if visible {
		t.seen[e.Name] = e
		b.add(rank, e.Name, e.Definition)
	}
	return true
}

func (b *builder) sourceTools(t *tools, s *source, rank int) {
	script := &scriptServer{server: s.Server, remembered: s.lists[wire.Tools].remembered, hidden: map[string]bool{}, tools: map[string][]byte{}, idents: map[string][]string{}}
	t.scripts[abi.Ident(s.Server)] = script
	t.servers = append(t.servers, abi.Ident(s.Server))
	first := len(t.all)
	for _, l := range b.of(s) {
		hidden := s.Hides(l.own)
		script.add(l.own, l.definition, hidden)
		e := Entry{Name: l.public, Kind: Proxied, Server: s.Server, Tool: l.own, Definition: l.definition}
		b.tool(t, e, rank, !hidden && s.Exposes(l.own))
		if !hidden {
			t.all = append(t.all, e)
		}
	}
	slices.SortStableFunc(t.all[first:], func(a, b Entry) int { return strings.Compare(a.Tool, b.Tool) })
	b.problems = append(b.problems, script.collisions()...)
}
