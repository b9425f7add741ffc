package catalog

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/strict"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
