package compile

import (
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestLimitsAreNotOvertaken checks that calls at the same time do not get past a counter, and
// that a call which is decided about again is counted once.
func TestLimitsAreNotOvertaken(t *testing.T) {
	e := policy.NewEngine(compile(t, policy.Allow, policy.Rule{Name: "ten", Tools: []string{"a.b"}, When: "calls.run >= 10", Action: policy.Deny}), time.Now)
	run, session := &policy.History{}, &policy.History{}
	var allowed sync.Map
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			r := tool("a", "b", `{}`)
			r.Caller.RunCalls, r.Caller.SessionCalls = run, session
			first := e.Decide(r)
			r.Before, r.Commit = &first, true
			if d := e.Decide(r); d.Allowed() {
				r.Before = &d
				if again := e.Decide(r); !again.Allowed() { // the request is written again
					t.Error("denied when it is sent again")
				}
				allowed.Store(i, true)
			}
		})
	}
	calls.Wait()
	n := 0
	allowed.Range(func(any, any) bool { n++; return true })
	if got := run.Counts().Total; n != 10 || got != 10 {
		t.Errorf("%d allowed, %d counted, want 10", n, got)
	}
}

// TestCountedOnce checks that a call which is sent again counts once, also if the policy was
// replaced between.
func TestCountedOnce(t *testing.T) {
	rule := policy.Rule{Name: "one", Tools: []string{"a.b"}, When: "calls.session > 1", Action: policy.Deny}
	e := policy.NewEngine(compile(t, policy.Allow, rule), time.Now)
	r := tool("a", "b", "")
	r.Commit, r.Caller.SessionCalls = true, &policy.History{}
	for range 3 {
		d := e.Decide(r)
		if !d.Allowed() {
			t.Fatal(d)
		}
		r.Before = &d
		e.SetPolicy(compile(t, policy.Allow, rule))
	}
	if n := r.Caller.SessionCalls.Counts().Total; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestCallsPerMinute checks that reconnecting does not help, and that the window moves.
func TestCallsPerMinute(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	e := policy.NewEngine(compile(t, policy.Allow, policy.Rule{Name: "two", When: "calls.tool.minute >= 2", Action: policy.Deny}), func() time.Time { return now })
	decide := func() bool {
		r := tool("a", "b", "")
		r.Commit, r.Caller.SessionCalls = true, &policy.History{} // a session of its own
		return e.Decide(r).Allowed()
	}
	for i, want := range []bool{true, true, false} {
		if decide() != want {
			t.Errorf("call %d: %v", i, !want)
		}
		now = now.Add(20 * time.Second)
	}
	now = now.Add(time.Second) // the first is over a minute ago
	if !decide() || decide() {
		t.Error("the window does not move")
	}
}
