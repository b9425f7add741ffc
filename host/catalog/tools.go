package catalog

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// tools is what there is to know of tools, beside their list.
type tools struct {
	seen    map[string]Entry // what agents see, by public name
	owners  map[string]Entry // every public name that is taken
	servers []string         // script names, in the order of the configuration
	scripts map[string]*scriptServer
}

// Tool finds a tool that agents see.
func (c *Catalog) Tool(name string) (Entry, bool) {
	e, ok := c.view.Load().tools.seen[name]
	return e, ok
}

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
	for _, e := range c.builtins {
		b.tool(&t, e, 0, true)
	}
	for _, e := range c.composites {
		b.tool(&t, e, 1, true)
	}
	for i, s := range c.sources {
		b.sourceTools(&t, s, i+2)
	}
	return t
}

func (b *builder) tool(t *tools, e Entry, rank int, visible bool) {
	if owner, taken := t.owners[e.Name]; taken {
		b.problem("tool name %q: %s hides %s (give one of them another name or prefix)",
			e.Name, owner.Describe(), e.Describe())
		return
	}
	t.owners[e.Name] = e
	if visible {
		t.seen[e.Name] = e
		b.add(rank, e.Name, e.Definition)
	}
}

func (b *builder) sourceTools(t *tools, s *source, rank int) {
	script := &scriptServer{server: s.Server, hidden: map[string]bool{}, tools: map[string][]byte{}, idents: map[string][]string{}}
	t.scripts[abi.Ident(s.Server)] = script
	t.servers = append(t.servers, abi.Ident(s.Server))
	for _, l := range b.of(s) {
		hidden := s.Hides(l.own)
		script.add(l.own, l.definition, hidden)
		e := Entry{Name: l.public, Kind: Proxied, Server: s.Server, Tool: l.own, Definition: l.definition}
		b.tool(t, e, rank, !hidden && s.Exposes(l.own))
	}
	b.problems = append(b.problems, script.collisions()...)
}
