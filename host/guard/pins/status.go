package pins

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
	// Pinned means: the server has pins.
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
