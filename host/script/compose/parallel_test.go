package compose

import (
	"context"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// TestParallelOverlaps makes ten calls wait for each other: in sequence they would wait forever.
func TestParallelOverlaps(t *testing.T) {
	for name, code := range map[string]string{
		"parallel":     "return [r.n for r in parallel([lambda n=n: s.t({'n': n}) for n in range(10)])]",
		"parallel_map": "return [r.n for r in parallel_map(lambda n: s.t(n=n), range(10), limit=10)]",
	} {
		t.Run(name, func(t *testing.T) {
			var u upstreams
			var meet sync.WaitGroup
			meet.Add(10)
			u.add("s.t", func(_ context.Context, params []byte, _ func([]byte)) wire.Reply {
				meet.Done()
				meet.Wait()
				args, _ := wire.Get(params, "arguments")
				return wire.Reply{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, args)}
			})
			reply := composer(sandboxtest.Guest(t), &u).CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
			if got := get(t, reply, "structuredContent", "result"); got != "[0,1,2,3,4,5,6,7,8,9]" {
				t.Errorf("result = %s", got)
			}
		})
	}
}

// TestParallelScriptsAreBounded checks that concurrent calls are never more than Options.Parallel
// and parallel_map's limit allow.
func TestParallelScriptsAreBounded(t *testing.T) {
	for code, most := range map[string]int{
		"parallel([s.t] * 20)": 4,
		"parallel_map(lambda n: parallel([s.t, s.t]), range(20), limit=3)": 4,
		"parallel_map(lambda n: s.t(), range(20), limit=2)":                2,
	} {
		var u upstreams
		var mu sync.Mutex
		now, peak := 0, 0
		u.add("s.t", func(context.Context, []byte, func([]byte)) wire.Reply {
			mu.Lock()
			now++
			peak = max(peak, now)
			mu.Unlock()
			defer func() { mu.Lock(); now--; mu.Unlock() }()
			return wire.Reply{Result: []byte(`{}`)}
		})
		c := composer(sandboxtest.Guest(t), &u, func(o *Options) { o.Parallel = 4 })
		reply := c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
		if get(t, reply, "isError") != "false" || peak > most || len(u.calls()) < 20 {
			t.Errorf("%s: %d at once, %d calls, %s", code, peak, len(u.calls()), reply.Result)
		}
	}
}

// TestParallelIsDeterministic checks that the order of answers does not change the script's calls,
// the order in the journal, or the fuel.
func TestParallelIsDeterministic(t *testing.T) {
	const code = `
seen = []
def work(n):
    r = s.t({"n": n, "step": 1})
    seen.append(r.n)
    print("after", n)
    return s.t({"n": n * 10 + len(seen), "step": 2}).n
return [parallel_map(work, range(6), limit=4), seen]`
	run := func(turn int) string {
		var u upstreams
		// The chosen call is answered last in the batch.
		var mu sync.Mutex
		calls := 0
		last := make(chan struct{})
		u.add("s.t", func(ctx context.Context, params []byte, _ func([]byte)) wire.Reply {
			args, _ := wire.Get(params, "arguments")
			n, _ := wire.Get(args, "n")
			mu.Lock()
			calls++
			if calls == 4 { // all calls of the first round have arrived
				close(last)
			}
			mu.Unlock()
			if string(n) == strconv.Itoa(turn) {
				<-last
			}
			return wire.Reply{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, args)}
		})
		reply := composer(sandboxtest.Guest(t), &u).CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
		return normal(get(t, reply, "structuredContent")) + get(t, reply, "_meta", ReceiptKey, "fuel")
	}
	want := run(0)
	if !strings.HasPrefix(want, `{"result":[[1,12,23,34,45,56],[0,1,2,3,4,5]]`) {
		t.Errorf("got %s", want)
	}
	for turn := range 3 {
		if got := run(turn + 1); got != want {
			t.Errorf("call %d last:\n%s\nwant\n%s", turn+1, got, want)
		}
	}
}

// TestParallelLimits checks that the calls of all functions count together.
func TestParallelLimits(t *testing.T) {
	var u upstreams
	u.result("s.t", `{}`)
	c := composer(sandboxtest.Guest(t), &u, func(o *Options) { o.Limits.Calls = 50 })
	reply := c.CallSaved(t.Context(), saved("parallel([s.t] * 10000, errors='collect')"), route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent", "error", "details", "limit"); got != `"calls"` {
		t.Errorf("error = %s", get(t, reply, "structuredContent", "error"))
	}
	if n := len(u.calls()); n > 50 {
		t.Errorf("%d calls", n)
	}
}

// TestParallelCancelled checks cancelling a script while all functions wait.
func TestParallelCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var u upstreams
	called := u.block("s.wait")
	done := make(chan wire.Reply, 1)
	c := composer(sandboxtest.Guest(t), &u)
	go func() {
		done <- c.CallSaved(ctx, saved("parallel([s.wait] * 3, errors='collect')"), route.Call{Params: params(`{}`)})
	}()
	<-called
	cancel(&wire.CancelledError{})
	if got := get(t, <-done, "structuredContent", "error", "type"); got != `"cancelled"` {
		t.Errorf("error of type %s", got)
	}
}
