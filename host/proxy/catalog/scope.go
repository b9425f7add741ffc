package catalog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// The names of servers in targets (bearer.Rights) for built-in and saved tools.
const (
	builtinTools = "builtin"
	savedTools   = "tools"
)

// Scope is the part of a Catalog for clients with the same rights, and for their scripts. A Scope
// is safe for concurrent use.
type Scope struct {
	rights *bearer.Rights // nil: they see everything
	view   atomic.Pointer[view]

	builtins []Entry // guarded by Catalog.mu
}

// For returns the Scope of clients with these rights. Without an earlier Narrow, the Scope is
// empty.
func (c *Catalog) For(r *bearer.Rights) *Scope {
	key := r.View()
	if key == "" {
		return c.Scope
	}
	if s, ok := (*c.scopes.Load())[key]; ok {
		return s
	}
	return c.nothing
}

// Narrow makes the Scopes of clients with certain rights. Keep ends Scopes. New
// Scopes have no built-in tools; see SetBuiltinsOf.
func (c *Catalog) Narrow(all []*bearer.Rights) {
	c.mu.Lock()
	defer c.mu.Unlock()
	scopes := map[string]*Scope{}
	for key, s := range *c.scopes.Load() {
		scopes[key] = s
	}
	for _, r := range all {
		if key := r.View(); key != "" && scopes[key] == nil {
			s := &Scope{rights: r}
			s.view.Store(newView(c, s))
			scopes[key] = s
		}
	}
	c.scopes.Store(&scopes)
}

// Keep ends the Scopes of all rights but these.
func (c *Catalog) Keep(all []*bearer.Rights) {
	c.mu.Lock()
	defer c.mu.Unlock()
	scopes, owners := map[string]*Scope{}, map[string]bool{"": true}
	for _, r := range all {
		if s, ok := (*c.scopes.Load())[r.View()]; ok {
			scopes[r.View()], owners[r.Own] = s, true
		}
	}
	c.scopes.Store(&scopes)
	maps.DeleteFunc(c.composites, func(own string, _ []Entry) bool { return !owners[own] })
}

// all returns all scopes. The caller holds c.mu.
func (c *Catalog) all() []*Scope {
	all := []*Scope{c.Scope}
	for _, s := range *c.scopes.Load() {
		all = append(all, s)
	}
	return all
}

// SetBuiltins replaces the built-in tools of clients without narrowed rights.
func (c *Catalog) SetBuiltins(entries []Entry) { c.SetBuiltinsOf(c.Scope, entries) }

// SetBuiltinsOf replaces the built-in tools of a scope.
func (c *Catalog) SetBuiltinsOf(s *Scope, entries []Entry) {
	c.update(wire.Tools, "", nil, func() (changed bool) {
		s.builtins, changed = replaced(s.builtins, entries, Builtin)
		return changed
	})
}

// SetComposites replaces the saved tools that clients share.
func (c *Catalog) SetComposites(entries []Entry) { c.SetCompositesOf("", entries) }

// SetCompositesOf replaces the saved tools of clients with tools of their own. own is
// bearer.Rights.Own.
func (c *Catalog) SetCompositesOf(own string, entries []Entry) {
	c.update(wire.Tools, "", nil, func() (changed bool) {
		c.composites[own], changed = replaced(c.composites[own], entries, Composite)
		return changed
	})
}

// saved returns the saved tools of a scope. The caller holds c.mu.
func (c *Catalog) saved(s *Scope) []Entry {
	if s.rights == nil {
		return c.composites[""]
	}
	return c.composites[s.rights.Own]
}

// narrowed returns the sources as the clients of a scope see them. The caller holds c.mu.
func (c *Catalog) narrowed(s *Scope) []*source {
	if s.rights == nil {
		return c.sources
	}
	all := make([]*source, len(c.sources))
	for i, of := range c.sources {
		narrow := *of
		narrow.barred = s.rights.HidesServer(of.Server)
		narrow.Exposes = func(tool string) bool { return of.Exposes(tool) && s.rights.Exposes(of.Server, tool) }
		narrow.Hides = func(tool string) bool { return of.Hides(tool) || s.rights.Hides(of.Server, tool) }
		all[i] = &narrow
	}
	return all
}

// own says how the clients of a scope see a built-in or saved tool. Only scripts can call saved
// tools, so a built-in tool that clients do not see is hidden.
func (s *Scope) own(e Entry) (visible, hidden bool) {
	server := builtinTools
	if e.Kind == Composite {
		server = savedTools
	}
	visible = s.rights.Shows(server, e.Name)
	return visible, s.rights.Hides(server, e.Name) || e.Kind == Builtin && !visible
}

// Hides reports whether a tool, by real names or script names, is forbidden for clients and their
// scripts. The tool need not exist.
func (s *Scope) Hides(server, tool string) bool {
	v := s.view.Load()
	names := []string{tool}
	if script := v.tools.scripts[abi.Ident(server)]; script != nil {
		server = script.server
		if _, own := script.tools[tool]; !own {
			names = append(names, script.idents[tool]...)
		}
	}
	of, ok := v.sources[server]
	return slices.ContainsFunc(names, func(name string) bool { return v.rights.Hides(server, name) || ok && of.Hides(name) })
}

// HasServer reports whether clients or their scripts may use something of an upstream.
func (s *Scope) HasServer(server string) bool {
	v := s.view.Load()
	_, ok := v.sources[server]
	return ok && v.barred[abi.Ident(server)] == ""
}

// PermittedPrompt returns an error if clients may not use a prompt, by the real names of
// server and prompt. The error is a *RemovedError or *HiddenError.
func (s *Scope) PermittedPrompt(server, prompt string) error {
	return s.permitted(wire.Prompts, server, prompt, s.rights.Shows(server, prompt))
}

// PermittedResource returns an error if clients may not use a resource of a server, by the server's
// real name. The error is a *RemovedError or *HiddenError.
func (s *Scope) PermittedResource(server, uri string) error {
	return s.permitted(wire.Resources, server, uri, s.rights.ShowsResource(server, uri))
}

func (s *Scope) permitted(surface wire.Surface, server, name string, may bool) error {
	if !may {
		return &HiddenError{Server: server, Tool: name, Surface: surface, Token: true}
	}
	if _, ok := s.view.Load().sources[server]; !ok {
		return &RemovedError{server}
	}
	return nil
}

// hiddenError returns the error for a hidden tool.
func (v *view) hiddenError(server, tool string) error {
	return &HiddenError{Server: server, Tool: tool, Token: v.rights.Hides(server, tool)}
}

// shown reports whether clients see an item of a server.
func (b *builder) shown(server string, item sourceItem) bool {
	switch b.surface {
	case wire.Resources, wire.Templates:
		return b.rights.ShowsResource(server, item.own)
	}
	return b.rights.Shows(server, item.own)
}

// list is the visible part of a surface.
type list struct {
	items    []item // in order
	meta     []byte // raw _meta of the list; nil for none
	problems []Problem
}

// Problem is a fault in the lists of upstreams that makes an item unusable or ambiguous.
type Problem struct {
	Text   string // a readable line
	Remedy string // how to solve the problem
	// Drifted is the upstream whose definitions differ from the pinned ones, if the problem is
	// about a drift; else "".
	Drifted string
	// Odd is the upstream that lists items that strict clients refuse, if the problem is about
	// them; else "".
	Odd string
}

// String returns text and remedy on a single line.
func (p Problem) String() string { return p.Text + " (" + p.Remedy + ")" }

// item is an item of a list.
type item struct {
	key        string // public name or URI
	rank       int    // position of the source; items of a source are ordered by key
	definition []byte
	handshake  []byte // the same for clients of the handshake era
	refused    bool   // removed at the end
}

func (l list) same(m list) bool {
	return bytes.Equal(l.meta, m.meta) && slices.EqualFunc(l.items, m.items, func(a, b item) bool {
		return a.key == b.key && bytes.Equal(a.definition, b.definition)
	})
}

// builder collects a list.
type builder struct {
	surface wire.Surface
	rights  *bearer.Rights
	pins    Pins
	// withheld are the items that are not in the list because of their pins.
	withheld []withheld
	odd      map[string]oddities // by server
	list
}

func (b *builder) add(rank int, key string, definition, handshake []byte) {
	b.items = append(b.items, item{key: key, rank: rank, definition: definition, handshake: handshake})
}

func (b *builder) problem(remedy, format string, args ...any) {
	b.problems = append(b.problems, Problem{Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// item is add for an item of an upstream.
func (b *builder) item(rank int, key string, of sourceItem) {
	b.items = append(b.items, item{key, rank, of.definition, of.handshake, of.refused})
}

func (b *builder) finish() list {
	b.items = slices.DeleteFunc(b.items, func(i item) bool { return i.refused })
	slices.SortFunc(b.items, func(a, b item) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.key, b.key)
	})
	return b.list
}

// ErrCursor says that a cursor was not issued by this catalog.
var ErrCursor = errors.New("invalid cursor (take nextCursor of an earlier page, or none)")

// Page is a part of a list.
type Page struct {
	Items     [][]byte // raw definitions; not to be changed
	Handshake [][]byte // the same for clients of the handshake era
	Next      string   // cursor of the next page; "" for the last page
	Meta      []byte   // raw _meta of the whole list; nil for none
}

// pageBytes is the total size of the definitions on a page, in bytes, unless a single definition is
// larger.
const pageBytes = 4 << 20

// Page returns at most limit items of a surface after cursor ("" for the first page). The order is:
// built-in tools, saved tools, then upstreams in the order of the configuration; by name or URI
// within each. A cursor is a position in this order, so it stays valid when the catalog changes.
// The error is ErrCursor.
func (s *Scope) Page(surface wire.Surface, cursor string, limit int) (Page, error) {
	l := s.view.Load().lists[surface]
	start := 0
	if cursor != "" {
		rank, key, err := decodeCursor(cursor)
		if err != nil {
			return Page{}, err
		}
		start, _ = slices.BinarySearchFunc(l.items, key, func(e item, key string) int {
			if e.rank != rank {
				return e.rank - rank
			}
			if e.key <= key {
				return -1
			}
			return 1
		})
	}
	end, bytes := start, 0
	p := Page{Meta: l.meta}
	for _, e := range l.items[start:min(len(l.items), start+limit)] {
		if bytes += max(len(e.definition), len(e.handshake)); bytes > pageBytes && end > start {
			break
		}
		end++
		p.Items = append(p.Items, e.definition)
		p.Handshake = append(p.Handshake, e.handshake)
	}
	if end < len(l.items) {
		last := l.items[end-1]
		p.Next = encodeCursor(last.rank, last.key)
	}
	return p, nil
}

// Hints returns how long a client may keep a list, according to the upstreams. An upstream that has
// not listed anything since its start says nothing.
func (s *Scope) Hints(surface wire.Surface) envelope.Hints {
	return envelope.Combine(time.Now(), s.view.Load().fresh[surface])
}

func encodeCursor(rank int, key string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%s", rank, key))
}

func decodeCursor(cursor string) (rank int, key string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", ErrCursor
	}
	number, key, ok := strings.Cut(string(raw), ":")
	if !ok {
		return 0, "", ErrCursor
	}
	if rank, err = strconv.Atoi(number); err != nil || rank < 0 {
		return 0, "", ErrCursor
	}
	return rank, key, nil
}
