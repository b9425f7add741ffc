package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

func openRun(t *testing.T, b *Budget, key any) *Run {
	t.Helper()
	r := b.OpenRun(key, nil)
	r.AddWorkers(1)
	return r
}

// ended returns the error with which a run's wait ended.
func ended(t *testing.T, done <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		return err
	default:
		t.Fatal("it still waits")
		return nil
	}
}

// TestYoungestFails checks that the youngest run fails only when none can finish, and
// that one fails at a time.
func TestYoungestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1200)
		old, middle, young := openRun(t, b, "a"), openRun(t, b, "a"), openRun(t, b, "a")
		for _, r := range []*Run{young, middle, old} {
			got(t, start(t.Context(), &r.Hold, 200))
		}
		first := start(t.Context(), &young.Hold, 350)
		waits(t, first)
		second := start(t.Context(), &middle.Hold, 500)
		waits(t, second)
		third := start(t.Context(), &old.Hold, 600) // now no run can finish
		var e *ExhaustedError
		if err := ended(t, first); !errors.As(err, &e) || *e != (ExhaustedError{Total: 1200, Most: 900, Used: 200}) {
			t.Fatalf("the youngest: %v", err)
		}
		waits(t, second) // the failed run can still return its bytes
		young.Close()
		got(t, second)
		waits(t, third)
		middle.Close()
		got(t, third)
		old.Close()
		checkEmpty(t, b)
	})
}

// TestGreedyOwnerFails checks that a run of an owner with more than its share fails, not
// the youngest of all.
func TestGreedyOwnerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1200)
		var greedy []*Run
		for range 4 {
			r := openRun(t, b, "greedy")
			got(t, start(t.Context(), &r.Hold, 175))
			greedy = append(greedy, r)
		}
		modest := openRun(t, b, "modest")
		got(t, start(t.Context(), &modest.Hold, 100))
		var waiting []<-chan error
		for _, r := range greedy { // one after the other: they are served in this order
			done := start(t.Context(), &r.Hold, 300)
			waits(t, done)
			waiting = append(waiting, done)
		}
		want := start(t.Context(), &modest.Hold, 200)
		if err := ended(t, waiting[3]); err == nil {
			t.Error("the youngest of the greedy one has not failed")
		}
		greedy[3].Close()
		got(t, want)
		modest.Close()
		for i, r := range greedy[:3] {
			got(t, waiting[i])
			r.Close()
		}
		checkEmpty(t, b)
	})
}

// TestRunsDoNotWaitForMessages checks that runs do not wait for messages, nor messages
// for runs.
func TestRunsDoNotWaitForMessages(t *testing.T) {
	b := New(1600)
	message, answered, run := b.Open("client"), b.OpenAnswer(nil), openRun(t, b, "client")
	if !message.TryAcquire(250) || !answered.TryAcquire(150) || answered.TryAcquire(1) || !run.TryAcquire(1000) {
		t.Errorf("%+v", b.Figures())
	}
	message.Close()
	answered.Close()
	run.Close()
	checkEmpty(t, b)
}

// tree is a run with several goroutines that need memory, as in a script that calls saved
// tools in parallel.
type tree struct {
	run    *Run
	ctx    context.Context
	random *rand.Rand
	mu     sync.Mutex // guards random
}

func (r *tree) number(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// script grows, calls others, alone or at the same time, and waits for servers.
func (r *tree) script(depth int) error {
	got := int64(0)
	defer func() { r.run.Release(got) }()
	for range 1 + r.number(4) {
		switch r.number(3) {
		case 0: // it computes, or waits for a server
			select {
			case <-time.After(testenv.Quiet(time.Duration(r.number(100)) * time.Millisecond)):
			case <-r.ctx.Done():
				return context.Cause(r.ctx)
			}
		case 1:
			n := int64(1 + r.number(120))
			if err := r.run.Acquire(r.ctx, n); err != nil {
				return err
			}
			got += n
		default:
			if depth > 0 {
				if err := r.parallel(depth - 1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *tree) parallel(depth int) error {
	more := r.number(3)
	errs := make([]error, more+1)
	var group sync.WaitGroup
	var working atomic.Int64
	working.Store(int64(more + 1))
	r.run.AddWorkers(more)
	share := func(i int) {
		errs[i] = r.script(depth)
		if working.Add(-1) > 0 {
			r.run.AddWorkers(-1)
		}
	}
	for i := range more {
		group.Go(func() { share(i) })
	}
	share(more)
	group.Wait()
	return errors.Join(errs...)
}

// TestNoDeadlock checks random runs. All of them end without a timeout, no bytes are
// left, never more is used than there is, and of each set of runs that wait for each
// other one survives.
func TestNoDeadlock(t *testing.T) {
	failed, succeeded := 0, 0
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			b := New(200 + random.Int64N(1500))
			var group sync.WaitGroup
			var mu sync.Mutex
			for n := range 2 + random.IntN(20) {
				r := &tree{random: rand.New(rand.NewPCG(seed, uint64(n)))}
				key, later := random.IntN(4), time.Duration(random.IntN(50))*time.Millisecond
				message := int64(random.IntN(100))
				group.Go(func() {
					time.Sleep(later)
					m := b.Open(key) // a message that finishes
					if m.TryAcquire(message) {
						time.Sleep(later)
					}
					m.Close()
					ctx, cancel := context.WithCancelCause(context.Background())
					defer cancel(nil)
					r.ctx, r.run = ctx, b.OpenRun(key, cancel)
					r.run.AddWorkers(1)
					err := r.script(2)
					var e *ExhaustedError
					mu.Lock()
					if err == nil {
						succeeded++
					} else if failed++; !errors.As(err, &e) {
						t.Errorf("seed %d: %v", seed, err)
					}
					mu.Unlock()
					r.run.Close()
					if f := b.Figures(); f.Used > b.total {
						t.Errorf("seed %d: %+v", seed, f)
					}
				})
			}
			group.Wait() // synctest fails when all goroutines wait for each other
			if f := b.Figures(); f.Used != 0 || f.Peak > b.total || b.runnable != 0 || len(b.runs) != 0 {
				t.Errorf("seed %d: %+v", seed, f)
			}
			checkEmpty(t, b)
		})
	}
	if failed == 0 || succeeded == 0 {
		t.Errorf("%d failed, %d succeeded: the test tests nothing", failed, succeeded)
	}
	t.Logf("%d failed, %d succeeded", failed, succeeded)
}
