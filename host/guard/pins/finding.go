package pins

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Reason is why something is to be said about a definition.
type Reason string

// The reasons.
const (
	Differs    Reason = "changed"    // differs from the pin
	Unknown    Reason = "new"        // not pinned, although its server is
	Shadows    Reason = "shadows"    // has a name like the name of another server's item
	Unpinnable Reason = "unpinnable" // cannot be recorded; Err says why
	Renamed    Reason = "renamed"    // the server has changed its own name since it was pinned
	Unreadable Reason = "unreadable" // the file cannot be read
	Unwritten  Reason = "unwritten"  // the file cannot be written, or has not been yet
	Unread     Reason = "unread"     // the server has announced changes that have not been read yet
	Gone       Reason = "gone"       // pinned, but no longer offered
)

// Finding is a problem of a definition, or of a server as a whole, with the Surface About. As an
// error, a Finding says why the definition may not be used, without any text of the server except
// names. A Finding does not change.
type Finding struct {
	Item
	Reason Reason
	// Other is the item with a similar name, as "server.name"; "" for none.
	Other string
	// Withheld marks an item that clients and scripts do not get.
	Withheld bool
	// Err is why a file cannot be used, or why the definition cannot be pinned; else nil.
	Err error

	was, is []byte // canonical; nil for a missing side
}

// General reports whether the finding is about the server's whole offer.
func (f *Finding) General() bool {
	return f.Reason == Renamed || f.Reason == Unreadable || f.Reason == Unwritten
}

// Error implements error.
func (f *Finding) Error() string {
	target, _ := f.argument()
	return fmt.Sprintf("%s may not be used: %s (the user who runs mcp-metatool can look at it with \"mcp-metatool pins diff %s\" and accept it)",
		f.Item, f.Summary(), target)
}

// Summary describes the finding in a few words without text of the server except names.
func (f *Finding) Summary() string {
	text := map[Reason]string{
		Differs:    "its definition has changed since it was pinned",
		Unknown:    "it is new since the server was pinned",
		Shadows:    "its name can be taken for another",
		Unpinnable: "it cannot be pinned",
		Renamed:    "the server calls itself otherwise than when it was pinned",
		Unreadable: "the pins cannot be read",
		Unwritten:  "its server is not pinned",
		Gone:       "it is gone",
		Unread:     "it has announced changes that could not be read yet",
	}[f.Reason]
	if f.Reason == Differs && f.Surface == About {
		text = "its instructions have changed since they were pinned"
	}
	if f.Other != "" {
		text += fmt.Sprintf(", and it can be taken for %q", f.Other)
	}
	return text
}

// Text is the Summary for the person who runs the proxy, with the change or failure.
func (f *Finding) Text() string {
	text := f.Item.String() + ": " + f.Summary()
	switch {
	case f.Withheld && f.Reason == Differs && f.Surface == About:
		text += ", so they are withheld"
	case f.Withheld:
		text += ", so it is withheld"
	}
	var details []string
	if f.Err != nil {
		details = append(details, f.Err.Error())
	}
	for i, c := range f.Changes() {
		if i == maxDetails {
			details = append(details, "…")
			break
		}
		details = append(details, c.describe())
	}
	if len(details) > 0 {
		text += ": " + strings.Join(details, "; ")
	}
	return text
}

// maxDetails is how many changes Text names.
const maxDetails = 3

// Remedy tells the person who runs the proxy how to react.
func (f *Finding) Remedy() string {
	switch f.Reason {
	case Unreadable:
		return "repair the file, restore it from version control, or pin what the servers offer now with mcp-metatool pins accept"
	case Unwritten:
		return "make the file writable"
	case Unpinnable:
		return "report it to the authors of the server"
	}
	target, exact := f.argument()
	if !exact {
		return fmt.Sprintf("look at it with mcp-metatool pins diff %s", target)
	}
	return fmt.Sprintf("mcp-metatool pins accept %s", target)
}

// argument returns the item as a word for a shell, since people copy the word: servers choose their
// names. exact is false if the word is the whole server, because the name cannot be shown
// unchanged.
func (f *Finding) argument() (word string, exact bool) {
	target := f.Target()
	hidden := func(r rune) bool { return r == '\n' || r == '\t' || !display.Harmless(r) }
	if !utf8.ValidString(target) || len(f.Name) > maxName || strings.ContainsFunc(target, hidden) {
		return f.Server, false
	}
	return shellquote.Join(target), true
}

// Changes returns the changes of a definition; none for a new definition.
func (f *Finding) Changes() []Change {
	if f.was == nil || f.is == nil {
		return nil
	}
	c := Change{Server: f.Server, Surface: f.Surface, Name: f.Name}
	if found := c.compare(f.was, f.is, false); len(found) > 0 {
		return found
	}
	if found := c.compare(f.was, f.is, true); len(found) > 0 {
		return found
	}
	c.Kind, c.Path, c.steps = Changed, "$", []any{"number"}
	c.Was, c.Is = "one way of writing it", "another"
	return []Change{c}
}

// Pinned and Offered return the canonical JSON of the pinned and of the current definition; nil for
// a missing definition.
func (f *Finding) Pinned() []byte { return f.was }

// Offered is described with Pinned.
func (f *Finding) Offered() []byte { return f.is }

// pinned are the surfaces whose definitions are pinned. Resources are not pinned: their lists are
// data, such as the files of a folder.
var pinned = []wire.Surface{wire.Tools, wire.Prompts, wire.Templates}

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

// Offer is the current offer of a server.
type Offer struct {
	Handshake []byte                    // raw result of initialize; nil for none
	Lists     map[wire.Surface][][]byte // raw definitions; a failed list is missing
}

// definitions returns the pinned surfaces of an offer.
func (o Offer) definitions() map[wire.Surface]map[string]*Definition {
	all := map[wire.Surface]map[string]*Definition{}
	if o.Handshake != nil {
		all[About] = map[string]*Definition{"": NewDefinition(about(o.Handshake).canonical)}
	}
	for _, surface := range pinned {
		items, listed := o.Lists[surface]
		if !listed {
			continue
		}
		all[surface] = map[string]*Definition{}
		for _, raw := range items {
			if name, ok := wire.GetString(raw, surface.Key()); ok {
				all[surface][name] = NewDefinition(raw)
			}
		}
	}
	return all
}

// Status compares a server with its pins.
type Status struct {
	Server string
	// Pinned means that the server has pins.
	Pinned bool
	// Matches is how many definitions are as they were pinned.
	Matches int
	// Findings are the differences, sorted: changed, new and missing definitions.
	Findings []*Finding
}

// Inspect compares the offer of a server with its pins. The mode of the server in s does not
// matter, nor whether s has the server.
func Inspect(l *Lock, s Settings, name string, offer Offer) Status {
	at := s.stateOf(l, name)
	server := at.servers[name]
	status := Status{Server: name, Pinned: l.Has(name)}
	add := func(f *Finding) {
		if f == nil {
			status.Matches++
			return
		}
		f.Withheld = false
		status.Findings = append(status.Findings, f)
	}
	all := offer.definitions()
	for surface, defs := range all {
		was, recorded := l.servers[name][surface]
		for key, d := range defs {
			item := Item{name, surface, key}
			switch {
			case !recorded:
				f := &Finding{Item: item, Reason: Unknown, is: d.canonical()}
				if err := at.unpinnable(d, false); err != nil {
					f.Reason, f.Err, f.is = Unpinnable, err, nil
				}
				add(f)
			case surface == About:
				add(at.compareHandshake(server, entry{canonical: d.canonical()}))
			default:
				add(at.check(item, d))
			}
		}
		for key, e := range was {
			if defs[key] == nil {
				add(&Finding{Item: Item{name, surface, key}, Reason: Gone, was: e.canonical})
			}
		}
	}
	slices.SortFunc(status.Findings, func(a, b *Finding) int { return compareItems(a.Item, b.Item) })
	return status
}

// stateOf returns a state in which a server is compared regardless of its mode.
func (s Settings) stateOf(l *Lock, name string) *state {
	s.Servers = slices.Clone(s.Servers)
	at := slices.IndexFunc(s.Servers, func(o ServerSettings) bool { return o.Name == name })
	if at < 0 {
		s.Servers = append(s.Servers, ServerSettings{Name: name, Prefix: name + "__"})
		at = len(s.Servers) - 1
	}
	if s.Servers[at].Mode != Enforce {
		s.Servers[at].Mode = Warn
	}
	now := newState(s, l)
	now.looks = now.findLooks()
	return now
}

// Accept makes the pins match the findings: changed and new definitions are pinned as offered, and
// missing definitions are removed. Accepted similar names stay accepted. Accept changes the lock,
// and returns the definitions that cannot be pinned, as Unpinnable.
func Accept(l *Lock, s Settings, findings []*Finding) (left []*Finding) {
	for _, f := range findings {
		defs := l.surface(f.Server, f.Surface)
		switch {
		case f.Reason == Gone:
			delete(defs, f.Name)
		case f.Reason == Unpinnable:
			left = append(left, f)
		case s.Secret != nil && s.Secret(f.is):
			left = append(left, &Finding{Item: f.Item, Reason: Unpinnable, Err: errSecret})
		default:
			defs[f.Name] = entry{canonical: f.is, digest: Digest(f.is)}
		}
	}
	at := map[string]*state{}
	for _, f := range findings {
		e, ok := l.servers[f.Server][f.Surface][f.Name]
		if !ok || f.Surface == About {
			continue
		}
		if at[f.Server] == nil {
			at[f.Server] = s.stateOf(l, f.Server)
		}
		e.similar = at[f.Server].taken(at[f.Server].servers[f.Server], f.Surface, f.Name, false)
		l.servers[f.Server][f.Surface][f.Name] = e
	}
	return left
}

// Record notes which lists of a server were looked at, so that later items of these lists count as
// new. Record changes the lock.
func Record(l *Lock, server string, offer Offer) {
	for surface := range offer.definitions() {
		l.surface(server, surface)
	}
}
