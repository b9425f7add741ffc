package sandbox

import (
	"context"
	"errors"
	"testing"
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
