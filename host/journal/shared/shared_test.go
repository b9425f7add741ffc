package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	"github.com/mcp-metatool/mcp-metatool/tools"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait.
const patience = time.Minute

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// openStore opens the store of a fleet.
func openStore(t testing.TB, link *memorytest.Link, prefix string) store.Store {
	t.Helper()
	return sealedIn(t, link.MustOpen(t), prefix)
}

// sealedIn seals what is in a store, which it closes when the test ends.
func sealedIn(t testing.TB, inner store.Store, prefix string) store.Store {
	t.Helper()
	key := sealed.Key{ID: "a"}
	copy(key.Secret[:], strings.Repeat("k", sealed.KeySize))
	ring, err := sealed.NewRing(key)
	if err != nil {
		t.Fatal(err)
	}
	s := sealed.New(inner, ring, prefix)
	t.Cleanup(func() { s.Close() })
	return s
}

// replica is a process of a fleet.
type replica struct {
	*Journal
	log  *journal.Log
	dir  string
	away atomic.Bool
}

var errAway = errors.New("the store is away")

func newReplica(t testing.TB, s store.Store, dir string, required bool) *replica {
	t.Helper()
	r := &replica{dir: filepath.Join(dir, "logs")}
	r.Journal = Open(Options{
		Store: s, Fleet: "fleet", Dir: r.dir, Log: quiet(), every: 20 * time.Millisecond,
		Away: func() error {
			if r.away.Load() {
				return errAway
			}
			return nil
		},
	})
	r.log = journal.OpenLog(r.dir, journal.LogOptions{Log: quiet(), Fleet: r.Journal, Required: required})
	r.Ship()
	t.Cleanup(r.end)
	return r
}

func (r *replica) end() {
	r.log.Close()
	r.Journal.Close()
}

// run records a run, and waits until it is kept.
func (r *replica) run(t testing.TB, b journal.Begin) string {
	t.Helper()
	id := r.start(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := id.Kept(ctx); err != nil {
		t.Fatal(err)
	}
	return id.ID()
}

func (r *replica) start(t testing.TB, b journal.Begin) *journal.Run {
	t.Helper()
	if b.Definition.Name == "" {
		b.Definition = tools.Definition{Name: "tool", Code: "return 1"}
	}
	run, err := r.log.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	run.Close(journal.Outcome{Result: []byte("1")})
	return run
}

func ids(t testing.TB, r journal.Reader, f journal.Filter) (all []string) {
	t.Helper()
	for rec, err := range r.Scan(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec.ID)
	}
	return all
}

func calls(t testing.TB, r journal.Reader) (all []string) {
	t.Helper()
	for p, err := range r.ScanProxied(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Tool)
	}
	return all
}

// await waits until a condition is true.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen: " + what)
		}
	}
}

// TestReplicas records on one replica, and reads on another.
func TestReplicas(t *testing.T) {
	link := memorytest.New(t)
	s := openStore(t, link, "one")
	a, b := newReplica(t, s, t.TempDir(), false), newReplica(t, openStore(t, link, "one"), t.TempDir(), false)
	first := a.run(t, journal.Begin{})
	own := b.run(t, journal.Begin{})

	// By its id, by a prefix, and in lists.
	rec, err := b.log.Reader().Find(t.Context(), first)
	if err != nil || rec.ID != first || string(rec.Outcome.Result) != "1" {
		t.Fatal(rec.ID, err)
	}
	if got := ids(t, b.log.Reader(), journal.Filter{}); len(got) != 2 || got[0] != own || got[1] != first {
		t.Fatalf("%v, not %s and %s", got, own, first)
	}
	if got := ids(t, a.log.Reader(), journal.Filter{Limit: 1}); len(got) != 1 || got[0] != own {
		t.Fatalf("%v, not %s", got, own)
	}
	second := a.run(t, journal.Begin{})
	if rec, err := b.log.Reader().Find(t.Context(), second[:len(second)-4]); err != nil || rec.ID != second {
		t.Fatal(rec.ID, err)
	}
	if _, err := b.log.Reader().Find(t.Context(), journal.NewID(time.Now())); !errors.Is(err, journal.ErrNotFound) {
		t.Fatal(err)
	}

	// A run with one that it called.
	root, err := a.log.Open(journal.Begin{Definition: tools.Definition{Name: "root"}})
	if err != nil {
		t.Fatal(err)
	}
	call := root.OpenCall(abi.ToolCall{Server: "tools", Tool: "nested"}, "tools", "nested")
	nested, err := a.log.Open(journal.Begin{Definition: tools.Definition{Name: "nested"}, Parent: &journal.Parent{Run: root.ID(), Call: 1}})
	if err != nil {
		t.Fatal(err)
	}
	nested.Close(journal.Outcome{Result: []byte("2")})
	call.Close(journal.Answer{Value: []byte("2")})
	root.Close(journal.Outcome{Result: []byte("3")})
	if err := root.Kept(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec, err = b.log.Reader().Find(t.Context(), root.ID())
	if err != nil || len(rec.Calls) != 1 || rec.Calls[0].Answer.Run == nil || rec.Calls[0].Answer.Run.ID != nested.ID() {
		t.Fatalf("%+v %v", rec.Calls, err)
	}

	// Calls without a script.
	for i := range 3 {
		a.log.Proxied(journal.Proxied{Start: time.Now(), Server: "s", Tool: fmt.Sprint("t", i), Outcome: journal.OK})
	}
	await(t, "the calls are there", func() bool { return len(calls(t, b.log.Reader())) == 3 })

	// All records are present once, for any reader, and after any number of reads.
	again := newReplica(t, openStore(t, link, "one"), t.TempDir(), false)
	for range 2 {
		if got := ids(t, again.log.Reader(), journal.Filter{}); len(got) != 4 {
			t.Fatal(got)
		}
		if got := calls(t, again.log.Reader()); len(got) != 3 {
			t.Fatal(got)
		}
	}
	if lag := again.Lag(); lag.Waiting != 0 || lag.Lost != 0 {
		t.Fatal(lag)
	}
	// What was brought in is not shipped as its own.
	await(t, "it was looked at", func() bool { return again.ownFolder(t.Context()) != "" })
	if got := ids(t, b.log.Reader(), journal.Filter{}); len(got) != 4 {
		t.Fatal(got)
	}
}

// TestAfterOutage records while the store is away, and in processes that end before it is back.
func TestAfterOutage(t *testing.T) {
	link := memorytest.New(t)
	s := openStore(t, link, "away")
	dir := t.TempDir()
	a := newReplica(t, s, dir, false)
	want := []string{a.run(t, journal.Begin{})}
	link.Cut(true)
	for range 3 {
		want = append(want, a.start(t, journal.Begin{}).ID())
	}
	await(t, "the lag is seen", func() bool { a.Ended(); return !a.Lag().Since.IsZero() })
	a.away.Store(true)
	a.end()

	// The next process of the folder has another store, which is away at first, too.
	next := newReplica(t, openLater(t, link, "away"), dir, false)
	want = append(want, next.start(t, journal.Begin{}).ID())
	next.log.Proxied(journal.Proxied{Start: time.Now(), Server: "s", Tool: "t", Outcome: journal.OK})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := next.start(t, journal.Begin{})
	if err := last.Kept(ctx); err != nil {
		t.Fatal(err)
	}
	want = append(want, last.ID())
	b := newReplica(t, openStore(t, link, "away"), t.TempDir(), false)
	got := ids(t, b.log.Reader(), journal.Filter{})
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	await(t, "the call is there", func() bool { return len(calls(t, b.log.Reader())) == 1 })

	// While it is away, what is on the machine can be read, and the rest is said to be missing.
	b.away.Store(true)
	n, missing := 0, 0
	for _, err := range b.log.Reader().Scan(t.Context(), journal.Filter{}) {
		if others := (*journal.OthersError)(nil); errors.As(err, &others) && errors.Is(err, errAway) {
			missing++
		} else if err == nil {
			n++
		}
	}
	if n != len(want) || missing != 1 {
		t.Errorf("%d runs, and %d errors", n, missing)
	}
	if _, err := b.log.Reader().Find(t.Context(), want[0]); err != nil {
		t.Error(err)
	}
	if _, err := b.log.Reader().Find(t.Context(), journal.NewID(time.Now())); errors.Is(err, journal.ErrNotFound) || !errors.Is(err, errAway) {
		t.Error(err)
	}
}

// openLater heals a link, and opens a store at its end.
func openLater(t testing.TB, link *memorytest.Link, prefix string) store.Store {
	link.Cut(false)
	return openStore(t, link, prefix)
}

// unheard is a store whose first Append of each log of a day writes, and does not say so.
type unheard struct {
	store.Store
	mu   sync.Mutex
	seen map[string]bool
}

func (u *unheard) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	at, err := u.Store.Append(ctx, log, e)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil && strings.HasPrefix(log, "journal-") && !u.seen[log] {
		u.seen[log] = true
		return store.Position{}, store.ErrUnknown
	}
	return at, err
}

// TestUnheard checks that the lines of a day are written once, also if the store does not say that
// they are.
func TestUnheard(t *testing.T) {
	s := openStore(t, memorytest.New(t), "unheard")
	u := &unheard{Store: s, seen: map[string]bool{}}
	id := newReplica(t, u, t.TempDir(), false).run(t, journal.Begin{})
	lines := 0
	for l, err := range s.Logs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(l.Log, "journal-") {
			continue
		}
		for e, err := range s.Read(t.Context(), l.Log, store.Position{}) {
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(e.Data), id)
		}
	}
	if lines != 1 || len(u.seen) != 1 {
		t.Errorf("the run is there %d times, in %v", lines, u.seen)
	}
}

// TestChain finds the last of the runs that continue one whose record is lost.
func TestChain(t *testing.T) {
	link := memorytest.New(t)
	a := newReplica(t, openStore(t, link, "chain"), t.TempDir(), false)
	b := newReplica(t, openStore(t, link, "chain"), t.TempDir(), false)
	lost := journal.NewID(time.Now()) // on a machine that is gone
	second := a.run(t, journal.Begin{Continues: lost, First: lost})
	third := a.run(t, journal.Begin{Continues: second, First: lost})
	c, err := b.log.Chain(lost, nil)
	if err != nil || c.Last.ID != third || c.Runs != 3 {
		t.Errorf("%+v %v", c, err)
	}
	if _, err := b.log.Chain(journal.NewID(time.Now()), nil); !errors.Is(err, journal.ErrNotFound) {
		t.Error(err)
	}
}

// TestForgedRecords gives a replica records that are not what their names say.
func TestForgedRecords(t *testing.T) {
	link := memorytest.New(t)
	s := openStore(t, link, "forged")
	a := newReplica(t, s, t.TempDir(), false)
	good := a.run(t, journal.Begin{})
	text := func(id string) []byte {
		for e, err := range s.Read(t.Context(), recordLog(id), store.Position{}) {
			if err != nil {
				t.Fatal(err)
			}
			return e.Data
		}
		return nil
	}(good)
	folder := a.ownFolder(t.Context())
	await(t, "the day is there", func() bool {
		_, err := s.Last(t.Context(), dayLog(dayOf(good, time.Now()), folder))
		return err == nil
	})
	var listed []byte
	for name, forged := range map[string][]byte{
		"another run": text,
		"no time":     []byte("{\"v\":1,\"run\":\"ID\",\"lines\":1}\n{\"t\":\"begin\",\"run\":\"x\"}\n"),
		"no lines":    []byte(`{"v":1,"run":"ID","lines":0}`),
		"a part":      bytes.ReplaceAll(text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1], []byte(good), []byte("ID")),
		"no event":    []byte("{\"v\":1,\"run\":\"ID\",\"lines\":1}\n{\"t\":\"begin\",\"run\":\"../x\"}\n"),
		"a version":   []byte("{\"v\":2,\"run\":\"ID\",\"lines\":1}\n{}\n"),
		"nothing":     []byte("\n"),
	} {
		id := journal.NewID(time.Now())
		data := bytes.ReplaceAll(forged, []byte("ID"), []byte(id))
		if _, err := s.Append(t.Context(), recordLog(id), store.Entry{ID: store.NewID(), Data: data}); err != nil {
			t.Fatal(name, err)
		}
		listed = append(append(listed, endedLine(id)...), '\n')
	}
	listed = append(listed, "{\"ended\":\"../../x\"}\n{\"t\":\"proxied\",\"run\":\"x\"}\nno event\n"...)
	at := dayOf(good, time.Now())
	if _, err := s.Put(t.Context(), dayKey(at, "0123456789abcdef"), "", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), dayLog(at, "0123456789abcdef"), store.Entry{ID: store.NewID(), Data: listed}); err != nil {
		t.Fatal(err)
	}
	b := newReplica(t, openStore(t, link, "forged"), t.TempDir(), false)
	if got := ids(t, b.log.Reader(), journal.Filter{}); len(got) != 1 || got[0] != good {
		t.Error(got)
	}
}

// inNATS opens the store of a fleet in NATS.
func inNATS(b *testing.B, urls []string, prefix string, replicas int) store.Store {
	b.Helper()
	inner, err := jetstream.Open(b.Context(), jetstream.Options{URLs: urls, Prefix: prefix, Replicas: replicas, Make: jetstream.MakeNew, Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	return sealedIn(b, inner, prefix)
}

// BenchmarkRun measures a run with five calls that is recorded: in files only, shipped to one
// NATS server and to three, and if each waits until it is there.
func BenchmarkRun(b *testing.B) {
	answer := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + `"}]}`)
	one := func(b *testing.B, log *journal.Log) *journal.Run {
		run, err := log.Open(journal.Begin{Definition: tools.Definition{Name: "tool", Code: "return 1"}})
		if err != nil {
			b.Fatal(err)
		}
		for range 5 {
			call := run.OpenCall(abi.ToolCall{Server: "s", Tool: "t"}, "s", "t")
			call.Close(journal.Answer{Result: answer, Value: []byte("1")})
		}
		run.Close(journal.Outcome{Result: []byte("1")})
		return run
	}
	b.Run("files", func(b *testing.B) {
		log := journal.OpenLog(b.TempDir(), journal.LogOptions{Log: quiet()})
		defer log.Close()
		for b.Loop() {
			one(b, log)
		}
	})
	single, cluster := natstest.Start(b), natstest.StartCluster(b, 3)
	for _, at := range []struct {
		name     string
		urls     []string
		replicas int
	}{{"1", []string{single.URL()}, 1}, {"3", cluster.URLs(), 3}} {
		b.Run("shipped,"+at.name, func(b *testing.B) {
			r := newReplica(b, inNATS(b, at.urls, "ship", at.replicas), b.TempDir(), false)
			var last *journal.Run
			start := time.Now()
			for b.Loop() {
				last = one(b, r.log)
			}
			if err := last.Kept(b.Context()); err != nil { // all are there
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N), "ns/shipped")
		})
		b.Run("awaited,"+at.name, func(b *testing.B) {
			r := newReplica(b, inNATS(b, at.urls, "wait", at.replicas), b.TempDir(), false)
			for b.Loop() {
				if err := one(b, r.log).Kept(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
