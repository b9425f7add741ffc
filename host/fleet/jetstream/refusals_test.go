package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// What servers say that were the leader of a stream, or are short of something.
const (
	saysEarlier  = `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 0"}}`
	saysOnTheWay = `{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`
	saysFull     = `{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}`
	saysDiskFull = `{"error":{"code":503,"err_code":10077,"description":"no space left on device"}}`
	saysTooLarge = `{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`
	saysNoLeader = `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
	saysNoPeers  = `{"type":"io.nats.jetstream.api.v1.stream_create_response","error":{"code":400,"err_code":10005,"description":"no suitable peers for placement"}}`
	saysNothing  = `{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","error":{"code":404,"err_code":10037,"description":"no message found"}}`
)

// A refused request is one that a server refuses that was the leader, and that the leader gets, or
// not, or later.
func refusedFates() (all []natstest.Fate) {
	for _, says := range []string{saysEarlier, saysOnTheWay, saysFull, saysDiskFull, saysTooLarge} {
		all = append(all, natstest.Fate{Answer: []byte(says)}, natstest.Fate{Answer: []byte(says), Times: 1},
			natstest.Fate{Answer: []byte(says), Times: 1, Late: true})
	}
	return all
}

// written are the fates of messages, and read those of reads.
var (
	writtenFates = append(refusedFates(), natstest.Passes, natstest.Fate{}, natstest.Fate{Times: 1, Mute: true},
		natstest.Fate{Times: 1, Late: true}, natstest.Fate{Times: 2}, natstest.Fate{Times: 2, Mute: true})
	readFates = []natstest.Fate{natstest.Passes, natstest.Passes, {Answer: []byte(saysNothing)}, {Answer: []byte(saysNoLeader)}, {}}
)

// faulty is a Store to which things happen, and what it has written in truth.
type faulty struct {
	*Store
	between *natstest.Interceptor

	mu    sync.Mutex // a leaf
	about string     // part of the subject: answers of the call before can still come
	next  []natstest.Fate
	reads []natstest.Fate
	calm  func() // reads pass until something is written, when it is called; nil: they need not
	rival func() // called once, before a request
	when  int    // before which
	acks  map[uint64]bool
	acked chan struct{} // gets one when a message was written; capacity 1
	seen  []string
}

func openFaulty(t *testing.T, server *natstest.Server) *faulty {
	t.Helper()
	f := &faulty{acks: map[uint64]bool{}, acked: make(chan struct{}, 1)}
	f.between = natstest.StartInterceptor(t, server.Address(), f.decide, f.heard)
	f.Store = open(t, Options{URLs: []string{f.between.URL()}, Attempt: 30 * time.Millisecond})
	if others := f.nc.DiscoveredServers(); len(others) > 0 {
		t.Fatalf("the store can go past the interceptor, to %s", others)
	}
	f.standalone = false // or no server would refuse what another one writes
	return f
}

func isWrite(subject string) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(subject, store.DefaultPrefix+"."), ".")
	return kind == "log" || kind == "run" || kind == "doc" || kind == "blob"
}

func (f *faulty) decide(subject string) natstest.Fate {
	write, read := isWrite(subject), strings.HasPrefix(subject, "$JS.API.STREAM.MSG.GET.")
	if !write && !read {
		return natstest.Passes
	}
	f.mu.Lock()
	var rival func()
	if f.when--; f.when == 0 {
		rival, f.rival = f.rival, nil
	}
	fate, from := natstest.Passes, &f.reads
	if write {
		from = &f.next
	}
	passes := !write && f.calm != nil
	if write && f.calm != nil {
		f.calm()
		f.calm = nil
	}
	if !passes && len(*from) > 0 {
		fate, *from = (*from)[0], (*from)[1:]
	}
	f.seen = append(f.seen, fmt.Sprintf("%s: times %d late %v mute %v answer %s", subject, fate.Times, fate.Late, fate.Mute, fate.Answer))
	f.mu.Unlock()
	if rival != nil {
		rival()
	}
	return fate
}

func (f *faulty) heard(subject string, answer []byte) {
	var a ack
	f.mu.Lock()
	defer f.mu.Unlock()
	if !isWrite(subject) || !strings.Contains(subject, f.about) || json.Unmarshal(answer, &a) != nil || a.Error != nil {
		return
	}
	f.acks[a.Sequence] = true
	select {
	case f.acked <- struct{}{}:
	default:
	}
	f.seen = append(f.seen, fmt.Sprintf("%s: written as %d", subject, a.Sequence))
}

// begin says what happens from now on.
func (f *faulty) begin(r *rand.Rand, about string, rival func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about, f.next, f.reads, f.seen, f.rival, f.when = about, nil, nil, nil, rival, 1+r.IntN(8)
	clear(f.acks)
	for range r.IntN(5) {
		f.next = append(f.next, writtenFates[r.IntN(len(writtenFates))])
	}
	for range r.IntN(5) {
		f.reads = append(f.reads, readFates[r.IntN(len(readFates))])
	}
}

// check compares what a call has said with what was written, once everything is settled.
func (f *faulty) check(t *testing.T, err error) (kind string) {
	t.Helper()
	f.mu.Lock()
	f.next, f.reads = nil, nil
	f.mu.Unlock()
	f.between.Release()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.acks)
	switch {
	case n > 1:
		kind = "written twice"
	case err == nil && n == 0:
		kind = "lost"
	case err != nil && !errors.Is(err, store.ErrUnknown) && n > 0:
		kind = "written, and told that it is not"
	case err == nil:
		return "written"
	case errors.Is(err, store.ErrUnknown):
		return "unknown"
	default:
		return "not written"
	}
	t.Errorf("%s: %v\n%s", kind, err, strings.Join(f.seen, "\n"))
	return kind
}

// TestRefusals makes requests and answers go astray in every way that a cluster has while
// its servers do not agree who leads: an event is written at most once, and its writer is told
// that it is not written only if it is not, and never will be.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	refusals(t, server, 1, storetest.Faults(60, 400))
}

// TestClusterRefusals is TestRefusals with three replicas.
func TestClusterRefusals(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	refusals(t, natstest.StartCluster(t, 3)[0], 3, storetest.Faults(60, 400))
}

func refusals(t *testing.T, server *natstest.Server, replicas, rounds int) {
	direct := open(t, Options{URLs: []string{server.URL()}, Replicas: replicas})
	for _, c := range []struct {
		name string
		call func(*testing.T, *faulty, *Store, *rand.Rand) error
	}{{"append", appendFaulty}, {"fence", fenceFaulty}, {"put", putFaulty}, {"create", createFaulty}, {"remove", removeFaulty}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := openFaulty(t, server)
			kinds := map[string]int{}
			seed := rand.Uint64()
			for n := range rounds {
				if t.Failed() {
					break
				}
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				kinds[f.check(t, c.call(t, f, direct, r))]++
			}
			t.Logf("seed %d: %v", seed, kinds)
		})
	}
}

// TestTwoLeaders is what TestRefusals found first: a server that was the leader says that somebody
// else's message is on its way, the leader writes the message, and then nobody answers.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	for _, says := range []string{saysEarlier, saysOnTheWay, saysFull, saysTooLarge} {
		for name, write := range map[string]func(context.Context, *faulty) error{
			"append": func(ctx context.Context, f *faulty) error {
				_, err := f.Append(ctx, store.NewID().String(), store.Entry{ID: store.NewID(), Data: []byte("x")})
				return err
			},
			"fence": func(ctx context.Context, f *faulty) error {
				_, err := f.Fence(ctx, store.NewID().String(), 1)
				return err
			},
			"put": func(ctx context.Context, f *faulty) error {
				_, err := f.Put(ctx, store.Key{Collection: "leaders", Name: store.NewID().String()}, "", []byte("x"))
				return err
			},
			"blob": func(ctx context.Context, f *faulty) error {
				_, err := f.PutBlob(ctx, []byte(store.NewID().String()))
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := openFaulty(t, server) // another one's late requests would take what is for this one
				ctx, cancel := context.WithCancel(t.Context())
				f.mu.Lock()
				f.calm = func() { time.AfterFunc(testenv.Quiet(100*time.Millisecond), cancel) } // it would go on for ever
				f.next = []natstest.Fate{{Answer: []byte(says), Times: 1}}
				for range 100 {
					f.next, f.reads = append(f.next, natstest.Fate{}), append(f.reads, natstest.Fate{Answer: []byte(saysNoLeader)})
				}
				f.mu.Unlock()
				err := write(ctx, f)
				cancel()
				select {
				case <-f.acked:
				case <-time.After(time.Minute): // the check below says so
				}
				f.between.Release()
				f.mu.Lock()
				defer f.mu.Unlock()
				if !errors.Is(err, store.ErrUnknown) || len(f.acks) != 1 {
					t.Errorf("one server says %s: %v, written %v\n%s", says, err, f.acks, strings.Join(f.seen, "\n"))
				}
			})
		}
	}
}

// TestClusterStarts opens a Store while the servers of a cluster do not know each other yet.
func TestClusterStarts(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	between := natstest.StartInterceptor(t, natstest.Start(t).Address(), func(subject string) natstest.Fate {
		if strings.HasPrefix(subject, "$JS.API.STREAM.CREATE.") && asked.Add(1) < 3 {
			return natstest.Fate{Answer: []byte(saysNoPeers)}
		}
		return natstest.Passes
	}, func(string, []byte) {})
	s := open(t, Options{URLs: []string{between.URL()}})
	storetest.Write(t, s, store.NewID().String(), store.Position{}, 0, "x")
	if n := asked.Load(); n != 6 {
		t.Errorf("%d requests for four streams, of which two were refused", n)
	}
}

// TestRemovedMeanwhile lets a log lose its oldest events while a writer does not know whether its
// event is there: then the event that it finds says nothing about its own.
func TestRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f, direct := openFaulty(t, server), open(t, Options{URLs: []string{server.URL()}})
	log := store.NewID().String()
	at := storetest.Write(t, direct, log, store.Position{}, 0, "first")
	f.mu.Lock()
	f.next, f.when = []natstest.Fate{{Times: 1, Mute: true}}, 2
	f.rival = func() {
		mine, err := storetest.End(t.Context(), direct, log, at)
		if err == nil {
			mine, err = direct.Append(t.Context(), log, store.Entry{After: mine, ID: store.NewID(), Data: []byte("rival")})
		}
		if err == nil {
			err = direct.purge(t.Context(), "log", direct.logs, mine.Mark, direct.inLogs(log).subject)
		}
		if err != nil {
			t.Error(err)
		}
	}
	f.mu.Unlock()
	_, err := f.Append(t.Context(), log, store.Entry{After: at, ID: store.NewID(), Data: []byte("mine")})
	var conflict *store.ConflictError
	if !errors.Is(err, store.ErrUnknown) || !errors.As(err, &conflict) {
		t.Fatal(err)
	}
}

// brief is the context of a faulty call: some end before it is settled.
func brief(t *testing.T, r *rand.Rand) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), testenv.Quiet(time.Duration(10+r.IntN(150))*time.Millisecond))
}

func appendFaulty(t *testing.T, f *faulty, direct *Store, r *rand.Rand) error {
	log := store.NewID().String()
	at := storetest.Write(t, direct, log, store.Position{}, 0, "first")
	rival := r.IntN(3) // here, because the function runs in another goroutine
	f.begin(r, log, func() {
		switch rival {
		case 0: // fenced for the writer
			_, _ = direct.Fence(t.Context(), log, 3)
		case 1: // or for another one
			_, _ = direct.Fence(t.Context(), log, 9)
		case 2: // or somebody else writes
			now, _ := storetest.End(t.Context(), direct, log, store.Position{})
			_, _ = direct.Append(t.Context(), log, store.Entry{After: now, Fence: max(now.Fence, 3), ID: store.NewID(), Data: []byte("rival")})
		}
	})
	ctx, cancel := brief(t, r)
	defer cancel()
	e := store.Entry{After: at, Fence: 5, ID: store.NewID(), Data: []byte("mine")}
	next, err := f.Append(ctx, log, e)
	f.between.Release()
	found := 0
	for _, event := range storetest.Events(t, direct, log, store.Position{}) {
		if event.ID == e.ID {
			found++
		}
		if err == nil && event.ID == e.ID && event.Position != next {
			t.Errorf("written at %+v, and told %+v", event.Position, next)
		}
	}
	if written := err == nil; found > 1 || written && found == 0 || !written && !errors.Is(err, store.ErrUnknown) && found > 0 {
		t.Errorf("the log has it %d times: %v\n%s", found, err, strings.Join(f.seen, "\n"))
	}
	return err
}

// A Fence that is refused because of a later one may have been written before that.
func fenceFaulty(t *testing.T, f *faulty, direct *Store, r *rand.Rand) error {
	log := store.NewID().String()
	at := storetest.Write(t, direct, log, store.Position{}, 0, "first")
	f.begin(r, log, func() {
		_, _ = direct.Append(t.Context(), log, store.Entry{After: at, Fence: 0, ID: store.NewID(), Data: []byte("rival")})
	})
	ctx, cancel := brief(t, r)
	defer cancel()
	_, err := f.Fence(ctx, log, 5)
	return err
}

func putFaulty(t *testing.T, f *faulty, direct *Store, r *rand.Rand) error {
	return replaceFaulty(t, f, direct, r, func(ctx context.Context, key store.Key, old store.Version) error {
		version, err := f.Put(ctx, key, old, []byte("mine"))
		if seq, ok := sequenceOf(version); err == nil && ok {
			f.between.Release()
			f.mu.Lock()
			defer f.mu.Unlock()
			if !f.acks[seq] {
				t.Errorf("told version %s, and written as %v", version, f.acks)
			}
		}
		return err
	})
}

func removeFaulty(t *testing.T, f *faulty, direct *Store, r *rand.Rand) error {
	return replaceFaulty(t, f, direct, r, func(ctx context.Context, key store.Key, old store.Version) error {
		return f.Remove(ctx, key, old)
	})
}

func replaceFaulty(t *testing.T, f *faulty, direct *Store, r *rand.Rand, call func(context.Context, store.Key, store.Version) error) error {
	key := store.Key{Collection: "refusals", Name: store.NewID().String()}
	old, err := direct.Put(t.Context(), key, "", []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	puts := 1 + r.IntN(2)
	f.begin(r, direct.docSubject("doc", key), func() {
		for range puts { // with two, the first form cannot be read afterwards
			d, _ := direct.Get(t.Context(), key)
			_, _ = direct.Put(t.Context(), key, d.Version, []byte(store.NewID().String()))
		}
	})
	ctx, cancel := brief(t, r)
	defer cancel()
	return call(ctx, key, old)
}

// createFaulty makes a document that was there once, or never.
func createFaulty(t *testing.T, f *faulty, direct *Store, r *rand.Rand) error {
	key := store.Key{Collection: "refusals", Name: store.NewID().String()}
	removes := r.IntN(3) > 0
	again := func() {
		d, _ := direct.Get(t.Context(), key)
		version, err := direct.Put(t.Context(), key, d.Version, []byte(store.NewID().String()))
		if err == nil && removes {
			_ = direct.Remove(t.Context(), key, version)
		}
	}
	if r.IntN(2) == 0 {
		version, err := direct.Put(t.Context(), key, "", []byte("first"))
		if err != nil {
			t.Fatal(err)
		}
		if err := direct.Remove(t.Context(), key, version); err != nil {
			t.Fatal(err)
		}
	}
	f.begin(r, direct.docSubject("doc", key), again)
	ctx, cancel := brief(t, r)
	defer cancel()
	_, err := f.Put(ctx, key, "", []byte("mine"))
	return err
}

// TestSingle checks that a server without a cluster is found to be one, whose refusals count, and one
// with a cluster not.
func TestSingle(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	for range 2 { // the first one makes the streams
		if s := open(t, Options{URLs: []string{server.URL()}}); !s.single() || s.replicated {
			t.Errorf("standalone %v, in cluster %q, replicated %v", s.standalone, s.nc.ConnectedClusterName(), s.replicated)
		}
	}
	onlyLong(t)
	cluster := natstest.StartCluster(t, 3)
	if s := open(t, Options{URLs: cluster.URLs(), Replicas: 3}); s.single() || !s.replicated {
		t.Errorf("standalone %v, in cluster %q, replicated %v", s.standalone, s.nc.ConnectedClusterName(), s.replicated)
	}
}

// TestWrongStream checks that streams on which no writer could rely are refused.
func TestWrongStream(t *testing.T) {
	t.Parallel()
	good := Options{}
	good.fill()
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"duplicate_window":     func(c *jetstream.StreamConfig) { c.Duplicates = time.Second },
		"allow_direct":         func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"discard":              func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"replicas":             func(c *jetstream.StreamConfig) { c.Replicas = 0 },
	} {
		is := good.docs()
		if err := checkStream(is, good.docs()); err != nil {
			t.Fatal(err)
		}
		change(&is)
		if err := checkStream(is, good.docs()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := checkStream(good.logs(), good.logs()); err != nil {
		t.Error(err)
	}
}
