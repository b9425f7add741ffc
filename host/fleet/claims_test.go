package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// doubtful is a store whose first Append of each log writes, and says that it is not known.
type doubtful struct {
	store.Store
	mu   sync.Mutex
	seen map[string]bool
	lose bool // it can never be known
}

func (d *doubtful) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	at, err := d.Store.Append(ctx, log, e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.lose {
		return store.Position{}, fmt.Errorf("%w: %w", store.ErrUnknown, &store.ConflictError{What: log})
	}
	if err == nil && !d.seen[log] {
		d.seen[log] = true
		return store.Position{}, store.ErrUnknown
	}
	return at, err
}

// TestClaims checks that one of several replicas gets a right, also if it is not told so at once,
// and that it can be given back.
func TestClaims(t *testing.T) {
	shared := open(t, memorytest.New(t), ring(t, "1"), nil).Store()
	replicas := []fleet.Claims{{Store: shared, By: "a"}, {Store: shared, By: "b"}, {Store: &doubtful{Store: shared, seen: map[string]bool{}}, By: "c"}}
	for range 2 {
		var got atomic.Int32
		var winner atomic.Int32
		var all sync.WaitGroup
		for i := range 9 {
			all.Go(func() {
				switch err := replicas[i%3].Claim("run-1"); {
				case err == nil:
					got.Add(1)
					winner.Store(int32(i % 3))
				case !errors.Is(err, fleet.ErrClaimed):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got.Load() != 1 {
			t.Fatalf("%d replicas have it", got.Load())
		}
		if err := replicas[winner.Load()].Release("run-1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := replicas[2].Claim("run-2"); err != nil {
		t.Errorf("in doubt: %v", err)
	}
	if err := replicas[0].Claim("run-2"); !errors.Is(err, fleet.ErrClaimed) {
		t.Errorf("after that: %v", err)
	}
	lost := fleet.Claims{Store: &doubtful{Store: shared, seen: map[string]bool{}, lose: true}, By: "d"}
	if err := lost.Claim("run-4"); !errors.As(err, new(*fleet.ClaimError)) || errors.Is(err, fleet.ErrClaimed) {
		t.Errorf("nobody can know any more: %v", err)
	}
	shared.Close()
	if err := replicas[0].Claim("run-3"); !errors.As(err, new(*fleet.ClaimError)) {
		t.Errorf("without the store: %v", err)
	}
}
