package pins

import (
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// maxDrift is how many lines Drift returns.
const maxDrift = 20

// Findings returns the findings about a server and its last offer, sorted.
func (k *Keeper) Findings(server string) []*Finding {
	s := k.now.Load()
	at := s.servers[server]
	if at == nil {
		return nil
	}
	if f := s.problem(at); f != nil && f.General() && f.Withheld {
		return []*Finding{f}
	}
	var all []*Finding
	if f := s.problem(at); f != nil {
		all = append(all, f)
	}
	for _, surface := range pinned {
		for name, d := range k.offered(server, surface) {
			if f := s.check(Item{server, surface, name}, d); f != nil {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Finding) int { return compareItems(a.Item, b.Item) })
	return all
}

// Drift returns Findings in short lines, at most maxDrift, without text of the server but
// names.
func (k *Keeper) Drift(server string) []string {
	var lines []string
	for i, f := range k.Findings(server) {
		if i == maxDrift {
			return append(lines, "and more")
		}
		line := fmt.Sprintf("%s: %s", f.Item, f.Summary())
		if f.Withheld {
			line += " (withheld)"
		}
		lines = append(lines, line)
	}
	return lines
}

// Accepts reports whether another process of a server may be used, judging by its list of a
// surface, or by its raw handshake as the only item of About: none of the items would be withheld.
func (k *Keeper) Accepts(server string, surface wire.Surface, items [][]byte) bool {
	if k.Mode(server) != Enforce {
		return true
	}
	for _, raw := range items {
		if surface == About {
			if f := k.CheckInstructions(server, raw); f != nil && f.General() {
				return false
			}
			continue
		}
		name, ok := wire.GetString(raw, surface.Key())
		if f := k.Check(server, surface, name, NewDefinition(raw)); ok && f != nil && f.Withheld {
			return false
		}
	}
	return true
}

// Permitted returns why a tool may not be called, judging by its server's last offer; nil if the
// call is permitted. The error is a *Finding.
func (k *Keeper) Permitted(server, tool string) error {
	if k.Mode(server) != Enforce {
		return nil
	}
	item := Item{server, wire.Tools, tool}
	d := k.offered(server, wire.Tools)[tool]
	if d == nil {
		return &Finding{Item: item, Reason: Unknown, Withheld: true}
	}
	if f := k.now.Load().check(item, d); f != nil && f.Withheld {
		return f
	}
	return nil
}
