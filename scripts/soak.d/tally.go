package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// tally counts. It is safe for concurrent use.
type tally struct {
	began time.Time

	mu       sync.Mutex // guards what follows
	sessions int
	requests int
	answered int // with a result, or a JSON-RPC error
	isError  int // of those: results with isError
	refused  int // of those: JSON-RPC errors
	cancel   int // cancelled, and not answered
	left     int // not answered: the client went away
	faults   map[string]int
	crossed  int
	failures []string
	more     int                // failures that are not kept
	crashes  map[string][]crash // by kind of transport
}

// crash is the end of a server with calls under way.
type crash struct {
	what   string
	answer time.Duration // until all of the calls had their answers
	back   time.Duration // until another call succeeded
	calls  int           // that took
	last   string        // answer of those that did not
}

// maxFailures are kept to be printed.
const maxFailures = 25

// fail notes that a check has failed.
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

// cross notes that something reached the wrong session.
func (t *tally) cross(format string, args ...any) {
	t.mu.Lock()
	t.crossed++
	t.mu.Unlock()
	t.fail("crossed: "+format, args...)
}

// fault counts a fault that was made.
func (t *tally) fault(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.faults == nil {
		t.faults = map[string]int{}
	}
	t.faults[kind]++
}

// count changes numbers.
func (t *tally) count(f func(t *tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t)
}

// wrong is the number of checks that have failed.
func (t *tally) wrong() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures) + t.more
}

// baseline says that the warm-up is over. What it counted stays.
func (t *tally) baseline() {
	fmt.Printf("%6.1f s  warm; the load begins\n", time.Since(t.began).Seconds())
}

// crashed notes how long callers waited after a crash, and the next call.
func (t *tally) crashed(transport string, c crash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crashes == nil {
		t.crashes = map[string][]crash{}
	}
	t.crashes[transport] = append(t.crashes[transport], c)
}

// spread is the median and the worst of some times.
func spread(crashes []crash, of func(crash) time.Duration) (median, worst crash) {
	sorted := slices.SortedFunc(slices.Values(crashes), func(a, b crash) int { return cmp.Compare(of(a), of(b)) })
	return sorted[(len(sorted)-1)/2], sorted[len(sorted)-1]
}
