package sandbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// maxStop is the time after which a run that should have ended counts as hanging. It
// is far longer than measured times, because machines that run tests are busy.
const maxStop = 30 * time.Second

// TestHostileStop checks that a run ends soon after its context, wherever it is.
func TestHostileStop(t *testing.T) {
	s := realSandbox(t)
	all := attacks(t)
	random := rand.New(rand.NewPCG(1, 2))
	var cancelled, expired, blocked []time.Duration
	for tries := 0; len(cancelled)+len(expired)+len(blocked) < *hostileStops; tries++ {
		if tries > 100**hostileStops {
			t.Fatalf("hardly any script is still running when it is stopped")
		}
		a := all[random.IntN(len(all))]
		// None should end by itself, as far as possible.
		a.limits = Limits{Fuel: 1 << 60, Memory: 64 << 20, Calls: 1 << 30}
		after := time.Duration(random.Int64N(int64(12 * time.Millisecond)))
		switch tries % 3 {
		case 0:
			if d, ok := stopByCancel(t, s, a, after); ok {
				cancelled = append(cancelled, d)
			}
		case 1:
			if d, ok := stopByDeadline(t, s, a, after); ok {
				expired = append(expired, d)
			}
		case 2:
			a.code = "x = [i for i in range(1000)]\nfor i in x: s.slow({'i': i})"
			if d, ok := stopByCancel(t, s, a, after); ok {
				blocked = append(blocked, d)
			}
		}
	}
	for what, times := range map[string][]time.Duration{
		"from cancel": cancelled, "from deadline": expired, "from cancel while blocked in a tool": blocked,
	} {
		t.Logf("%d runs, %s to the end: %s", len(times), what, spread(times))
		for _, d := range times {
			if d > testenv.Deadline(maxStop) {
				t.Errorf("%s: a run went on for %v", what, d)
			}
		}
	}
}

// stopByCancel runs an attack and cancels it after a while. It returns how long the
// run continued after that; ok is false if it had ended before.
func stopByCancel(t *testing.T, s *Sandbox, a attack, after time.Duration) (time.Duration, bool) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("the client went away")
	var at atomic.Int64
	begin := time.Now()
	timer := time.AfterFunc(after, func() {
		at.Store(int64(time.Since(begin)))
		cancel(gone)
	})
	out, err := s.Run(ctx, Run{Request: request(a.code, a.params), Limits: a.limits, Caller: &victim{limits: a.limits}})
	end := time.Since(begin)
	if timer.Stop() || !errors.Is(err, context.Canceled) {
		cancel(nil)
		return 0, false
	}
	if !errors.Is(err, gone) || classOf(out, err) != string(abi.ErrCancelled) || out.Result != nil || out.Err != nil {
		t.Errorf("%s: cancelled, it ended in %v, %+v", a.name, err, out)
	}
	return end - time.Duration(at.Load()), true
}

// stopByDeadline is the same with a deadline. It returns the time since the deadline,
// even if the system's timer was late.
func stopByDeadline(t *testing.T, s *Sandbox, a attack, after time.Duration) (time.Duration, bool) {
	t.Helper()
	deadline := time.Now().Add(after)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	out, err := s.Run(ctx, Run{Request: request(a.code, a.params), Limits: a.limits, Caller: &victim{limits: a.limits}})
	end := time.Now()
	if !errors.Is(err, context.DeadlineExceeded) {
		return 0, false
	}
	if out.Result != nil || out.Err != nil {
		t.Errorf("%s: after its deadline it ended in %+v", a.name, out)
	}
	return end.Sub(deadline), true
}
