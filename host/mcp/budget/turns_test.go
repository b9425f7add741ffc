package budget

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns checks who gets the next turn, and that one owner never has all of them.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(3, time.Minute)
		var order []string
		dones := map[string]func(){}
		ask := func(ctx context.Context, name string, key any) <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, done, err := turns.Take(ctx, key)
				if err == nil {
					order, dones[name] = append(order, name), done
				}
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			ask(t.Context(), name, Member{"a", name})
		}
		if !slices.Equal(order, []string{"a1", "a2"}) {
			t.Fatalf("%v: two of three are for one owner", order)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		gone := ask(ctx, "a5", Member{"a", "a5"})
		cancel(cause)
		if err := <-gone; !errors.Is(err, cause) {
			t.Error(err)
		}
		ask(t.Context(), "b1", "b")
		ask(t.Context(), "b2", "b")
		ask(t.Context(), "c1", Member{nil, "c"})
		dones["a1"]() // a has one now, b one, c none
		synctest.Wait()
		dones["b1"]()
		synctest.Wait()
		dones["c1"]()
		synctest.Wait()
		if want := []string{"a1", "a2", "b1", "c1", "b2", "a3"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		for _, name := range []string{"a2", "b2", "a3", "a4"} {
			synctest.Wait()
			dones[name]()
		}
		if turns.taken != 0 || len(turns.of) != 0 || len(turns.waiting) != 0 {
			t.Errorf("left: %+v", turns)
		}
		one := NewTurns(0, time.Minute)
		_, done, err := one.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		done()
		if _, _, err := (*Turns)(nil).Take(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
}

// TestTurnsEnd checks that work that hangs is told to stop, so that it cannot keep its turn, and
// that those that wait end with their requests.
func TestTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1, time.Minute)
		hangs, done, err := turns.Take(t.Context(), "hangs")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := turns.Take(short, "impatient"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		go func() {
			defer done()
			<-hangs.Done() // as a read of something that does not answer
		}()
		next, leave, err := turns.Take(t.Context(), "next")
		var late *TurnError
		if err != nil || !errors.As(context.Cause(hangs), &late) || time.Since(began) != time.Minute {
			t.Errorf("%v, %v after %v", err, context.Cause(hangs), time.Since(began))
		}
		done() // again
		if next.Err() != nil || turns.taken != 1 {
			t.Errorf("%v, %d taken", next.Err(), turns.taken)
		}
		leave()
		synctest.Wait()
		if turns.taken != 0 || len(turns.of) != 0 || len(turns.waiting) != 0 {
			t.Errorf("left: %+v", turns)
		}
	})
}
