package policy

import (
	"encoding/json"
	"math/big"
	"sync"
	"testing"
	"time"
)

// FuzzArguments checks that numbers have the value with which they are written.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{"0", "-0", "1e400", "9007199254740993", "9007199254740993.0", "18446744073709551616", "0.1", "1E-7", "-1.50e+3", "1e9999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var number json.Number
		if json.Unmarshal([]byte(text), &number) != nil || number == "" || len(text) > 400 {
			return
		}
		a, err := parseArguments([]byte(`{"n":` + number.String() + `}`))
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(number.String())
		if !ok {
			t.Fatalf("%s is accepted", text)
		}
		got := new(big.Rat)
		switch n := a.object["n"].(type) {
		case int64:
			got.SetInt64(n)
		case uint64:
			got.SetUint64(n)
		case float64: // stands for its shortest decimal, as everywhere
			raw, _ := json.Marshal(n)
			got.SetString(string(raw))
		}
		if got.Cmp(want) != 0 {
			t.Errorf("%s is %s", text, got)
		}
	})
}

// TestLimitsAreNotOvertaken checks that calls at the same time do not get past a counter, and
// that a call which is decided about again is counted once.
func TestLimitsAreNotOvertaken(t *testing.T) {
	e := NewEngine(compile(t, Allow, Rule{Name: "ten", Tools: []string{"a.b"}, When: "calls.run >= 10", Action: Deny}), time.Now)
	run, session := &History{}, &History{}
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
	if got := run.at(call{}).calls; n != 10 || got != 10 {
		t.Errorf("%d allowed, %d counted, want 10", n, got)
	}
}

// TestCountedOnce checks that a call which is sent again counts once, also if the policy was
// replaced between.
func TestCountedOnce(t *testing.T) {
	rule := Rule{Name: "one", Tools: []string{"a.b"}, When: "calls.session > 1", Action: Deny}
	e := NewEngine(compile(t, Allow, rule), time.Now)
	r := tool("a", "b", "")
	r.Commit, r.Caller.SessionCalls = true, &History{}
	for range 3 {
		d := e.Decide(r)
		if !d.Allowed() {
			t.Fatal(d)
		}
		r.Before = &d
		e.SetPolicy(compile(t, Allow, rule))
	}
	if n := r.Caller.SessionCalls.at(call{}).calls; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestCallsPerMinute checks that reconnecting does not help, and that the window moves.
func TestCallsPerMinute(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	e := NewEngine(compile(t, Allow, Rule{Name: "two", When: "calls.tool.minute >= 2", Action: Deny}), func() time.Time { return now })
	decide := func() bool {
		r := tool("a", "b", "")
		r.Commit, r.Caller.SessionCalls = true, &History{} // a session of its own
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
