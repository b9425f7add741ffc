package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// DefaultTTL is how long a renewal of a replica's document lasts. It is renewed four times as
// often.
const DefaultTTL = 15 * time.Second

// forgetAfter is how many TTLs after its last renewal the document of a silent replica is
// removed, so that people can still see it for a while.
const forgetAfter = 40

// registry knows the replicas of a fleet.
type registry struct {
	mu      sync.Mutex // a leaf
	ready   bool       // all documents have been read
	members map[string]*member
	// proof is until when renewals of others would have been seen: when a renewal of our own
	// was seen, or the store answered a process that has no document.
	proof time.Time
	// proven is since when proof has had no gap.
	proven time.Time
	// wanted are the replicas without a document that were asked for, and since when; removed are
	// those whose document was there, and is not any more. Both are bounded.
	wanted    map[string]time.Time
	removed   map[string]bool
	listeners map[int]func()
	next      int
	renewals  chan struct{} // closed and replaced when a renewal was seen
	// unreadable are the documents of which it was said that they cannot be read.
	unreadable map[string]bool
}

func newRegistry() *registry {
	return &registry{members: map[string]*member{}, wanted: map[string]time.Time{}, removed: map[string]bool{}, listeners: map[int]func(){}, renewals: make(chan struct{}), unreadable: map[string]bool{}}
}

// Replicas returns the replicas whose documents are in the store, this one included, in the
// order in which they say that they were started. It is empty until the store has been read.
func (f *Fleet) Replicas() []Replica {
	if f == nil {
		return nil
	}
	g, now := f.registry, time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Replica
	for _, m := range g.members {
		all = append(all, g.replicaLocked(m, f.id, now))
	}
	slices.SortFunc(all, func(a, b Replica) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Replica returns what is known of a replica. One that is not there has only its ID, and the
// State Gone, or Unknown if the store has not been read yet.
func (f *Fleet) Replica(id string) Replica {
	if f == nil {
		return Replica{Info: Info{ID: id}, State: Gone}
	}
	g := f.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[id]; m != nil {
		return g.replicaLocked(m, f.id, time.Now())
	}
	r := Replica{Info: Info{ID: id}, State: Gone, Self: id == f.id}
	if !g.ready || r.Self {
		r.State = Unknown
	}
	return r
}

// replicaLocked returns a member for others.
func (g *registry) replicaLocked(m *member, self string, now time.Time) Replica {
	r := Replica{Info: m.Info, State: g.stateLocked(m), Self: m.ID == self, Renewed: now.Sub(m.seen)}
	r.Counts, r.Keys, r.Silent = maps.Clone(m.Counts), slices.Clone(m.Keys), slices.Clone(m.Silent)
	return r
}

// stateLocked returns the state of a member. Of one whose document was only read so far, others
// may know more.
func (g *registry) stateLocked(m *member) State {
	if g.proof.Sub(m.seen) >= time.Duration(m.TTL) {
		return Silent
	}
	if !m.renewed {
		for _, other := range g.members {
			if other.renewed && slices.Contains(other.Silent, m.ID) {
				return Silent
			}
		}
	}
	return Live
}

// OnChange calls changed when a replica comes, goes, becomes silent or live, begins to drain, or
// gets another address, until stop is called. Changes that come quickly may be told once.
// changed must not block, and may still be called once while stop returns.
func (f *Fleet) OnChange(changed func()) (stop func()) {
	if f == nil {
		return func() {}
	}
	g := f.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.next
	g.next++
	g.listeners[n] = changed
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.listeners, n)
	}
}

// tell calls those who want to know of changes. g.mu must not be held.
func (g *registry) tell() {
	g.mu.Lock()
	var all []func()
	for _, f := range g.listeners {
		all = append(all, f)
	}
	g.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// reset forgets that the documents have been read: they will be read again. What was known

// completed ends a reading of all documents: those that were not among them have been removed.
func (g *registry) completed(seen map[string]bool) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	news = !g.ready
	g.ready = true
	g.renewedLocked()
	for id := range g.members {
		if !seen[id] {
			g.removeLocked(id)
			news = true
		}
	}
	return news
}

// put notes the document of a replica. self says that it is that of this process.
func (g *registry) put(d document, v store.Version, now time.Time, self bool) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[d.ID]
	if m != nil && d.Beat <= m.Beat {
		return false // read again, or an older form
	}
	news = m == nil || changed(&m.Info, &d.Info)
	next := &member{document: d, version: v, seen: now, renewed: m != nil, told: Live}
	if m != nil {
		news = news || m.told != Live
	}
	g.members[d.ID] = next
	delete(g.wanted, d.ID)
	delete(g.removed, d.ID)
	if self {
		g.proveLocked(now, time.Duration(d.TTL))
	}
	g.renewedLocked()
	return news
}

// renewedLocked wakes those who wait for renewals.
func (g *registry) renewedLocked() {
	close(g.renewals)
	g.renewals = make(chan struct{})
}

// remove notes that the document of a replica was removed.
func (g *registry) remove(id string) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	news = g.members[id] != nil
	g.removeLocked(id)
	g.renewedLocked()
	return news
}

// removeLocked forgets a member, and notes that it was there.
func (g *registry) removeLocked(id string) {
	if g.members[id] == nil {
		return
	}
	delete(g.members, id)
	if len(g.removed) >= maxNoted {
		clear(g.removed)
	}
	g.removed[id] = true
}

// prove notes that renewals are seen up to now.
func (g *registry) prove(now time.Time, ttl time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.proveLocked(now, ttl)
}

func (g *registry) proveLocked(now time.Time, ttl time.Duration) {
	if !g.proof.IsZero() && now.Sub(g.proof) > ttl/2 {
		// Nothing was seen for a while, so nobody could be: those who were live get as much
		// time again.
		for _, m := range g.members {
			if g.stateLocked(m) == Live {
				m.seen = now
			}
		}
		g.proven = now
	}
	if g.proof.IsZero() {
		g.proven = now
	}
	g.proof = now
	g.renewedLocked()
}

// review finds replicas that have become silent, and those that were for long, whose documents
// are to be removed.
func (g *registry) review() (news bool, old []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		if state := g.stateLocked(m); state != m.told {
			m.told, news = state, true
		}
		if g.proof.Sub(m.seen) > forgetAfter*time.Duration(m.TTL) {
			old = append(old, m)
		}
	}
	return news, old
}

// silent returns the ids of the silent replicas.
func (g *registry) silent() (ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, m := range g.members {
		if g.stateLocked(m) == Silent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// watch keeps the registry up to date until ctx ends.
func (f *Fleet) watch(ctx context.Context) {
	for said := false; ctx.Err() == nil; {
		err := f.watchOnce(ctx)
		if err != nil && !said && !errors.Is(err, store.ErrGone) && !errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil {
			f.opts.Log.Warn("the replicas of the fleet cannot be read", "err", err)
			said = true
		}
		sleep(ctx, watchAgain)
	}
}

// damaged notes that a document cannot be read. It can be that of a replica with a key that this
// process does not have.
func (f *Fleet) damaged(name string, err error) {
	f.registry.mu.Lock()
	said := f.registry.unreadable[name]
	if len(f.registry.unreadable) < maxUnreadable {
		f.registry.unreadable[name] = true
	}
	f.registry.mu.Unlock()
	if !said {
		f.opts.Log.Warn("a document about the fleet cannot be read", "err", err)
	}
}

// maxUnreadable is of how many documents it is said that they cannot be read.
const maxUnreadable = 100

// watchAgain is how long a watch that has failed is not tried again.
const watchAgain = time.Second

func (f *Fleet) watchOnce(ctx context.Context) error {
	g := f.registry
	seen, ready := map[string]bool{}, false
	for c, err := range f.store.Watch(ctx, collection) {
		if err != nil {
			if c.Name == "" {
				return err
			}
			f.damaged(c.Name, err)
			continue
		}
		news := false
		switch id, isReplica := idOf(c.Name, replicaPrefix); {
		case c.Ready:
			ready = true
			news = g.completed(seen)
		case isReplica && c.Version == "":
			news = g.remove(id)
			if id == f.id {
				f.renew() // somebody believed that this process was dead
			}
		case isReplica:
			d, ok := readReplica(id, c.Data)
			if !ok {
				continue // of a later version, or wrong
			}
			seen[id] = true
			news = g.put(d, c.Version, time.Now(), id == f.id)
		case c.Name == drainPrefix+f.id && c.Version != "":
			f.ordered(c.Data)
		case c.Name == askName && c.Version != "" && ready:
			f.renew()
		}
		if news {
			g.tell()
		}
	}
	return nil
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
