package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait.
const patience = time.Minute

func ring(t *testing.T, ids ...string) *sealed.Ring {
	t.Helper()
	r, err := sealed.NewRing(keysOf(ids...)...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keysOf(ids ...string) []sealed.Key {
	keys := make([]sealed.Key, len(ids))
	for i, id := range ids {
		keys[i] = sealed.Key{ID: id, Secret: [32]byte{1, id[0]}}
	}
	return keys
}

// open opens a fleet at the end of a link.
func open(t *testing.T, link *memorytest.Link, keys *sealed.Ring, change func(*fleet.Options)) *fleet.Fleet {
	t.Helper()
	opts := fleet.Options{
		Open: func(ctx context.Context) (store.Store, error) {
			inner, err := link.Open(ctx)
			if err != nil {
				return nil, err
			}
			return sealed.New(inner, keys, "test"), nil
		},
		Ring: keys, Name: "test", TTL: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opts)
	}
	f := fleet.Open(opts)
	t.Cleanup(func() { f.Close() })
	return f
}

// until waits until a fleet says something about its replicas, as OnChange tells.
func until(t *testing.T, f *fleet.Fleet, what string, is func() bool) {
	t.Helper()
	changed := make(chan struct{}, 1)
	stop := f.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-changed:
		case <-end:
			t.Fatalf("%s: not within %v; replicas: %+v", what, patience, f.Replicas())
		}
	}
}

// TestReplicas lets two processes of a fleet, and one that only looks on, see each other come,
// change, drain and go.
func TestReplicas(t *testing.T) {
	t.Parallel()
	link, keys := memorytest.New(t), ring(t, "1")
	a := open(t, link, keys, func(o *fleet.Options) { o.About = fleet.Info{Name: "a", Guest: "g1"} })
	b := open(t, link, keys, func(o *fleet.Options) { o.About = fleet.Info{Name: "b", Guest: "g2"} })
	observer := open(t, link, keys, func(o *fleet.Options) { o.Observer = true })
	for _, f := range []*fleet.Fleet{a, b, observer} {
		until(t, f, "both are live", func() bool {
			return f.Replica(a.ID()).State == fleet.Live && f.Replica(b.ID()).State == fleet.Live
		})
	}
	if all := observer.Replicas(); len(all) != 2 || observer.Replica(b.ID()).Guest != "g2" {
		t.Fatalf("%+v", all)
	}
	until(t, a, "nobody is gone", func() bool {
		r := a.Replica("unknown")
		return r.State == fleet.Gone && r.Lost()
	})
	if err := observer.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.SetPeer("http://b")
	until(t, a, "the address of b is there", func() bool { return a.Replica(b.ID()).Peer == "http://b" })
	changes := 0
	strangersOrder(t, link, a.ID(), func() { // replicas read all these documents in their order
		changes++
		b.SetPeer(fmt.Sprint("http://b", changes))
		until(t, a, "what came later", func() bool { return a.Replica(b.ID()).Peer == fmt.Sprint("http://b", changes) })
	})
	if err := observer.Tell(t.Context(), b.ID(), false); err != nil {
		t.Fatal(err)
	}
	until(t, b, "b drains", b.IsDraining)
	until(t, a, "b drains", func() bool { return a.Replica(b.ID()).Draining })
	if a.IsDraining() || a.EndsDrained() || b.EndsDrained() {
		t.Fatal("somebody without the key makes a replica drain, or end", a.IsDraining(), a.EndsDrained(), b.EndsDrained())
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, a, "b is gone", func() bool { return a.Replica(b.ID()).State == fleet.Gone })
	if all := a.Replicas(); len(all) != 1 || !all[0].Self {
		t.Fatalf("%+v", all)
	}
}

// strangersOrder tells a replica to drain and end as a stranger can who may write to the store and has no key of
// the fleet: without any key, with another one, and with an order that the fleet has written under
// another name. seen is called after each.
func strangersOrder(t *testing.T, link *memorytest.Link, to string, seen func()) {
	t.Helper()
	inner := link.MustOpen(t)
	name := func(id string) store.Key { return store.Key{Collection: "fleet", Name: "drain/" + id} }
	sealedWith := func(id string, key store.Key) []byte {
		t.Helper()
		if _, err := sealed.New(inner, ring(t, id), "test").Put(t.Context(), key, "", []byte(`{"end":true}`)); err != nil {
			t.Fatal(err)
		}
		d, err := inner.Get(t.Context(), key)
		if err == nil {
			err = inner.Remove(t.Context(), key, d.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
		return d.Data
	}
	var version store.Version
	for _, data := range [][]byte{[]byte(`{"end":true}`), sealedWith("9", name(to)), sealedWith("1", name("another"))} {
		var err error
		if version, err = inner.Put(t.Context(), name(to), version, data); err != nil {
			t.Fatal(err)
		}
		seen()
	}
	if err := inner.Remove(t.Context(), name(to), version); err != nil {
		t.Fatal(err)
	}
}

// TestCutOff cuts one of two processes off from the store: the other finds it silent, and it
// does not change its mind about any replica until it is back.
func TestCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link, keys := memorytest.New(t), ring(t, "1")
		other := link.Another(t)
		a := open(t, link, keys, nil)
		b := open(t, other, keys, nil)
		until(t, b, "a is live", func() bool { return b.Replica(a.ID()).State == fleet.Live && b.Replica(b.ID()).State == fleet.Live })
		until(t, a, "b is live", func() bool { return a.Replica(b.ID()).State == fleet.Live })
		other.Cut(true)
		until(t, a, "b is silent", func() bool { return a.Replica(b.ID()).State == fleet.Silent })
		if r := b.Replica(a.ID()); r.State != fleet.Live {
			t.Errorf("b believes that a is %v", r.State)
		}
		quiet := true
		defer b.OnChange(func() {
			if b.Replica(a.ID()).State != fleet.Live {
				quiet = false
			}
		})()
		other.Cut(false)
		until(t, a, "b is back", func() bool { return a.Replica(b.ID()).State == fleet.Live })
		if !quiet {
			t.Error("b took a for dead when it came back")
		}
	})
}

// TestNone checks a nil Fleet, which is a process without one.
func TestNone(t *testing.T) {
	var f *fleet.Fleet
	f.Drain()
	f.Count("x", nil)
	f.OnChange(nil)()
	if f.IsDraining() || f.Draining() != nil || f.Replicas() != nil || f.Replica("x").State != fleet.Gone || f.Close() != nil {
		t.Fatal("a process without a fleet has one")
	}
}

// TestRotation gives a fleet of two running replicas a new key, without a moment in which one of
// them cannot read what the other one writes, and takes the old one away.
func TestRotation(t *testing.T) {
	t.Parallel()
	link := memorytest.New(t)
	rings := []*sealed.Ring{ring(t, "1"), ring(t, "1")}
	replicas := []*fleet.Fleet{open(t, link, rings[0], nil), open(t, link, rings[1], nil)}
	n := 0
	// works writes a document by each replica and reads it by the other one.
	works := func() {
		t.Helper()
		for i, f := range replicas {
			n++
			key := store.Key{Collection: "docs", Name: fmt.Sprint(n)}
			if _, err := f.Store().Put(t.Context(), key, "", []byte(key.Name)); err != nil {
				t.Fatal(err)
			}
			if d, err := replicas[1-i].Store().Get(t.Context(), key); err != nil || string(d.Data) != key.Name {
				t.Fatalf("%s: %q, %v", key, d.Data, err)
			}
		}
	}
	// give gives a replica other keys, and waits until the other one knows.
	give := func(i int, ids ...string) {
		t.Helper()
		if err := rings[i].Set(keysOf(ids...)...); err != nil {
			t.Fatal(err)
		}
		replicas[i].KeysChanged()
		until(t, replicas[1-i], "the keys are known", func() bool { return slices.Equal(replicas[1-i].Replica(replicas[i].ID()).Keys, ids) })
		works()
	}
	until(t, replicas[0], "both are live", func() bool { return len(replicas[0].Replicas()) == 2 })
	until(t, replicas[1], "both are live", func() bool { return len(replicas[1].Replicas()) == 2 })
	works()
	give(0, "1", "2")
	give(1, "1", "2")
	give(0, "2", "1")
	if n, _, err := replicas[0].Reseal(t.Context()); n != 0 || err != nil {
		t.Fatalf("sealed %d documents while one still seals with the old key: %v", n, err)
	}
	give(1, "2", "1")
	until(t, replicas[0], "all seal with the new key", func() bool {
		for _, r := range replicas[0].Replicas() {
			if r.Keys[0] != "2" {
				return false
			}
		}
		return true
	})
	if n, id, err := replicas[0].Reseal(t.Context()); n == 0 || id != "2" || err != nil {
		t.Fatal(n, id, err)
	}
	uses, err := replicas[1].KeyUses(t.Context())
	if err != nil || uses["1"].Documents != 0 || uses["2"].Documents < 10 {
		t.Fatalf("%+v, %v", uses, err)
	}
	give(0, "2")
	give(1, "2")
	for i := 1; i <= n; i++ {
		if _, err := replicas[0].Store().Get(t.Context(), store.Key{Collection: "docs", Name: fmt.Sprint(i)}); err != nil {
			t.Error(err)
		}
	}
}

// TestEnded asks about a replica that was started while the store was away from it, and about one
// that is nowhere: only of the second one, and not at once, it is said that it has ended.
func TestEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link, keys := memorytest.New(t), ring(t, "1")
		short := func(o *fleet.Options) { o.TTL = time.Second }
		a := open(t, link, keys, short)
		until(t, a, "it has read the store", func() bool { return a.Replica("unknown").State == fleet.Gone })
		reached := make(chan struct{})
		late := open(t, link, keys, func(o *fleet.Options) {
			short(o)
			inner := o.Open
			o.Open = func(ctx context.Context) (store.Store, error) {
				select {
				case <-reached:
					return inner(ctx)
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		})
		if r := a.Replica(late.ID()); r.State != fleet.Gone || a.Ended(late.ID()) || a.Ended("unknown") {
			t.Errorf("%v, ended: %t, %t", r.State, a.Ended(late.ID()), a.Ended("unknown"))
		}
		close(reached)
		until(t, a, "it is live", func() bool { return a.Replica(late.ID()).State == fleet.Live })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for !a.Ended("unknown") {
			if err := a.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if a.Ended(late.ID()) || a.Ended(a.ID()) {
			t.Error("a live replica has ended")
		}
		if err := late.Close(); err != nil {
			t.Fatal(err)
		}
		until(t, a, "it is gone", func() bool { return a.Replica(late.ID()).State == fleet.Gone })
		if !a.Ended(late.ID()) {
			t.Error("it has not ended")
		}
	})
}
