package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

var simSeed = flag.Uint64("sim.seed", 0, "explore only the interleaving with this seed")

// The simulation runs the real code of leases and logs for several processes over a Store in
// memory. Each process is a coroutine that stops before each access to the Store, before each
// look at the clock that decides something, and before each sending. A scheduler, which a seed
// determines, chooses which one goes on, when time passes, and which process dies, is stopped,
// or cannot reach the Store. All clocks differ, and those of the machines jump. What a script and compose do in between is modelled by process:
// it makes the calls in order, repeats what the log has, and does with doubts what the
// definition says.

// sim is one interleaving.
type sim struct {
	rand  *rand.Rand
	now   time.Time
	store *simStore
	trace []string

	script  []simCall
	sent    map[int]int    // by call: how often the server got it
	keys    map[int]string // idempotency keys by call
	sends   []simSend
	ended   []string       // outcomes in the journal
	takenAt map[uint64]int // by fencing number: how long the trace was
	resumed bool
	refused bool // the client was told that there is no run
}

type simCall struct {
	idempotent bool
}

type simSend struct {
	call   int
	number uint64 // fencing number of the sender
	at     int    // as takenAt
}

const (
	simRun = "0199d5b6-0000-7000-8000-000000000001"
	simTTL = 10 * time.Second
)

// process is a process that makes the run, or goes on with it.
type process struct {
	*sim
	name    string
	offset  time.Duration // of its clock
	jumped  time.Duration // its clock, but not the one that counts times
	cut     int           // for how many steps of the scheduler it cannot reach the Store
	runs    *Runs
	next    func() (struct{}, bool)
	stop    func()
	stopped int // how often the scheduler passes it over
	done    bool
	alive   bool
}

func (s *sim) start(name string, first bool, aead func(*Options)) *process {
	p := &process{sim: s, name: name, alive: true}
	p.offset = time.Duration(s.rand.Int64N(int64(4*simTTL))) - 2*simTTL
	opts := Options{
		Store: s.store, Owner: func() (string, error) { return name, nil }, TTL: simTTL, Manual: true,
		Now:  func() time.Time { return s.now.Add(p.offset) },
		Wall: func() time.Time { return s.now.Add(p.offset + p.jumped) },
		Log:  slog.New(slog.DiscardHandler), pause: func(ctx context.Context) bool { step(ctx); return true },
	}
	aead(&opts)
	p.runs = New(opts)
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if e := recover(); e != nil {
				if _, ok := e.(died); !ok {
					panic(e)
				}
			}
		}()
		ctx := context.WithValue(context.WithValue(context.Background(), stepKey{}, yield), processKey{}, p)
		if first {
			p.begin(ctx)
		} else {
			p.take(ctx)
		}
	})
	return p
}

func (p *process) say(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf("%s %6.1f ", p.name, p.now.Sub(simStart).Seconds())+fmt.Sprintf(format, args...))
}

var simStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *process) begin(ctx context.Context) {
	b := journal.Begin{Params: []byte("{}"), Guest: "g"}
	b.Definition.Name, b.Definition.Code = "t", "x"
	r, err := p.runs.Begin(ctx, simRun, simStart, &b, About{})
	p.say("begin: %v", err)
	p.refused = err != nil && !errors.Is(err, ErrLost)
	if err == nil {
		p.run(ctx, r, &State{Record: journal.Record{ID: simRun}})
	}
}

func (p *process) take(ctx context.Context) {
	for {
		r, state, err := p.runs.Take(ctx, simRun)
		if err == nil {
			p.say("take %d: %d calls", r.lease.Fence(), len(state.Record.Calls))
			p.resumed = true
			p.takenAt[r.lease.Fence()] = len(p.trace)
			p.run(ctx, r, state)
		}
		if len(p.ended) > 0 && !p.store.isOpen() {
			return
		}
		step(ctx)
	}
}

// run makes the run, or goes on with it.
func (p *process) run(ctx context.Context, r *Run, state *State) {
	defer p.runs.forget(r)
	if state.Over {
		_ = r.Close(ctx)
		return
	}
	if u := state.Undoing(simRun); u != nil {
		p.undo(ctx, r, state, u)
		return
	}
	if state.LastRecord != "" {
		if err := r.Resumed(ctx, simRun); err != nil {
			return
		}
	}
	for seq := 1; seq <= len(p.script); seq++ {
		var before *journal.CallRecord
		if seq <= len(state.Record.Calls) {
			before = &state.Record.Calls[seq-1]
		}
		if before != nil && before.Done {
			continue
		}
		if before == nil {
			r.Keep(func(l *journal.Lines) { l.Call(simRun, &journal.CallRecord{Seq: seq, Server: "s", Tool: "t"}) })
		} else if state.InDoubt(simRun, seq) && !p.script[seq-1].idempotent {
			p.fail(ctx, r, state, fmt.Sprintf("in doubt %d", seq))
			return
		}
		if !p.call(ctx, r, seq) {
			return
		}
		if p.runs.opts.Now().Sub(simStart) > 0 && p.rand.IntN(3) == 0 {
			p.runs.Renew(ctx)
		}
	}
	p.end(ctx, r, "ok")
}

// call makes a call and reports whether the run goes on.
func (p *process) call(ctx context.Context, r *Run, seq int) bool {
	if err := r.Intend(ctx, simRun, seq, "s", "t", []byte("{}")); err != nil {
		p.say("intent %d: %v", seq, err)
		return false
	}
	step(ctx)
	if err := r.Permitted(); err != nil { // and the request is written at once
		p.say("not sent %d: %v", seq, err)
		return false
	}
	key := r.Key(simRun, seq)
	p.say("send %d", seq)
	p.sent[seq]++
	p.sends = append(p.sends, simSend{seq, r.lease.Fence(), len(p.trace)})
	if p.keys[seq] != "" && p.keys[seq] != key {
		panic("another key for the same call")
	}
	p.keys[seq] = key
	step(ctx) // the server takes its time
	rec := journal.CallRecord{Seq: seq, Done: true, Answer: journal.Answer{Value: []byte("1")}}
	if err := r.Answer(ctx, simRun, &rec); err != nil {
		p.say("answer %d: %v", seq, err)
		return false
	}
	return true
}

// fail ends the run and undoes what it did.
func (p *process) fail(ctx context.Context, r *Run, state *State, why string) {
	u := Undoing{Failure: []byte(`{"message":"` + why + `"}`), Calls: []UndoCall{{Request: abi.ToolCall{Arguments: []byte("{}")}, Server: "s", Tool: "undo"}}}
	if err := r.Undoing(ctx, simRun, u); err != nil {
		p.say("undoing: %v", err)
		return
	}
	p.undo(ctx, r, state, &u)
}

// undoSeq is the number of the compensation.
func (p *process) undoSeq() int { return len(p.script) + 1 }

func (p *process) undo(ctx context.Context, r *Run, state *State, u *Undoing) {
	seq, made, known := p.undoSeq(), false, false
	for _, c := range state.Record.Calls {
		if c.Undo {
			known, made = true, c.Done
		}
	}
	doubt := state.Undoing(simRun) != nil && state.InDoubt(simRun, seq)
	if !known {
		r.Keep(func(l *journal.Lines) {
			l.Call(simRun, &journal.CallRecord{Seq: seq, Server: "s", Tool: "undo", Undo: true})
		})
	}
	if !made && !doubt && !p.call(ctx, r, seq) { // it is not idempotent
		return
	}
	p.end(ctx, r, string(u.Failure))
}

// end writes the record of the run and removes its log.
func (p *process) end(ctx context.Context, r *Run, outcome string) {
	step(ctx)
	if r.left.Err() != nil {
		p.say("left: %v", context.Cause(r.left))
		return
	}
	p.say("end: %s", outcome)
	p.ended = append(p.ended, outcome)
	if err := r.Close(ctx); err != nil {
		p.say("close: %v", err)
	}
}

// explore runs one interleaving and returns what is wrong.
func explore(seed uint64, aead func(*Options)) (s *sim, wrong error) {
	s = &sim{
		rand: rand.New(rand.NewPCG(seed, 1)), now: simStart, store: newSimStore(),
		sent: map[int]int{}, keys: map[int]string{}, takenAt: map[uint64]int{},
	}
	for range 1 + s.rand.IntN(3) {
		s.script = append(s.script, simCall{idempotent: s.rand.IntN(2) == 0})
	}
	all := []*process{s.start("A", true, aead)}
	faults := s.rand.IntN(5)
	defer func() {
		for _, p := range all {
			p.stop()
		}
	}()
	for steps := 0; ; steps++ {
		if steps > 20_000 {
			return s, errors.New("the run does not end")
		}
		if (s.refused || all[0].done) && !s.store.isOpen() && len(s.ended) == 0 { // it has not begun
			if len(s.sends) > 0 {
				return s, errors.New("a call was sent by a run that has no log")
			}
			return s, nil
		}
		var ready []*process
		living := 0
		for _, p := range all {
			p.cut = max(0, p.cut-1)
			switch {
			case p.done:
			case p.stopped > 0:
				p.stopped--
				living++
			default:
				ready = append(ready, p)
				living++
			}
		}
		if living == 0 || len(all) < 2 && s.rand.IntN(8) == 0 || living < 2 && s.rand.IntN(20) == 0 {
			if len(all) > 1 && len(s.ended) > 0 && !s.store.isOpen() {
				break
			}
			if len(all) < 8 {
				all = append(all, s.start(string(rune('A'+len(all))), false, aead))
				continue
			}
		}
		if !s.store.isOpen() && len(s.ended) > 0 && s.rand.IntN(10) == 0 {
			break
		}
		switch fault := s.rand.IntN(60); {
		case faults > 0 && fault == 0 && len(ready) > 0: // kill -9
			p := ready[s.rand.IntN(len(ready))]
			p.say("dies")
			p.done = true
			p.stop()
			faults--
			continue
		case faults > 0 && fault == 1 && len(ready) > 0: // SIGSTOP
			p := ready[s.rand.IntN(len(ready))]
			p.stopped = 10 + s.rand.IntN(100)
			p.say("is stopped")
			faults--
			continue
		case faults > 0 && fault == 3 && len(ready) > 0:
			p := ready[s.rand.IntN(len(ready))]
			p.jumped += time.Duration(s.rand.Int64N(int64(4*simTTL))) - 2*simTTL
			p.say("has a clock that jumps")
			faults--
			continue
		case faults > 0 && fault == 4: // the network between the Store and some of them
			for _, p := range ready {
				if s.rand.IntN(2) == 0 {
					p.cut = 10 + s.rand.IntN(100)
					p.say("is cut off")
				}
			}
			faults--
			continue
		case faults > 0 && fault == 2:
			s.store.errNext = []error{store.ErrUnavailable, store.ErrUnknown}[s.rand.IntN(2)]
			faults--
		case fault < 12:
			s.now = s.now.Add(time.Duration(s.rand.Int64N(int64(simTTL / 2))))
		}
		if len(ready) == 0 {
			s.now = s.now.Add(time.Second)
			continue
		}
		p := ready[s.rand.IntN(len(ready))]
		if _, ok := p.next(); !ok {
			p.done = true
		}
	}
	return s, s.check()
}

// check compares what has happened with what is promised.
func (s *sim) check() error {
	for seq := range s.sent {
		idempotent := seq <= len(s.script) && s.script[seq-1].idempotent
		if n := s.sent[seq]; n > 1 && !idempotent {
			return fmt.Errorf("call %d, which is not idempotent, was sent %d times", seq, n)
		}
	}
	for _, outcome := range s.ended {
		if outcome != s.ended[0] {
			return fmt.Errorf("the run has two outcomes: %q", s.ended)
		}
		if outcome == "ok" {
			for seq := range s.script {
				if s.sent[seq+1] == 0 {
					return fmt.Errorf("call %d was lost", seq+1)
				}
			}
		}
	}
	for _, send := range s.sends {
		for number, at := range s.takenAt {
			if number > send.number && send.at > at {
				return fmt.Errorf("call %d was sent by owner %d after owner %d had the run", send.call, send.number, number)
			}
		}
	}
	return nil
}

// TestInterleavings explores interleavings of processes that make one durable run.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	aead, err := NewAEAD(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	with := func(o *Options) { o.AEAD = aead }
	first, last := uint64(0), uint64(12_000)
	if flag.Lookup("long").Value.String() == "true" {
		last = 200_000
	}
	if *simSeed != 0 {
		first, last = *simSeed, *simSeed+1
	}
	different, resumed, ended := map[string]bool{}, 0, map[string]int{}
	for seed := first; seed < last; seed++ {
		s, err := explore(seed, with)
		if err != nil {
			t.Fatalf("seed %d: %v (go test -run TestInterleavings -sim.seed %d)\n%s", seed, err, seed, strings.Join(s.trace, "\n"))
		}
		different[strings.Join(s.trace, "\n")] = true
		if s.resumed {
			resumed++
		}
		if len(s.ended) > 0 {
			ended[s.ended[0]]++
		}
		if *simSeed != 0 {
			t.Logf("\n%s", strings.Join(s.trace, "\n"))
		}
	}
	t.Logf("%d interleavings, %d of them different, %d taken by another process; outcomes: %v", last-first, len(different), resumed, ended)
	if *simSeed == 0 && len(different) < 10_000 {
		t.Errorf("only %d of the interleavings are different", len(different))
	}
}
