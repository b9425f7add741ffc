package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// tools holds the tools of a view by their various names.
type tools struct {
	visible map[string]Entry // tools for clients, by public name
	all     []Entry          // tools for clients or scripts
	owners  map[string]Entry // tools with a public name, by public name
	servers []string         // script names, in the order of the configuration
	scripts map[string]*scriptServer
	// enforced are the servers whose tools need a pin, by real name.
	enforced map[string]*scriptServer
}

// Tool returns the tool with a public name, if clients see the tool.
func (s *Scope) Tool(name string) (Entry, bool) {
	e, ok := s.view.Load().tools.visible[name]
	return e, ok
}

// All returns the tools that clients or scripts may call: built-in tools, saved tools, then the
// tools of upstreams in the order of the configuration; by name within each. Hidden tools are left
// out. A tool whose public name belongs to another tool is included, because scripts can call it by
// its script name. The slice must not be changed.
func (s *Scope) All() []Entry { return s.view.Load().tools.all }

// Owner returns the tool with the public name, visible to clients or not.
func (s *Scope) Owner(name string) (Entry, bool) {
	e, ok := s.view.Load().tools.owners[name]
	return e, ok
}

// Listed returns the visible tools, in the order of All.
func (s *Scope) Listed() []Entry {
	t := s.view.Load().tools
	return slices.DeleteFunc(slices.Clone(t.all), func(e Entry) bool {
		seen, ok := t.visible[e.Name]
		return !ok || seen.Kind != e.Kind || seen.Server != e.Server || seen.Tool != e.Tool
	})
}

// Describe returns a description of the tool for messages.
func (e Entry) Describe() string {
	if e.Kind == Proxied {
		return fmt.Sprintf("tool %q of upstream %q", e.Tool, e.Server)
	}
	return "the " + e.Kind.String()
}

func (b *builder) tools(of *Scope, builtins, composites []Entry, sources []*source) tools {
	t := tools{visible: map[string]Entry{}, owners: map[string]Entry{}, scripts: map[string]*scriptServer{}, enforced: map[string]*scriptServer{}}
	items := make([][]sourceItem, len(sources))
	for i, s := range sources {
		items[i] = b.script(&t, s)
	}
	lookup := &Lookup{tools: &t, memo: map[string]any{}}
	for rank, own := range [][]Entry{builtins, composites} {
		for _, e := range own {
			if e.Define != nil {
				e.Definition = e.Define(lookup)
			}
			visible, hidden := of.own(e)
			handshake, refused := b.forms(&e)
			if b.tool(&t, e, handshake, rank, visible && !refused) && !hidden {
				t.all = append(t.all, e)
			}
		}
	}
	for i, s := range sources {
		b.sourceTools(&t, s, items[i], i+2)
	}
	return t
}

// tool adds e under its public name, unless another tool has the name. handshake is the definition
// for clients of the handshake era.
func (b *builder) tool(t *tools, e Entry, handshake []byte, rank int, visible bool) bool {
	if owner, taken := t.owners[e.Name]; taken {
		b.problem("give one of them another name or prefix", "tool name %q: %s hides %s",
			e.Name, owner.Describe(), e.Describe())
		return false
	}
	t.owners[e.Name] = e
	if visible {
		t.visible[e.Name] = e
		b.add(rank, e.Name, e.Definition, handshake)
	}
	return true
}

// script adds the tools of a source in the form for scripts, and returns the tools that are not
// withheld.
func (b *builder) script(t *tools, s *source) []sourceItem {
	list, listed := s.lists[wire.Tools]
	script := &scriptServer{
		server: s.Server, remembered: list.remembered, listed: listed,
		hidden: map[string]bool{}, tools: map[string][]byte{}, inputs: map[string][]byte{}, idents: map[string][]string{},
		sent: map[string]*pins.Definition{}, withheld: map[string]*pins.Finding{},
	}
	script.callable = sync.OnceValue(script.sortCallable)
	if b.enforced(s.Server) {
		t.enforced[s.Server] = script
	}
	t.scripts[abi.Ident(s.Server)] = script
	if !s.barred {
		t.servers = append(t.servers, abi.Ident(s.Server))
	}
	withheldBefore := len(b.withheld)
	items := b.itemsOf(s)
	for _, l := range items {
		script.add(l, s.Hides(l.own))
	}
	for _, w := range b.withheld[withheldBefore:] {
		if s.Hides(w.own) {
			script.add(w.sourceItem, true) // scripts learn that the tool is hidden
		} else {
			script.withheld[w.own], script.sent[w.own] = w.finding, w.sent
		}
	}
	b.problems = append(b.problems, script.collisions()...)
	return items
}

func (b *builder) sourceTools(t *tools, s *source, items []sourceItem, rank int) {
	first := len(t.all)
	for _, l := range items {
		hidden := s.Hides(l.own)
		e := Entry{Name: l.public, Kind: Proxied, Server: s.Server, Tool: l.own, Definition: l.definition}
		b.tool(t, e, l.handshake, rank, !hidden && !l.refused && s.Exposes(l.own))
		if !hidden {
			t.all = append(t.all, e)
		}
	}
	slices.SortStableFunc(t.all[first:], func(a, b Entry) int { return strings.Compare(a.Tool, b.Tool) })
}

// Lookup finds the definitions of upstreams' tools while a view is made.
type Lookup struct {
	tools *tools
	memo  map[string]any
}

// Definition is [Catalog.Definition].
func (l *Lookup) Definition(server, tool string) []byte { return l.tools.definition(server, tool) }

// ServerTools is [Catalog.ServerTools].
func (l *Lookup) ServerTools(server string) ([]string, bool) { return l.tools.serverTools(server) }

// Once returns the result of f for a key. Each view calls f once for a key.
func (l *Lookup) Once(key string, f func() any) any {
	v, ok := l.memo[key]
	if !ok {
		v = f()
		l.memo[key] = v
	}
	return v
}

// Tokens estimates how many tokens of a model's context the definition of a tool takes: one for
// each four bytes of the name, description and input schema, the parts that hosts send. Models
// differ; the estimate is usually right within a third.
func Tokens(definition []byte) int {
	size := 0
	for _, member := range []string{"name", "description", "inputSchema"} {
		raw, _ := wire.Get(definition, member)
		size += len(raw)
	}
	return (size + 3) / 4
}
