package sandbox

import (
	"context"
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// TestComputeTakesASlot checks that work of the host waits for a slot, unless it is
// very short.
func TestComputeTakesASlot(t *testing.T) {
	s := &Sandbox{slots: newSlots(1, 1)}
	first := s.Compute(t.Context(), "first", nil)
	if err := first.Spend(freeCompute); err != nil || !s.slots.free.TryAcquire(1) {
		t.Fatalf("a moment's work has taken the slot (%v)", err)
	}
	s.slots.free.Release(1)
	if err := first.Spend(1); err != nil || s.slots.free.TryAcquire(1) {
		t.Fatalf("longer work has taken no slot (%v)", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second := s.Compute(ctx, "second", nil)
	if err := second.Spend(freeCompute); err != nil {
		t.Fatalf("a moment's work has waited: %v", err)
	}
	waited := make(chan error)
	go func() { waited <- second.Spend(1) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a slot ended with %v", err)
	}
	second.Close()
	first.Close()
	if !s.slots.free.TryAcquire(1) {
		t.Error("the slot was not given back")
	}
}

// TestComputeIsCharged checks that the work uses the account of the run, and stops
// when that is empty.
func TestComputeIsCharged(t *testing.T) {
	account := NewAccount(Limits{Fuel: 20_000_000}, nil)
	work := new(Sandbox).Compute(t.Context(), "job", account)
	defer work.Close()
	if err := work.Spend(15_000_000); err != nil {
		t.Fatal(err)
	}
	var limit *LimitError
	if err := work.Spend(6_000_000); !errors.As(err, &limit) || limit.Limit != LimitFuel || limit.Value != 20_000_000 {
		t.Errorf("got %v", err)
	}
	if left := account.takeFuel(1); left != 0 || work.Spent() != 20_000_000 {
		t.Errorf("%d left of the account, %d spent", left, work.Spent())
	}
}

// TestComputeTakesMemory checks that memory for work of the host is that of the run, that nothing
// remains of it, and that more than there is ends the run.
func TestComputeTakesMemory(t *testing.T) {
	b := budget.New(256 << 20)
	s := withBudget(t, b)
	account := NewAccount(Limits{}, "owner")
	for _, bytes := range []int64{100 << 20, 300 << 20} {
		work := s.Compute(t.Context(), "job", account)
		if f := b.Figures(); f.Used != 0 {
			t.Errorf("before anything was taken: %+v", f)
		}
		if err := work.Take(10 << 20); err != nil {
			t.Fatal(err)
		}
		err := work.Take(bytes)
		var limit *LimitError
		switch runs := b.Figures().Runs; {
		case bytes < 150<<20 && (err != nil || runs != bytes+10<<20):
			t.Errorf("%d bytes: %v, runs have %d", bytes, err, runs)
		case bytes > 150<<20 && (!errors.As(err, &limit) || limit.Limit != LimitTotalMemory):
			t.Errorf("%d bytes: %v", bytes, err)
		}
		if err == nil {
			work.Give(bytes)
		}
		work.Give(10 << 20)
		if f := b.Figures(); f.Used != 0 {
			t.Errorf("after it was given back: %+v", f)
		}
		_ = work.Take(1 << 20) // forgotten
		work.Close()
		work.Close()
		if f := b.Figures(); f.Used != 0 {
			t.Errorf("after the work: %+v", f)
		}
	}
	free := new(Sandbox).Compute(t.Context(), "lint", nil)
	defer free.Close()
	if err := free.Take(1 << 50); err != nil {
		t.Error(err)
	}
	free.Give(1 << 50)
}
