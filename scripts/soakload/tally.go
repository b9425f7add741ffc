package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// tally counts events. A tally is safe for concurrent use.
type tally struct {
	began time.Time

	mu       sync.Mutex // guards the fields below
	sessions int
	requests int
	answered int // with a result, or a JSON-RPC error
	isError  int // of the answered: results with isError
	refused  int // of the answered: JSON-RPC errors
	cancel   int // cancelled, and not answered
	left     int // not answered: the client went away
	faults   map[string]int
	crossed  int
	failures []string
	more     int                // number of failures beyond maxFailures
	crashes  map[string][]crash // by kind of transport
}

// crash is the end of a server while calls were pending.
type crash struct {
	label  string
	answer time.Duration // until all pending calls were answered
	back   time.Duration // until another call succeeded
	calls  int           // number of calls up to the first success
	last   string        // the answer to the last failed call
}

// maxFailures is how many failures are printed in the summary.
const maxFailures = 25

// fail records a failed check.
func (t *tally) fail(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failures) >= maxFailures {
		t.more++
		return
	}
	text := fmt.Sprintf("%6.1f s  ", time.Since(t.began).Seconds()) + fmt.Sprintf(format, args...)
	t.failures = append(t.failures, text)
	fmt.Fprintln(os.Stderr, "FAILED:", text)
}

func (t *tally) check(ok bool, format string, args ...any) {
	if !ok {
		t.fail(format, args...)
	}
}

// cross records that a message reached the wrong session.
func (t *tally) cross(format string, args ...any) {
	t.mu.Lock()
	t.crossed++
	t.mu.Unlock()
	t.fail("crossed: "+format, args...)
}

// fault counts an injected fault.
func (t *tally) fault(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.faults == nil {
		t.faults = map[string]int{}
	}
	t.faults[kind]++
}

// count changes counts under the lock.
func (t *tally) count(f func(t *tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t)
}

// wrong returns the number of failed checks.
func (t *tally) wrong() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures) + t.more
}

// baseline prints that the warm-up is over. The counts continue.
func (t *tally) baseline() {
	fmt.Printf("%6.1f s  warm; the load begins\n", time.Since(t.began).Seconds())
}

// crashed records how long pending calls and the next call took after a crash.
func (t *tally) crashed(transport string, c crash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crashes == nil {
		t.crashes = map[string][]crash{}
	}
	t.crashes[transport] = append(t.crashes[transport], c)
}

// spread returns the crashes with the median and the longest time.
func spread(crashes []crash, of func(crash) time.Duration) (median, worst crash) {
	sorted := slices.SortedFunc(slices.Values(crashes), func(a, b crash) int { return cmp.Compare(of(a), of(b)) })
	return sorted[(len(sorted)-1)/2], sorted[len(sorted)-1]
}
