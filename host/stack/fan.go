package stack

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// Crew counts the busy goroutines of a run.
type Crew interface {
	// Begin is called before extra goroutines start to help the goroutine of the run.
	Begin(extra int)
	// Idle is called when a goroutine, including the goroutine of the run, has no more calls
	// to make. last reports that all goroutines are idle.
	Idle(last bool)
	// Over is called when the goroutine of the run continues alone.
	Over()
}

// fan is the row that makes the calls of a batch.
type fan struct {
	Pass
	top   *Handler
	extra *semaphore.Weighted
	crew  Crew
}

// Fan is a row that makes the calls of a batch concurrently, each through the whole stack below
// top. extra limits the concurrent calls beyond the first call of each run.
func Fan(top *Handler, extra *semaphore.Weighted, crew Crew) Middleware {
	return func(next Handler) Handler { return &fan{Pass{next}, top, extra, crew} }
}

// Batch implements Handler. Calls with Alone follow the other calls, in order.
func (f *fan) Batch(ctx context.Context, all []Request) *abi.CallError {
	if all[0].Undoes {
		return nil
	}
	if len(all) == 1 {
		f.make(ctx, all, one)
		return nil
	}
	together := make([]int, 0, len(all))
	for i := range all {
		if !all[i].Alone {
			together = append(together, i)
		}
	}
	if len(together) > 0 {
		f.make(ctx, all, together)
	}
	for i := range all {
		if all[i].Alone {
			f.make(ctx, all, []int{i})
		}
	}
	return nil
}

// one are the indexes of a batch of a single call.
var one = []int{0}

// make makes some calls of a batch together, by their indexes.
func (f *fan) make(ctx context.Context, all []Request, list []int) {
	extra := int64(0)
	for int(extra) < len(list)-1 && f.extra.TryAcquire(1) {
		extra++
	}
	defer f.extra.Release(extra)
	var next, working atomic.Int64
	working.Store(extra + 1)
	var workers sync.WaitGroup
	f.crew.Begin(int(extra))
	share := func() {
		for n := next.Add(1) - 1; int(n) < len(list); n = next.Add(1) - 1 {
			r := &all[list[n]]
			r.Answer = (*f.top).Call(ctx, r) // returns at once when ctx has ended
		}
		f.crew.Idle(working.Add(-1) == 0)
	}
	for range extra {
		workers.Go(share)
	}
	share()
	workers.Wait()
	f.crew.Over()
}
