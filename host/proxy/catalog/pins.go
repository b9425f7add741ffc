package catalog

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Pins compare the current definitions of upstreams with earlier ones; see pins.Keeper. The methods
// are called with locks held, and must not block.
type Pins interface {
	// Check returns the finding about a definition, by the upstream's own name of the item; nil for
	// none.
	Check(server string, surface wire.Surface, own string, d *pins.Definition) *pins.Finding
	// CheckInstructions does the same for the instructions in a raw handshake.
	CheckInstructions(server string, handshake []byte) *pins.Finding
	// Problems returns the findings about servers as a whole.
	Problems() []*pins.Finding
	// Mode returns the mode of a server's pins.
	Mode(server string) pins.Mode
}

// withheld is an item that differs from its pin.
type withheld struct {
	sourceItem
	server  string
	finding *pins.Finding
}

// SetPins sets the pins. The call comes before any SetList.
func (c *Catalog) SetPins(p Pins) {
	c.rebuild(func() { c.pins = p })
}

// Recheck compares all definitions with their pins again. Clients are notified of changes.
func (c *Catalog) Recheck() { c.rebuild(func() {}) }

// pinned reports whether pins allow the use of an item, and notes the finding of the pins.
func (b *builder) pinned(s *source, item sourceItem) bool {
	if b.pins == nil {
		return true
	}
	f := b.pins.Check(s.Server, b.surface, item.own, item.sent)
	if f == nil {
		return true
	}
	if !f.General() { // else Catalog.Problems has the finding once
		b.problems = append(b.problems, problemOf(f))
	}
	if f.Withheld {
		b.withheld = append(b.withheld, withheld{item, s.Server, f})
	}
	return !f.Withheld
}

func problemOf(f *pins.Finding) Problem {
	return Problem{Text: f.Text(), Remedy: f.Remedy(), Drifted: f.Server}
}

// enforced reports whether only pinned definitions of a server may be used.
func (b *builder) enforced(server string) bool {
	return b.pins != nil && b.pins.Mode(server) == pins.Enforce
}

// unpinned returns why pins forbid calling a tool that the server may have; nil if they do not.
func (s *scriptServer) unpinned(tool string) error {
	if f := s.withheld[tool]; f != nil {
		return f
	}
	if _, listed := s.tools[tool]; !listed {
		return &pins.Finding{
			Item: pins.Item{Server: s.server, Surface: wire.Tools, Name: tool}, Reason: pins.Unknown, Withheld: true,
		}
	}
	return nil
}

// withheldAs returns the finding about the withheld tool that a script names; nil for none.
func (s *scriptServer) withheldAs(tool string, exact bool) *pins.Finding {
	if f := s.withheld[tool]; exact && f != nil {
		return f
	}
	var all []string
	for own := range s.withheld {
		if abi.Ident(own) == tool {
			all = append(all, own)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return s.withheld[slices.Min(all)]
}

// Withheld returns why a tool or prompt is withheld, by its public name; nil if clients would not
// see the item anyway.
func (s *Scope) Withheld(surface wire.Surface, public string) *pins.Finding {
	v := s.view.Load()
	for _, w := range v.withheld[surface] {
		if w.public != public || !v.rights.Shows(w.server, w.own) {
			continue
		}
		if of := v.sources[w.server]; surface != wire.Tools || of.Exposes(w.own) && !of.Hides(w.own) {
			return w.finding
		}
	}
	return nil
}

// PinnedPrompt returns an error if a prompt may not be used, by the real names of server and
// prompt, because the prompt differs from its pin. The error is a *pins.Finding.
func (s *Scope) PinnedPrompt(server, own string) error {
	v := s.view.Load()
	for _, w := range v.withheld[wire.Prompts] {
		if w.server == server && w.own == own {
			return w.finding
		}
	}
	return v.pinnedServer(server)
}

// PinnedURI returns an error if a resource may not be used at a server, by its URI or by the text
// of its template, because the matching template differs from its pin. The error is a
// *pins.Finding.
func (s *Scope) PinnedURI(server, uri string) error {
	v := s.view.Load()
	m := newMatching(uri)
	listed := v.resources[uri] == server || slices.ContainsFunc(v.templates, func(t template) bool {
		return t.server == server && (t.text == uri || m.matches(&t))
	})
	m = newMatching(uri)
	for _, w := range v.withheld[wire.Templates] {
		if listed || w.server != server {
			continue
		}
		// A template that is too large to compare could match.
		if t, err := parseTemplate(w.own); w.own == uri || err == nil && (m.matches(&t) || m.over) {
			return w.finding
		}
	}
	return v.pinnedServer(server)
}

// pinnedServer returns an error if nothing of a server may be used.
func (v *view) pinnedServer(server string) error {
	if v.pins == nil {
		return nil
	}
	for _, f := range v.pins.Problems() {
		if f.Server == server && f.Withheld && f.General() {
			return f
		}
	}
	return nil
}

// Instructions returns the instructions for clients from the raw handshake of an upstream. If they
// are withheld, why is the reason for clients.
func (c *Catalog) Instructions(server string, handshake []byte) (text, why string) {
	text, _ = wire.GetString(handshake, "instructions")
	if c.pins == nil || text == "" {
		return text, ""
	}
	if f := c.pins.CheckInstructions(server, handshake); f != nil && f.Withheld {
		return "", f.Summary()
	}
	return text, ""
}

// Digest returns the digest of a tool's current definition at the upstream, by the real names of
// server and tool; see pins.Digest. ok is false if the upstream does not list the tool. The digest
// is computed once for each definition.
func (s *Scope) Digest(server, tool string) (digest string, ok bool) {
	of := s.view.Load().tools.scripts[abi.Ident(server)]
	if of == nil || of.server != server || of.sent[tool] == nil {
		return "", false
	}
	return of.sent[tool].Digest(), true
}

// PinMode returns the handling of changed definitions of an upstream.
func (s *Scope) PinMode(server string) pins.Mode {
	if p := s.view.Load().pins; p != nil {
		return p.Mode(server)
	}
	return pins.Off
}

// pinProblems returns the findings of pins about upstreams as a whole.
func (v *view) pinProblems() []Problem {
	if v.pins == nil {
		return nil
	}
	var all []Problem
	for _, f := range v.pins.Problems() {
		if !v.rights.HidesServer(f.Server) {
			all = append(all, problemOf(f))
		}
	}
	return all
}
