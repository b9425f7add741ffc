package streamable

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/sessions"
	rules "github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// keptBackend is a Backend with sessions that can move. The kept state of each session is a level
// set by the test.
type keptBackend struct {
	*clienttest.Backend

	mu       sync.Mutex
	levels   map[string]string // by the id of the session
	restored chan string       // ids and levels
}

func (b *keptBackend) Keep(s route.Session) (k route.Kept, called rules.Counts, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return route.Kept{Level: b.levels[s.ID()]}, rules.Counts{Total: 1}, true
}

func (b *keptBackend) Restore(s route.Session, k route.Kept, called rules.Counts) {
	b.mu.Lock()
	b.levels[s.ID()] = k.Level
	b.mu.Unlock()
	b.restored <- fmt.Sprint(s.ID(), " ", k.Level, " ", called.Total)
	b.Began <- s
	s.Notify("notifications/restored", nil)
}

// group is a fleet in a single process.
type group struct {
	t     testing.TB
	store store.Store

	mu       sync.Mutex
	replicas map[string]*groupReplica
	states   map[string]fleet.Replica
	away     bool
}

type groupReplica struct {
	*server
	backend  *keptBackend
	sessions *sessions.Sessions
	link     *peer.Link
	stop     func() // stops listening for other replicas
}

func newGroup(t testing.TB) *group {
	t.Helper()
	return &group{t: t, store: memorytest.New(t).MustOpen(t), replicas: map[string]*groupReplica{}, states: map[string]fleet.Replica{}}
}

// set changes the other replicas' knowledge of a replica.
func (g *group) set(id string, change func(*fleet.Replica)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.states[id]
	change(&r)
	g.states[id] = r
}

func (g *group) replica(id string) fleet.Replica {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.states[id]; ok {
		return r
	}
	return fleet.Replica{Info: fleet.Info{ID: id}, State: fleet.Gone}
}

func (g *group) all() (all []fleet.Replica) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.states {
		all = append(all, r)
	}
	return all
}

// start adds a replica.
func (g *group) start(id string, opts Options) *groupReplica {
	g.t.Helper()
	r := &groupReplica{backend: &keptBackend{levels: map[string]string{}, restored: make(chan string, 100)}}
	r.sessions = sessions.Open(sessions.Options{
		Store: g.store, Self: id, TTL: time.Minute, Log: silent,
		Away: func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.away
		},
		Lost: func(of string) bool { r := g.replica(of); return r.Lost() },
	})
	r.link = peer.New(peer.Options{
		ID: id, Keys: func() [][]byte { return [][]byte{make([]byte, 32)} }, Log: silent,
		Address: func(of string) (string, bool) { r := g.replica(of); return r.Peer, r.Peer != "" },
	})
	opts.Session.Backend = r.backend
	opts.Fleet = &Fleet{
		Sessions: r.sessions, Self: id, Replica: g.replica, Replicas: g.all, Forward: r.link.Forward,
		Draining: func() bool { return g.replica(id).Draining },
	}
	r.server = newServer(g.t, opts)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := r.link.Serve(ctx, ln, r.http); err != nil {
			g.t.Errorf("replica %s: %v", id, err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-served
		r.link.Close()
	})
	g.t.Cleanup(func() {
		r.stop()
		r.sessions.Close(context.Background())
	})
	g.set(id, func(s *fleet.Replica) { s.ID, s.State, s.Peer = id, fleet.Live, ln.Addr().String() })
	return r
}

// kill makes a replica a dead replica: no other replica hears from the replica.
func (g *group) kill(id string, r *groupReplica) {
	r.stop()
	g.set(id, func(s *fleet.Replica) { s.State, s.Peer = fleet.Silent, "" })
}

// at returns the same client, talking to another replica.
func (g *client) at(r *groupReplica) *client {
	c := *g
	c.server = r.server
	return &c
}

// await receives a value, for a minute at most.
func await[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
	}
	return v
}

const (
	echo     = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`
	echoed   = `{"jsonrpc":"2.0","id":1,"result":{"params":{"name":"echo"}}}`
	levelSet = `{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"a:b"}}`
	notFound = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"session not found (it has ended; begin a new one with initialize)"}}`
)

// setLevel changes the kept state of the session, and has the session saved.
func (r *groupReplica) setLevel(c *client, id, level string) {
	r.backend.mu.Lock()
	r.backend.levels[id] = level
	r.backend.mu.Unlock()
	c.call(levelSet)
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	tokens := []bearer.Token{{Digest: bearer.DigestOf("one"), Name: "one"}, {Digest: bearer.DigestOf("two"), Name: "two"}}
	a, b := g.start("a", Options{Access: Access{Tokens: tokens}}), g.start("b", Options{Access: Access{Tokens: tokens}})
	c := a.client()
	c.token = "one"
	c.initialize("2025-11-25")
	id := a.session().ID()
	a.setLevel(c, id, "error")

	// The session is passed on while the session's replica lives.
	if got := c.at(b).call(echo); got != echoed {
		t.Fatalf("passed on: %s", got)
	}
	if n := b.http.Sessions(); n != 0 {
		t.Fatalf("%d sessions moved from a live replica", n)
	}
	stranger := *c.at(b)
	stranger.token = "two"
	if res := stranger.post(echo); res.StatusCode != 404 || read(t, res) != notFound {
		t.Fatalf("with another token: %s", res.Status)
	}
	resumed := c.stream("GET", "")

	g.kill("a", a)
	if res := stranger.post(echo); res.StatusCode != 404 || read(t, res) != notFound {
		t.Fatalf("with another token: %s", res.Status)
	}
	if got := c.at(b).call(echo); got != echoed {
		t.Fatalf("taken over: %s", got)
	}
	if got := await(t, b.backend.restored); got != id+" error 1" {
		t.Errorf("restored %s, want %s", got, id+" error 1")
	}
	s := b.session()
	if s.ID() != id || s.Revision().String() != "2025-11-25" || s.TokenName() != "one" {
		t.Errorf("%s %v %s", s.ID(), s.Revision(), s.TokenName())
	}
	resumed.end() // the former owner learns of the takeover

	events := c.at(b).stream("GET", "", "Last-Event-ID", "0.0")
	events.want(`{"jsonrpc":"2.0","method":"notifications/restored"}`)
	if !strings.HasPrefix(events.last, "2-0.") {
		t.Errorf("id %q", events.last)
	}
	events.cancel()

	// The stream of a request of the dead replica is answered at least.
	lost := c.at(b).stream("GET", "", "Last-Event-ID", "3.1.ImEi")
	if got := lost.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"the replica that worked on this request was lost`) {
		t.Error(got)
	}
	lost.end()

	if res := c.at(b).do(t.Context(), "DELETE", ""); res.StatusCode != 204 {
		t.Fatalf("DELETE: %s", res.Status)
	}
	for d, err := range g.store.Documents(t.Context(), sessions.Collection) {
		t.Fatalf("a document is left: %s %v", d.Key, err)
	}
	for d, err := range g.store.Documents(t.Context(), sessions.CallsCollection) {
		t.Fatalf("a document is left: %s %v", d.Key, err)
	}
	if res := c.at(b).post(echo); res.StatusCode != 404 {
		t.Errorf("after DELETE: %s", res.Status)
	}
}

// TestDeletePassedOn checks that DELETE ends a session of any replica.
func TestDeletePassedOn(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	a, b := g.start("a", Options{}), g.start("b", Options{})
	c := a.join("2025-06-18")
	if res := c.at(b).do(t.Context(), "DELETE", ""); res.StatusCode != 204 {
		t.Fatalf("DELETE: %s", res.Status)
	}
	if a.http.Sessions() != 0 {
		t.Error("the session goes on")
	}
	for _, r := range []*groupReplica{a, b} {
		if res := c.at(r).post(echo); res.StatusCode != 404 {
			t.Errorf("after DELETE: %s", res.Status)
		}
	}
}

// TestLostWhileAnswering kills a replica in the middle of a passed-on request.
func TestLostWhileAnswering(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	a, b := g.start("a", Options{}), g.start("b", Options{})
	c := a.join("2025-06-18")
	answer := make(chan string, 1)
	go func() {
		_, text := c.at(b).body(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"wait"}}`)
		answer <- text
	}()
	await(t, a.backend.Waiting)
	g.kill("a", a)
	if got := await(t, answer); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"tools/call: the replica that worked on this request was lost`) {
		t.Error(got)
	}
	if got := c.at(b).call(echo); got != echoed {
		t.Errorf("after that: %s", got)
	}
}

// TestHandOver checks that a draining replica gives sessions away when no request of them is in
// progress.
func TestHandOver(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	a, b := g.start("a", Options{}), g.start("b", Options{})
	c := a.join("2025-06-18")
	answer := make(chan string, 1)
	go func() {
		_, text := c.body(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`)
		answer <- text
	}()
	await(t, a.backend.Waiting)
	g.set("a", func(r *fleet.Replica) { r.Draining = true })
	if got := c.at(b).call(echo); got != echoed || b.http.Sessions() != 0 {
		t.Fatalf("the session moved while a request of it was in progress: %s", got)
	}
	a.backend.Release <- struct{}{}
	if got := await(t, answer); got != `{"jsonrpc":"2.0","id":2,"result":{"waited":true}}` {
		t.Fatal(got)
	}
	if got := c.at(b).call(echo); got != echoed || b.http.Sessions() != 1 {
		t.Fatalf("the session did not move: %s", got)
	}
	await(t, a.server.backend.Ended) // the session has ended in this replica, but not for the client
	// A request that still comes to the old replica is passed on.
	if got := c.call(echo); got != echoed {
		t.Fatal(got)
	}
}

// TestStoreAway checks the work of replicas while the store does not answer.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	a, b := g.start("a", Options{}), g.start("b", Options{})
	before := a.join("2025-06-18")
	if got := before.at(b).call(echo); got != echoed { // now b knows of the session
		t.Fatal(got)
	}
	away := func(is bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.away = is
	}
	away(true)
	if got := before.call(echo); got != echoed {
		t.Fatal(got)
	}
	if got := before.at(b).call(echo); got != echoed {
		t.Fatal("a request for a live replica needs the store: " + got)
	}
	during := a.join("2025-06-18")
	if got := during.call(echo); got != echoed {
		t.Fatal(got)
	}
	if got := during.at(b).call(echo); got != echoed {
		t.Fatal("a session that b cannot know of: " + got)
	}
	unknown := *during.at(b)
	unknown.id = strings.Repeat("A", sessionIDSize)
	if res := unknown.post(echo); res.StatusCode != 503 {
		t.Errorf("a session that may be elsewhere: %s", res.Status)
	}
	away(false)
	during.call(levelSet) // saves the session
	g.kill("a", a)
	for _, c := range []*client{before, during} {
		if got := c.at(b).call(echo); got != echoed {
			t.Fatal(got)
		}
	}
}

// TestManyTakeOvers sends many requests of a session to several replicas at once.
func TestManyTakeOvers(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	all := []*groupReplica{g.start("a", Options{}), g.start("b", Options{}), g.start("c", Options{})}
	c := all[0].join("2025-06-18")
	g.kill("a", all[0])
	var asking sync.WaitGroup
	for i := range 40 {
		asking.Go(func() {
			id := fmt.Sprintf(`"id":%d`, i+100)
			res := c.at(all[1+i%2]).post(strings.Replace(echo, `"id":1`, id, 1))
			if got := read(t, res); got != strings.Replace(echoed, `"id":1`, id, 1) {
				t.Errorf("%s: %s", res.Status, got)
			}
		})
	}
	asking.Wait()
	if n := all[1].http.Sessions() + all[2].http.Sessions(); n != 1 {
		t.Errorf("%d replicas have the session", n)
	}
}
