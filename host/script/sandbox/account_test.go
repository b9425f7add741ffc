package sandbox

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// TestAccount checks that an account loses exactly what its runs use, and that a run
// ends when it finds the account empty.
func TestAccount(t *testing.T) {
	const code = "x = 0\nfor i in range(20000): x += i\nreturn s.echo({'x': x}).x"
	s := realSandbox(t)
	run := func(a *Account, l Limits) (Outcome, error) {
		return s.Run(context.Background(), Run{Request: request(code, "{}"), Limits: l, Account: a, Caller: &fakeCaller{tools: echoTools}})
	}
	alone, err := run(nil, Limits{})
	if err != nil || alone.Err != nil || alone.Fuel < fuelSlice {
		t.Fatalf("%+v, %v", alone, err)
	}
	all := int64(5 * alone.Fuel / 2)
	a := NewAccount(Limits{Fuel: uint64(all), Calls: 10}, nil)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if out, err := run(a, Limits{}); err != nil || out.Fuel != alone.Fuel {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	both.Wait()
	if left := a.fuel.Load(); left != all-2*int64(alone.Fuel) || a.calls.Load() != 8 {
		t.Errorf("%d units and %d calls left of %d", left, a.calls.Load(), all)
	}
	out, err := run(a, Limits{})
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Limit != LimitFuel || limit.Value != uint64(all) || a.fuel.Load() != 0 {
		t.Errorf("%+v, %v, %d left", out, err, a.fuel.Load())
	}
	// The run's own limit is lower.
	a = NewAccount(Limits{}, nil)
	if _, err := run(a, Limits{Fuel: 1000}); !errors.As(err, &limit) || limit.Value != 1000 {
		t.Error(err)
	}
	if used := a.allFuel - a.fuel.Load(); used != 1000 {
		t.Errorf("%d units are gone from the account", used)
	}
	a = NewAccount(Limits{Calls: 1}, nil)
	if !a.takeCalls(1) || a.takeCalls(1) {
		t.Error("one call is not one call")
	}
	if _, err := run(a, Limits{}); !errors.As(err, &limit) || limit.Limit != LimitCalls || limit.Value != 1 {
		t.Error(err)
	}
}
