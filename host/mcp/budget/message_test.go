package budget

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneMessageExceedsTheBudget checks that only one message of a kind exceeds the budget at a
// time, and that a request does not block an answer.
func TestOneMessageExceedsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(3200)
		first, second, third, other := b.OpenAnswer(nil), b.OpenRequest("a"), b.OpenRequest("b"), b.OpenAnswer(nil)
		got(t, start(t.Context(), first, 790))
		more := start(t.Context(), second, 300)
		waits(t, more)
		time.Sleep(2 * escalateAfter)
		got(t, more)
		got(t, start(t.Context(), second, 100)) // it may grow until it is complete
		late, answered := start(t.Context(), third, 500), start(t.Context(), other, 700)
		time.Sleep(10 * escalateAfter)
		waits(t, late)
		got(t, answered)
		second.Close()
		time.Sleep(2 * escalateAfter)
		got(t, late)
		first.Close()
		third.Close()
		other.Close()
		checkEmpty(t, b)
	})
}

// TestRunFailsForAnswers checks that a run fails if all bytes belong to runs that wait
// for answers themselves.
func TestRunFailsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(3200)
		var failed error
		old, young := openRun(t, b, "a"), b.OpenRun("a", func(err error) { failed = err })
		young.AddWorkers(1) // it waits for a server
		parked := b.OpenAnswer(nil)
		got(t, start(t.Context(), &old.Hold, 200))
		got(t, start(t.Context(), parked, 750))
		young.AddMessage(750)
		beyond, late := b.OpenAnswer(nil), b.OpenAnswer(nil)
		more := start(t.Context(), beyond, 100)
		time.Sleep(2 * escalateAfter)
		got(t, more)
		more = start(t.Context(), late, 100)
		time.Sleep(3 * escalateAfter)
		synctest.Wait()
		if failed == nil {
			t.Fatal("no run has failed")
		}
		waits(t, more)
		young.Close()
		parked.Close()
		got(t, more)
		for _, h := range []*Hold{beyond, late} {
			h.Close()
		}
		old.Close()
		checkEmpty(t, b)
	})
}

// TestAttach checks that a message counts until it is garbage collected.
func TestAttach(t *testing.T) {
	b := New(16 << 20)
	message := make([]byte, 1<<20)
	h := b.OpenAnswer(nil)
	if err := h.Fit(t.Context(), len(message)); err != nil {
		t.Fatal(err)
	}
	h.Attach(message)
	runtime.GC()
	if f := b.Figures(); f.Used != Copies<<20 {
		t.Errorf("%+v while the message is there", f)
	}
	runtime.KeepAlive(message)
	message = nil
	next := b.Open("a")
	if err := next.Acquire(t.Context(), 2<<20); err != nil { // runs the garbage collector
		t.Error(err)
	}
	next.Close()
	checkEmpty(t, b)
}

// receive simulates receiving a message of size bytes into a buffer that doubles, and
// handling it for some time.
func receive(ctx context.Context, h *Hold, size int64) error {
	defer h.Close()
	for had := int64(0); had < size; {
		want := min(max(2*had, 16), size)
		if err := h.Acquire(ctx, want); err != nil {
			return err
		}
		h.Release(had)
		had = want
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
	return nil
}

// TestBodiesDoNotWaitForEachOther checks that many messages that grow while they are read
// all finish although only three fit completely, even next to a kept message.
func TestBodiesDoNotWaitForEachOther(t *testing.T) {
	const size = 620
	synctest.Test(t, func(t *testing.T) {
		b := New(16 * 1100)
		list, tools := b.OpenAnswer(nil), make([]byte, Small)
		got(t, start(t.Context(), list, 100))
		list.Attach(tools) // it stays for good
		var group sync.WaitGroup
		for n := range 40 {
			h := b.Open(n % 4)
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := receive(ctx, h, size); err != nil {
					t.Errorf("message %d: %v", n, err)
				}
			})
		}
		group.Wait()
		if most := b.mostOfMessages() + b.most(&Hold{}); b.Figures().Peak > most {
			t.Errorf("%d bytes at once, want at most %d", b.Figures().Peak, most)
		}
		runtime.KeepAlive(&tools[0])
		list.Close()
		checkEmpty(t, b)
	})
}
