package route

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// bridgeSteps is an upstream of the stateless era with several rounds, and a client of the
// handshake era. Each of their steps takes a second. At a step the call ends.
type bridgeSteps struct {
	mu     sync.Mutex
	steps  int
	end    int // the step at which the call is cancelled; 0: none
	cancel context.CancelCauseFunc
	open   int // calls and questions
}

var errLeaves = errors.New("the client leaves")

// step is the beginning, the middle or the end of a call or a question.
func (b *bridgeSteps) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps++
	if b.steps == b.end {
		b.cancel(errLeaves)
	}
}

// work takes a second and ends with ctx.
func (b *bridgeSteps) work(ctx context.Context) error {
	b.mu.Lock()
	b.open++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.open--
		b.mu.Unlock()
	}()
	b.step()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.step()
	return nil
}

// TestBridgeIsCancelledAnywhere cancels a call with several rounds at each step, while a call of
// the upstream or a question to the client begins or has just ended, and before, between and after
// them. The call ends at once with the cause; afterwards only a step at the same instant begins,
// and nothing goes on.
func TestBridgeIsCancelledAnywhere(t *testing.T) {
	replies := []string{
		asking(`"a":`+form+`,"b":`+roots, "s1"), asking("", "s2"), asking(`"v":`+visit, "s3"), asking(`"v":`+visit, "s4"),
		asking(`"c":`+sample, ""), `{"resultType":"complete","n":1}`,
	}
	run := func(t *testing.T, end int) (steps int) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s := &bridgeSteps{end: end, cancel: cancel}
			round := 0
			client := &fakeSession{params: `{"capabilities":` + allInputs + `}`}
			client.asked = func(ctx context.Context, _ wire.Call) (wire.Reply, error) {
				if err := s.work(ctx); err != nil {
					return wire.Reply{}, err
				}
				return wire.Reply{Result: fmt.Appendf(nil, `{"action":"accept","of":%d}`, round)}, nil
			}
			b := bridge{server: "a", origin: client, again: func(ctx context.Context, in wire.Inputs) (wire.Reply, error) {
				if err := s.work(ctx); err != nil {
					return wire.Reply{}, err
				}
				round++
				r := reply(replies[round])
				r.Stateless = true
				return r, nil
			}}
			r, err := b.finish(ctx, wire.Reply{Result: []byte(replies[0]), Stateless: true})
			cancelled := time.Now()
			synctest.Wait()
			switch {
			case end == 0 && (err != nil || string(r.Result) != replies[len(replies)-1]):
				t.Errorf("not cancelled: %s, %v", r.Result, err)
			case end != 0 && !errors.Is(err, errLeaves) && string(r.Result) != replies[len(replies)-1]:
				t.Errorf("step %d: %s, %v", end, r.Result, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.open != 0 || end != 0 && err != nil && s.steps > end+1 || time.Since(cancelled) != 0 {
				t.Errorf("step %d of %d: %d open", end, s.steps, s.open)
			}
			steps = s.steps
		})
		return steps
	}
	steps := run(t, 0)
	if steps < 16 {
		t.Fatalf("only %d steps", steps)
	}
	for end := 1; end <= steps; end++ {
		run(t, end)
	}
}
