package stack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// chance is a row with random refusals of batches and calls, which makes some calls alone.
type chance struct {
	Pass
	rnd *rand.Rand
	mu  sync.Mutex
}

func (c *chance) Batch(ctx context.Context, all []Request) *abi.CallError {
	if c.rnd.IntN(4) == 0 {
		return &abi.CallError{Type: abi.ErrPermission, Message: "refused"}
	}
	for i := range all {
		all[i].Alone = c.rnd.IntN(3) == 0
	}
	return c.Pass.Batch(ctx, all)
}

func (c *chance) Call(ctx context.Context, r *Request) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rnd.IntN(3) == 0 {
		return Answer{Err: r.Fail(abi.ErrPermission, "not this one")}
	}
	return c.Pass.Call(ctx, r)
}

// echo answers all calls.
type echo struct {
	Bottom
	active, most atomic.Int32
	alone        atomic.Bool
	reached      atomic.Int32
}

func (e *echo) Call(_ context.Context, r *Request) Answer {
	e.reached.Add(1)
	n := e.active.Add(1)
	e.most.Store(max(n, e.most.Load()))
	if r.Alone && n > 1 {
		e.alone.Store(true)
	}
	e.active.Add(-1)
	return Answer{Value: r.Arguments}
}

type crew struct{ busy atomic.Int32 }

func (c *crew) Begin(extra int) { c.busy.Add(int32(extra)) }
func (c *crew) Idle(bool)       { c.busy.Add(-1) }
func (c *crew) Over()           { c.busy.Add(1) }

// TestEachOnce makes batches through rows that refuse some: each call of the script is opened once,
// closed once, with the script's answer, and reaches the bottom at most once, and never if the
// batch was refused.
func TestEachOnce(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		run := journal.Open(journal.Begin{})
		e, c := &echo{}, &crew{}
		c.busy.Store(1)
		row := &chance{rnd: rnd}
		var top Handler
		top = Of(Record(run), func(next Handler) Handler { row.Handler = next; return row },
			Fan(&top, semaphore.NewWeighted(2), c), func(Handler) Handler { return e })
		var want []string
		for range 1 + rnd.IntN(3) {
			all := make([]Request, 1+rnd.IntN(5))
			for i := range all {
				all[i].ToolCall.Arguments = fmt.Appendf(nil, "%d", len(want)+i)
			}
			before := e.reached.Load()
			if failed := top.Batch(t.Context(), all); failed != nil && e.reached.Load() != before {
				t.Fatal("calls of a refused batch were made")
			}
			for i := range all {
				want = append(want, fmt.Sprint(string(all[i].Answer.Value), all[i].Answer.Err))
			}
		}
		var got []string
		for _, r := range run.Record().Calls {
			if !r.Done {
				t.Fatalf("seed %d: call %d was not closed", seed, r.Seq)
			}
			got = append(got, fmt.Sprint(string(r.Answer.Value), r.Answer.Err))
		}
		if !slices.Equal(got, want) || c.busy.Load() != 1 || e.alone.Load() || e.most.Load() > 3 {
			t.Fatalf("seed %d:\n%v\n%v, %d busy, %d at once", seed, got, want, c.busy.Load(), e.most.Load())
		}
	}
}
