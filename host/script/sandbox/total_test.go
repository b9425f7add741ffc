package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// withBudget returns the shared sandbox with a budget and slots of its own.
func withBudget(t testing.TB, b *budget.Budget) *Sandbox {
	t.Helper()
	s, err := realSandbox(t).Share(Options{Budget: b, MaxConcurrent: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// gate is a tool. Its calls wait until the gate opens.
type gate struct {
	called chan string // receives the run of each call
	open   chan struct{}
}

func newGate() *gate { return &gate{called: make(chan string, 100), open: make(chan struct{})} }

func (g *gate) tool(name string) *fakeCaller {
	return &fakeCaller{tools: func(ctx context.Context, _ abi.ToolCall) abi.Answer {
		g.called <- name
		select {
		case <-g.open:
		case <-ctx.Done():
		}
		return abi.Answer{Value: []byte("1")}
	}}
}

// TestTotalMemoryWaits checks that runs wait for memory until other runs have ended,
// and that none fails.
func TestTotalMemoryWaits(t *testing.T) {
	const runs = 6
	b := budget.New(120 << 20)
	s, g := withBudget(t, b), newGate()
	var group sync.WaitGroup
	for n := range runs {
		group.Go(func() {
			r := Run{Request: request("x = 'x' * (20 * 1024 * 1024)\ns.wait()\nreturn len(x)", "{}"), Caller: g.tool(fmt.Sprint(n))}
			out, err := s.Run(t.Context(), r)
			if err != nil || string(out.Result) != fmt.Sprint(20<<20) {
				t.Errorf("%s, %+v, %v", out.Result, out.Err, err)
			}
		})
	}
	<-g.called
	<-g.called
	if f := b.Figures(); f.Runs < 40<<20 {
		t.Errorf("two runs with 20 MiB each have %d bytes", f.Runs)
	}
	close(g.open)
	group.Wait()
	if f := b.Figures(); f.Used != 0 || f.Waiting != 0 || f.Peak > 90<<20 {
		t.Errorf("%+v", f)
	}
}

// TestTotalMemoryFails checks that if all runs with memory wait for more, the youngest
// fails and the others continue.
func TestTotalMemoryFails(t *testing.T) {
	b := budget.New(120 << 20)
	s, g := withBudget(t, b), newGate()
	type ended struct {
		out Outcome
		err error
	}
	const code = "x = 'x' * (16 * 1024 * 1024)\ns.wait()\ny = 'y' * (60 * 1024 * 1024)\nreturn len(x) + len(y)"
	var runs [2]chan ended
	for n := range runs {
		runs[n] = make(chan ended, 1)
		go func() {
			out, err := s.Run(t.Context(), Run{Request: request(code, "{}"), Caller: g.tool(fmt.Sprint(n))})
			runs[n] <- ended{out, err}
		}()
		<-g.called // one after the other, so that the youngest is known
	}
	close(g.open)
	if first := <-runs[0]; first.err != nil || string(first.out.Result) != fmt.Sprint(76<<20) {
		t.Errorf("the oldest: %s, %v", first.out.Result, first.err)
	}
	second := <-runs[1]
	var limit *LimitError
	if !errors.As(second.err, &limit) {
		t.Fatalf("the youngest: %v", second.err)
	}
	if limit.Limit != LimitTotalMemory || limit.Value != 120<<20 || limit.Used < 16<<20 || limit.LimitName() != "total_memory" {
		t.Errorf("%+v", limit)
	}
	if f := b.Figures(); f.Used != 0 || f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
}

// TestTotalMemoryAlone checks that a run that can never have enough memory does not
// wait.
func TestTotalMemoryAlone(t *testing.T) {
	s := withBudget(t, budget.New(40<<20))
	_, err := s.Run(t.Context(), Run{Request: request("return len('x' * (60 * 1024 * 1024))", "{}"), Caller: newGate().tool("")})
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Limit != LimitTotalMemory {
		t.Errorf("%v", err)
	}
}

// TestTotalMemoryWaitsWithoutSlot checks that others compute while a run waits
// for memory.
func TestTotalMemoryWaitsWithoutSlot(t *testing.T) {
	b := budget.New(64 << 20)
	s, g := withBudget(t, b), newGate()
	s.slots = newSlots(1, 0)
	others := b.OpenRun("others", nil)
	others.AddWorkers(1)
	if !others.TryAcquire(30 << 20) {
		t.Fatal("no room")
	}
	large := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context(), Run{Request: request("return len('x' * (20 * 1024 * 1024))", "{}"), Caller: g.tool("")})
		large <- err
	}()
	for b.Figures().Waiting == 0 {
		select {
		case err := <-large:
			t.Fatalf("it did not wait: %v", err)
		default:
			runtime.Gosched()
		}
	}
	if _, err := s.Run(t.Context(), Run{Request: request("return 1", "{}"), Caller: g.tool("")}); err != nil {
		t.Error(err)
	}
	others.Close()
	if err := <-large; err != nil {
		t.Error(err)
	}
}

// TestTotalMemoryEndsWithTheRun checks that a run that waits for memory ends when it is
// cancelled.
func TestTotalMemoryEndsWithTheRun(t *testing.T) {
	b := budget.New(64 << 20)
	s := withBudget(t, b)
	others := b.OpenRun("others", nil)
	others.AddWorkers(1)
	defer others.Close()
	if !others.TryAcquire(30 << 20) {
		t.Fatal("no room")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, Run{Request: request("return len('x' * (20 * 1024 * 1024))", "{}"), Caller: newGate().tool("")})
		ended <- err
	}()
	for b.Figures().Waiting == 0 {
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
			runtime.Gosched()
		}
	}
	cause := errors.New("enough")
	cancel(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Error(err)
	}
	if f := b.Figures(); f.Runs != 30<<20 || f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
}

// TestHeldMemory checks that a script is charged for the memory that it has changed: a
// small script for little, and one that writes a lot within the image for more.
func TestHeldMemory(t *testing.T) {
	b := budget.New(1 << 30)
	s, g := withBudget(t, b), newGate()
	held := func(code string) int64 {
		done := make(chan error, 1)
		go func() {
			_, err := s.Run(t.Context(), Run{Request: request(code, "{}"), Caller: g.tool("")})
			done <- err
		}()
		<-g.called
		n := b.Figures().Runs
		g.open <- struct{}{}
		if err := <-done; err != nil {
			t.Error(err)
		}
		return n
	}
	small, large := held("s.wait()\nreturn 1"), held("x = 'x' * 2000000\ns.wait()\nreturn len(x)")
	t.Logf("small %d, large %d, base %d of %d", small, large, s.base.image.Base(), s.base.image.Size())
	if small > int64(s.base.image.Size()) || large < small+1_900_000 {
		t.Errorf("small %d, large %d, image %d", small, large, s.base.image.Size())
	}
	if f := b.Figures(); f.Used != 0 {
		t.Errorf("%+v", f)
	}
}
