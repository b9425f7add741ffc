package pins

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Offer is what a server offers now.
type Offer struct {
	Handshake []byte                    // raw result of initialize; nil for none
	Lists     map[wire.Surface][][]byte // raw definitions; a list that failed is missing
}

// definitions returns what is pinned of an offer.
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

// Status is how a server compares with its pins.
type Status struct {
	Server string
	// Pinned says that there are pins of the server.
	Pinned bool
	// Matches is how many definitions are as they were pinned.
	Matches int
	// Findings are the differences, sorted: what changed, is new, or is gone.
	Findings []*Finding
}

// Inspect compares what a server offers with its pins. The mode of the server in s does not
// matter, nor whether s has it.
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

// stateOf returns a state in which a server is compared whatever its mode is.
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

// Accept makes what findings are about the pins of their servers: what changed and what is
// new is pinned as it is offered, and what is gone is removed. Definitions that are pinned
// beside others stay so. It changes the lock, and returns what cannot be pinned, as Unpinnable.
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
		e.beside = at[f.Server].taken(at[f.Server].servers[f.Server], f.Surface, f.Name, false)
		l.servers[f.Server][f.Surface][f.Name] = e
	}
	return left
}

// Record notes that lists of a server were looked at, so that what appears in them later is
// new. It changes the lock.
func Record(l *Lock, server string, offer Offer) {
	for surface := range offer.definitions() {
		l.surface(server, surface)
	}
}
