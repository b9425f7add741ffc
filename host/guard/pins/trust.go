package pins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// writeWait is how long to wait for other processes that write the file.
const writeWait = 10 * time.Second

// Offer passes a server's list of a surface to the Keeper, before the first use by any client.
// items are raw definitions, which the Keeper keeps. The first list of a server is trusted and
// recorded before Offer returns.
func (k *Keeper) Offer(server string, surface wire.Surface, items [][]byte) {
	defs := make(map[string]*Definition, len(items))
	for _, raw := range items {
		if name, ok := wire.GetString(raw, surface.Key()); ok {
			defs[name] = NewDefinition(raw)
		}
	}
	k.offer(server, surface, defs)
}

// OfferHandshake is Offer for the raw handshake of a server.
func (k *Keeper) OfferHandshake(server string, handshake []byte) {
	k.offer(server, About, map[string]*Definition{"": NewDefinition(about(handshake).canonical)})
}

func (k *Keeper) offer(server string, surface wire.Surface, defs map[string]*Definition) {
	k.mu.Lock()
	if k.offers[server] == nil {
		k.offers[server] = map[wire.Surface]map[string]*Definition{}
	}
	k.offers[server][surface] = defs
	k.mu.Unlock()
	now := k.now.Load()
	if now.servers[server] == nil {
		return
	}
	if _, recorded := now.lock.servers[server][surface]; !recorded || surface == About {
		k.change(func(*state) {})
	}
}

// offered returns a server's last offer of a surface; nil for none.
func (k *Keeper) offered(server string, surface wire.Surface) map[string]*Definition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offers[server][surface]
}

// trust adds to a new state the offered lists that the lock does not have, and writes them. The
// caller holds k.changing.
func (k *Keeper) trust(now *state) {
	for _, server := range now.servers {
		server.unwritten = nil
	}
	first := k.firstUse(now)
	if now.fault != nil || len(first) == 0 {
		return
	}
	if k.opts.ReadOnly {
		now.lock = now.lock.Clone()
		now.add(first)
		return
	}
	err := now.update(func() bool {
		now.looks = now.findLooks()
		first = k.firstUse(now) // another process may have written a part
		now.add(first)
		return len(first) > 0
	})
	if err == nil || now.fault != nil {
		return
	}
	now.looks = now.findLooks()
	for _, list := range first {
		now.servers[list.Server].unwritten = err
	}
}

// firstUse is a trusted list.
type firstUse struct {
	Item // without Name
	defs map[string]*Definition
}

// firstUse returns the offered lists that the lock does not have.
func (k *Keeper) firstUse(now *state) []firstUse {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []firstUse
	for name := range now.servers {
		for surface, defs := range k.offers[name] {
			if _, recorded := now.lock.servers[name][surface]; !recorded && surface != wire.Resources {
				all = append(all, firstUse{Item{Server: name, Surface: surface}, defs})
			}
		}
	}
	return all
}

// add adds lists to the lock, which is not shared. An item similar to another server's tool or
// prompt is left out, and counts as new until a person accepts it. Items that cannot be pinned are
// left out, too.
func (s *state) add(first []firstUse) {
	for _, list := range first {
		server, defs := s.servers[list.Server], s.lock.surface(list.Server, list.Surface)
		size := 0
		for name, d := range list.defs {
			size += len(d.canonical())
			if s.unpinnable(d, false) != nil || size > maxList || len(s.taken(server, list.Surface, name, false)) > 0 {
				continue
			}
			defs[name] = entry{canonical: d.canonical(), digest: d.Digest()}
			if list.Surface == wire.Tools || list.Surface == wire.Prompts {
				for _, text := range s.looksOf(server, name) {
					at := look{list.Surface, text}
					s.looks[at] = append(s.looks[at], owner{rank: server.rank, server: server.Name, name: name})
				}
			}
		}
	}
}

// update changes the file under the lock of all processes: update reads the file into s.lock, and
// writes s.lock if f, which changes s.lock, returns true. After an error, s.lock is the content of
// the file, as far as readable.
func (s *state) update(f func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWait)
	defer cancel()
	if s.shared != nil {
		return s.updateShared(ctx, f)
	}
	unlock, err := change.Lock(ctx, s.path)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", s.path, err)
	}
	defer unlock()
	if s.read(nil); s.fault != nil {
		return s.fault
	}
	read := s.lock
	s.lock = read.Clone()
	if !f() {
		return nil
	}
	if err := s.lock.Write(regular.Place{Name: s.path}); err != nil {
		s.lock = read
		return err
	}
	s.seen, s.existed = fingerprintOf(s.path), true
	return nil
}

// read reads the file into s.lock, or sets s.fault. A file unchanged since before, which may be
// nil, is not read again. A missing file is an empty lock, unless the file existed before: a
// checkout may be replacing the file, and no person has decided to trust the current offers of the
// servers.
func (s *state) read(before *state) {
	s.fault, s.lock = nil, New()
	s.seen = fingerprintOf(s.path)
	if before != nil && before.path == s.path && before.fault == nil && before.seen.same(s.seen) {
		s.lock = before.lock
		return
	}
	l, err := Read(context.Background(), regular.Place{Name: s.path})
	missing := errors.Is(err, fs.ErrNotExist)
	s.existed = s.existed || !missing
	switch {
	case missing && s.existed:
		s.fault = fmt.Errorf("lock file %s is gone", s.path)
	case missing:
	case err != nil:
		s.fault = err
	default:
		s.lock = l
	}
}
