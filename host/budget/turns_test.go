package budget

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// TestTurns checks who gets the next turn, and that one owner never has all of them.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(3)
		var order []string
		dones := map[string]func(){}
		ask := func(ctx context.Context, name string, key any) <-chan error {
			ended := make(chan error, 1)
			go func() {
				done, err := turns.Take(ctx, key)
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
		one := NewTurns(0)
		done, err := one.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		done()
		if _, err := (*Turns)(nil).Take(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
}
