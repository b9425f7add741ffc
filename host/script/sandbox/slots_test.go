package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

func newSlot(ctx context.Context, s *slots) *computeSlot { return &computeSlot{slots: s, ctx: ctx} }

// checkIdle checks that every slot is free and no run is in flight.
func checkIdle(t *testing.T, s *slots) {
	t.Helper()
	n := s.maxInFlight - int64(s.maxQueued)
	if !s.free.TryAcquire(n) {
		t.Errorf("not all of %d slots are free", n)
		return
	}
	s.free.Release(n)
	if n := s.inFlight.Load(); n != 0 {
		t.Errorf("%d runs are in flight", n)
	}
}

// TestSlotOrder checks that runs get slots in the order in which they asked,
// whether to start or to go on.
func TestSlotOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 100)
		first := newSlot(t.Context(), s)
		first.acquire()
		var order []int // written by the holder of the slot
		for n := range 5 {
			go func() {
				other := newSlot(t.Context(), s)
				other.acquire()
				order = append(order, n)
				other.release()
			}()
			synctest.Wait()
		}
		first.yield()
		if len(order) > 0 || !first.held {
			t.Errorf("yielded before its time slice was over: %v", order)
		}
		first.since = first.since.Add(-timeSlice)
		first.yield() // goes to the end of the queue
		order = append(order, 5)
		first.release()
		if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(order, want) {
			t.Errorf("went in the order %v, want %v", order, want)
		}
		checkIdle(t, s)
	})
}

// TestComputingRunsYield checks that runs that only compute do not keep a short
// run from getting a slot, although they have all slots.
func TestComputingRunsYield(t *testing.T) {
	s := realSandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started, done := make(chan struct{}), make(chan error, 1+int(s.slots.maxInFlight)-s.slots.maxQueued)
	for range cap(done) {
		go func() {
			_, err := s.Run(ctx, Run{Request: request("print('go')\nwhile True: pass", "{}"), Caller: &fakeCaller{
				onLog: func(string) { started <- struct{}{} },
			}})
			done <- err
		}()
	}
	for range cap(done) {
		<-started // the last run can only start after another has yielded
	}
	out, err := s.Run(t.Context(), Run{Request: request("return s.echo({'n': 1}).n", "{}"), Caller: &fakeCaller{tools: echoTools}})
	if err != nil || string(out.Result) != "1" || out.Queued == 0 {
		t.Errorf("%v, %+v", err, out)
	}
	cancel()
	for range cap(done) {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	}
	checkIdle(t, s.slots)
}

// TestNoSlotWhileWaiting checks that others can have the slot of a run that waits for
// tools or for its client, and that the run has a slot again when it continues.
func TestNoSlotWhileWaiting(t *testing.T) {
	s, err := realSandbox(t).Share(Options{MaxConcurrent: 1})
	if err != nil {
		t.Fatal(err)
	}
	free := func() bool {
		free := s.slots.free.TryAcquire(1)
		if free {
			s.slots.free.Release(1)
		}
		return free
	}
	waited := map[string]int{}
	wait := func(what string) {
		if waited[what]++; !free() {
			t.Errorf("it holds the slot while it waits for %s", what)
		}
	}
	caller := &waitingCaller{fakeCaller: &fakeCaller{
		tools: func(_ context.Context, c abi.ToolCall) abi.Answer {
			wait("a tool")
			return abi.Answer{Value: c.Arguments}
		},
		onProgress: func(abi.Progress) { wait("the client to read progress") },
		sendLog:    func() { wait("the client to read a log entry") },
		onLog: func(string) {
			if waited["log"]++; free() {
				t.Error("it writes an entry of its log without a slot")
			}
		},
	}, onUndo: func() { wait("a server to undo") }}
	code := "print('a')\nprogress(1)\nlog.info('b')\nundo(s.echo, {})\nlog.info('c')\nreturn parallel([lambda: s.echo({'n': 1}), lambda: s.echo({'n': 2})])[1].n"
	out, err := s.Run(t.Context(), Run{Request: request(code, "{}"), Caller: caller})
	if err != nil || string(out.Result) != "2" {
		t.Errorf("%v, %+v", err, out)
	}
	want := map[string]int{"a tool": 2, "the client to read progress": 1, "the client to read a log entry": 3, "log": 3, "a server to undo": 1}
	if !maps.Equal(waited, want) {
		t.Errorf("waited %v, want %v", waited, want)
	}
	checkIdle(t, s.slots)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// waitingCaller calls onUndo when a compensation is registered.
type waitingCaller struct {
	*fakeCaller
	onUndo func()
}

func (c *waitingCaller) Undo(ctx context.Context, call abi.ToolCall) *abi.CallError {
	c.onUndo()
	return c.fakeCaller.Undo(ctx, call)
}

// TestSlotIsReleased checks that slots are released after a panic of the Caller and
// after the end of the context.
func TestSlotIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSandbox(t, Options{Guest: guestNamed(t, callingGuest), MaxConcurrent: 2, Log: slog.New(slog.DiscardHandler)})
		_, err := s.Run(t.Context(), Run{Caller: &fakeCaller{tools: func(context.Context, abi.ToolCall) abi.Answer { panic("boom") }}})
		if err == nil || !strings.Contains(err.Error(), "boom") {
			t.Error(err)
		}
		checkIdle(t, s.slots)

		// The answer has come, but the run cannot continue before its context ends.
		holder := newSlot(t.Context(), s.slots)
		s.slots.free.TryAcquire(1)
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		done := make(chan error)
		go func() {
			_, err := s.Run(ctx, Run{Caller: &fakeCaller{tools: func(ctx context.Context, c abi.ToolCall) abi.Answer {
				once.Do(func() { holder.acquire() })
				return expected(ctx, c)
			}}})
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
		holder.release()
		s.slots.free.Release(1)
		checkIdle(t, s.slots)
	})
}

func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSandbox(t, Options{Guest: guestNamed(t, callingGuest), MaxConcurrent: 1, MaxQueued: 2})
		calls := block(t, s, 3)
		out, err := s.Run(t.Context(), Run{Request: abi.Request{Name: "late"}, Caller: &fakeCaller{}})
		var limit *LimitError
		if !errors.As(err, &limit) || limit.Limit != LimitQueue || limit.Value != 2 || limit.LimitName() != "queue" || out.Memory != 0 {
			t.Fatalf("%v, %+v", err, out)
		}
		if want := `script "late": not started, 2 others are waiting for their turn or for tools`; err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
		calls.release(t)
		if out, err := s.Run(t.Context(), Run{Caller: &fakeCaller{tools: expected}}); err != nil {
			t.Errorf("afterwards: %v, %+v", err, out)
		}
		checkIdle(t, s.slots)
	})
}

func TestStopWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSandbox(t, Options{Guest: guestNamed(t, callingGuest), MaxConcurrent: 1})
		<-s.Ready()
		holder := newSlot(t.Context(), s.slots)
		holder.acquire()
		gone := errors.New("the client went away")
		cancelled, cancel := context.WithCancelCause(t.Context())
		late, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		for _, c := range []struct {
			ctx   context.Context
			end   func()
			wants []error
			after time.Duration
		}{
			{cancelled, func() { cancel(gone) }, []error{context.Canceled, gone}, 0},
			{late, func() {}, []error{context.DeadlineExceeded}, time.Minute},
		} {
			type ended struct {
				out Outcome
				err error
			}
			done := make(chan ended)
			caller := &fakeCaller{tools: expected}
			go func() {
				out, err := s.Run(c.ctx, Run{Caller: caller})
				done <- ended{out, err}
			}()
			synctest.Wait()
			c.end()
			got := <-done
			for _, want := range c.wants {
				if !errors.Is(got.err, want) {
					t.Errorf("%v, want %v", got.err, want)
				}
			}
			if got.out.Queued != c.after || len(caller.calls) > 0 {
				t.Errorf("%+v after %d calls", got.out, len(caller.calls))
			}
		}
		holder.release()
		if _, err := s.Run(t.Context(), Run{Caller: &fakeCaller{tools: expected}}); err != nil {
			t.Error(err)
		}
		checkIdle(t, s.slots)
	})
}

// TestThousandBlocked checks that other runs continue while a thousand runs wait for a
// slow tool. BenchmarkBlocked measures what these hold.
func TestThousandBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSandbox(t, Options{Guest: guestNamed(t, callingGuest), MaxConcurrent: 2})
		calls := block(t, s, 1000)
		if n := s.slots.inFlight.Load(); n != 1000 {
			t.Errorf("%d in flight", n)
		}
		for range 20 {
			if _, err := s.Run(t.Context(), Run{Caller: &fakeCaller{tools: expected}}); err != nil {
				t.Error(err)
			}
		}
		calls.release(t)
		checkIdle(t, s.slots)
	})
}

// TestNestedRuns checks that a run with tools that are runs too does not block itself.
func TestNestedRuns(t *testing.T) {
	s := newSandbox(t, Options{Guest: guestNamed(t, callingGuest), MaxConcurrent: 1})
	runs := 0
	var nested func(depth int) error
	nested = func(depth int) error {
		runs++
		var inner error
		once := true
		_, err := s.Run(t.Context(), Run{Caller: &fakeCaller{tools: func(ctx context.Context, c abi.ToolCall) abi.Answer {
			if once && depth > 1 {
				inner = nested(depth - 1)
			}
			once = false
			return expected(ctx, c)
		}}})
		return errors.Join(err, inner)
	}
	if err := nested(20); err != nil || runs != 20 {
		t.Errorf("%v, %d runs", err, runs)
	}
	checkIdle(t, s.slots)
}

// expected answers as callingGuest expects.
func expected(_ context.Context, c abi.ToolCall) abi.Answer {
	if c.Tool == "t" {
		return abi.Answer{Value: []byte(`"first"`)}
	}
	return abi.Answer{Err: &abi.CallError{Type: abi.ErrPermission, Server: "s", Tool: "t", Message: "no"}}
}

// blocked has runs that wait for their tools.
type blocked struct {
	answer chan struct{}
	done   chan error
	n      int
}

// block starts n runs and returns once all of them wait. It needs a synctest bubble.
func block(t *testing.T, s *Sandbox, n int) *blocked {
	t.Helper()
	<-s.Ready()
	b := &blocked{answer: make(chan struct{}), done: make(chan error, n), n: n}
	var waiting sync.WaitGroup
	waiting.Add(n)
	for range n {
		first := sync.OnceFunc(waiting.Done)
		go func() {
			_, err := s.Run(t.Context(), Run{Caller: &fakeCaller{tools: func(ctx context.Context, c abi.ToolCall) abi.Answer {
				first()
				<-b.answer
				return expected(ctx, c)
			}}})
			b.done <- err
		}()
	}
	waiting.Wait()
	return b
}

// release answers the tools and waits for the runs.
func (b *blocked) release(t *testing.T) {
	t.Helper()
	close(b.answer)
	for range b.n {
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	}
}
