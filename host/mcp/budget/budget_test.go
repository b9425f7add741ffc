package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// start acquires n bytes for a hold in the background. The channel receives the error.
func start(ctx context.Context, h *Hold, n int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- h.Acquire(ctx, n) }()
	return done
}

func waits(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("it does not wait: %v", err)
	default:
	}
}

func got(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatal("it still waits")
	}
}

// checkEmpty checks that no bytes are used and no owners are left.
func checkEmpty(t *testing.T, b *Budget) {
	t.Helper()
	if f := b.Figures(); f.Used != 0 || f.Waiting != 0 || len(b.owners) != 0 {
		t.Errorf("%+v, %d owners", f, len(b.owners))
	}
}

func TestAcquireWaitsForRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(3744)
		first, second := b.Open("a"), b.Open("b")
		got(t, start(t.Context(), first, 600))
		more := start(t.Context(), second, 160)
		waits(t, more)
		first.Release(100)
		got(t, more)
		if f := b.Figures(); f != (Figures{Total: 3744, Used: 660, Peak: 660}) {
			t.Errorf("%+v", f)
		}
		first.Close()
		first.Close()
		second.Close()
		checkEmpty(t, b)
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(3744)
		first, second := b.Open("a"), b.Open("b")
		got(t, start(t.Context(), first, 600))
		ctx, cancel := context.WithCancelCause(t.Context())
		late := start(ctx, second, 300)
		waits(t, late)
		behind := start(t.Context(), second, 50)
		got(t, behind) // it is small enough
		cause := errors.New("enough")
		cancel(cause)
		if err := <-late; !errors.Is(err, cause) {
			t.Errorf("error %v", err)
		}
		first.Close()
		second.Close()
		checkEmpty(t, b)
	})
}

func TestTooLarge(t *testing.T) {
	b := New(4800)
	h := b.Open(nil)
	defer h.Close()
	var large *TooLargeError
	if err := h.Acquire(t.Context(), b.most(new(Hold))+1); !errors.As(err, &large) || large.Most != b.most(new(Hold)) {
		t.Errorf("error %v", err)
	}
	if err := h.Acquire(t.Context(), b.most(new(Hold))); err != nil {
		t.Error(err)
	}
}

// TestShares checks that an owner with many bytes leaves some for later ones, and is
// served after those with fewer.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(37344)
		greedy, modest, late := b.Open("greedy"), b.Open("modest"), b.Open("late")
		taken := 0
		for greedy.TryAcquire(100) {
			taken += 100
		}
		if taken != 6200 {
			t.Errorf("one alone gets %d of %d", taken, b.ceiling(new(Hold)))
		}
		if !modest.TryAcquire(600) {
			t.Error("nothing is left for another session")
		}
		greedy.Release(700)
		more := start(t.Context(), greedy, 700)
		waits(t, more)
		third := start(t.Context(), late, 850)
		waits(t, third)
		greedy.Release(300)
		got(t, third)
		waits(t, more)
		for _, h := range []*Hold{modest, late} {
			h.Close()
		}
		got(t, more)
		greedy.Close()
		checkEmpty(t, b)
	})
}

func TestNoBudget(t *testing.T) {
	var b *Budget
	h := b.Open("a")
	if !h.TryAcquire(1<<60) || h.Acquire(t.Context(), 1<<60) != nil || h.Bytes() != 0 || b.Figures() != (Figures{}) {
		t.Error("it counts")
	}
	h.Release(1)
	h.Close()
}

// TestEveryHoldIsServed checks that holds that finish by themselves all get what they
// request, and that never more is used than there is.
func TestEveryHoldIsServed(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			b := New(5000 + random.Int64N(5000))
			for range 50 {
				key, ctx := random.IntN(5), t.Context()
				want := 1 + random.Int64N(b.most(new(Hold)))
				pause := time.Duration(1 + random.IntN(100))
				if random.IntN(4) == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(500)))
					defer cancel()
				}
				go func() {
					h := b.Open(key)
					defer h.Close()
					if h.Acquire(ctx, want) == nil {
						time.Sleep(pause)
					}
					if f := b.Figures(); f.Used > b.ceiling(new(Hold)) {
						t.Errorf("%+v", f)
					}
				}()
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			checkEmpty(t, b)
		})
	}
}
