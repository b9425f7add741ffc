package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/strict"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
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

// maxName is the maximum length of tool names in the common MCP hosts and model APIs. They accept
// only the bytes [A-Za-z0-9_-].
const maxName = 64

// PublicName returns the name of an upstream's tool for clients: prefix and name, if the result is
// a valid name. Otherwise PublicName replaces invalid bytes with underscores, shortens the name,
// and adds a short hash of the original, so that the name is unique and stable.
func PublicName(prefix, tool string) string {
	name := prefix + tool
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if clean == name && len(name) <= maxName && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return clean[:min(len(clean), maxName-len(suffix))] + suffix
}

// maxOdd is how many odd items of a list are described, and maxOddName how much of their names
// is shown, in characters.
const (
	maxOdd     = 5
	maxOddName = 64
)

// oddities are the odd items of a list of a server: strict clients would refuse the whole list
// because of them.
type oddities struct {
	lines []string // a line about each odd item, at most maxOdd
	more  int
}

// noteOdd notes an odd item of a server.
func (b *builder) noteOdd(server string, item sourceItem) {
	o := b.odd[server]
	if len(o.lines) == maxOdd {
		o.more++
	} else {
		name := display.Line(item.own, maxOddName)
		does := "is shown "
		if item.refused {
			does = "is left out: "
		}
		o.lines = append(o.lines, fmt.Sprintf("%s %q %s%s", noun(b.surface), name, does, item.odd))
	}
	b.odd[server] = o
}

// forms returns the definition of a built-in or saved tool for clients of the handshake era, and
// whether the tool is withheld from all clients. Definition becomes the form for other clients.
func (b *builder) forms(e *Entry) (handshake []byte, refused bool) {
	if e.sound {
		return e.Definition, false
	}
	v := strict.Judge(wire.Tools, e.Definition, false)
	if v.Odd() {
		b.problem("save the tool with another schema", "%s %q: strict clients refuse its definition, with the whole list: %s", e.Kind, e.Name, v.Summary())
	}
	if v.Refused != "" {
		return e.Definition, true
	}
	e.Definition = v.Stateless
	return v.Handshake, false
}

// oddOf returns a line on each odd item in the lists of a server, and the number of odd items
// without a line.
func (v *view) oddOf(server string) (lines []string, more int) {
	for _, surface := range wire.Surfaces {
		o := v.odd[surface][server]
		lines, more = append(lines, o.lines...), more+o.more
	}
	return lines, more
}

// Odd returns lines on the odd items in the lists of a server: strict clients would refuse the
// whole list because of them. Clients get these items without the members at fault, or not at all.
func (s *Scope) Odd(server string) []string {
	lines, more := s.view.Load().oddOf(server)
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// oddProblems returns a problem for each server with odd items.
func (v *view) oddProblems() []Problem {
	var all []Problem
	for _, server := range v.upstreams {
		if lines, more := v.oddOf(server); len(lines) > 0 {
			all = append(all, oddProblem(server, lines, more))
		}
	}
	return all
}

func oddProblem(server string, lines []string, more int) Problem {
	text := fmt.Sprintf("upstream %q lists what strict clients refuse, with all lists: %s", server, strings.Join(lines, "; "))
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return Problem{Text: text, Remedy: "report it to the authors of the server; scripts can use what is left out", Odd: server}
}

// newlyOdd returns the warnings about servers with odd items: one for each server, until the server
// has no odd items. The caller holds c.mu.
func (c *Catalog) newlyOdd() []Problem {
	var warnings []Problem
	now := map[string]bool{}
	for _, p := range c.Scope.view.Load().oddProblems() {
		if now[p.Odd] = true; !c.odd[p.Odd] {
			warnings = append(warnings, p)
		}
	}
	c.odd = now
	return warnings
}

func (c *Catalog) warn(problems []Problem) {
	for _, p := range problems {
		c.log.Warn(p.String())
	}
}
