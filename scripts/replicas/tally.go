//go:build unix

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally counts events. A tally is safe for concurrent use.
type tally struct {
	began  time.Time
	gentle bool // all faults are

	mu       sync.Mutex // guards the fields below
	kinds    map[string]*counts
	order    []string // of kinds
	faults   map[string]int
	notes    map[string]int
	keys     []keyed
	failures []string
	more     int // failures beyond maxFailures
	planted  map[string]bool
	troubles int       // current faults of the store
	calm     time.Time // end of the last fault of the store
}

// counts are the counts for a kind of request.
type counts struct {
	sent, answered int
	// excused are the losses that the table of failures allows, by fault.
	excused map[string]int
	// What must be zero.
	lost     int // neither answered nor excused
	twice    int // calls of the ledger made twice
	sessions int // sessions that ended by themselves
}

// keyed is a key of the ledger, with the expected count at the end.
type keyed struct {
	kind, key   string
	least, most int
	said        string // the client's answer, if the expectation follows from the answer
}

// maxFailures is how many failures are printed in the summary.
const maxFailures = 25

func newTally() *tally {
	return &tally{began: time.Now(), kinds: map[string]*counts{}, faults: map[string]int{}, notes: map[string]int{}, planted: map[string]bool{}}
}

// of changes the counts of a kind under the lock.
func (t *tally) of(kind string, f func(c *counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.kinds[kind]
	if c == nil {
		c = &counts{excused: map[string]int{}}
		t.kinds[kind] = c
		t.order = append(t.order, kind)
	}
	f(c)
}

func (t *tally) sent(kind string)     { t.of(kind, func(c *counts) { c.sent++ }) }
func (t *tally) answered(kind string) { t.of(kind, func(c *counts) { c.answered++ }) }

// excused counts an allowed loss, by the fault.
func (t *tally) excused(kind, fault string) {
	if strings.Contains(fault, drained) || t.gentle && !slices.ContainsFunc(gentleExcuses, func(e string) bool { return strings.Contains(fault, e) }) {
		t.lost(kind, "no fault that there was may cost this: %s", fault)
		return
	}
	t.of(kind, func(c *counts) { c.excused[fault]++ })
}

// gentleExcuses are in the excuses that need only gentle faults.
var gentleExcuses = []string{notDrained, "nobody has decided in time"}

// lost counts a loss that is not allowed.
func (t *tally) lost(kind, format string, args ...any) {
	t.of(kind, func(c *counts) { c.lost++ })
	t.fail(kind+": "+format, args...)
}

// expect says how often a key of the ledger may have been used in the end.
func (t *tally) expect(kind, key string, least, most int) { t.expectAs(kind, key, least, most, "") }

// expectAs is expect with the answer to the client, for readers of a failure.
func (t *tally) expectAs(kind, key string, least, most int, said string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = append(t.keys, keyed{kind, key, least, most, said})
}

// fault counts an injected fault.
func (t *tally) fault(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[kind]++
}

// recovery is how long the store may take to answer everybody again after a fault.
const recovery = 20 * time.Second

// trouble says that a fault begins or ends that may affect the store.
func (t *tally) trouble(store, on bool) {
	if !store {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if on {
		t.troubles++
		return
	}
	t.troubles--
	t.calm = time.Now()
}

// troubled reports whether the store may be away for a replica, or was a short while ago.
func (t *tally) troubled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.troubles > 0 || time.Since(t.calm) < recovery
}

// note counts an event that is no failure.
func (t *tally) note(event string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes[event]++
}

// plant reports, once for each mistake, whether to make the mistake now.
func (t *tally) plant(mistake string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.planted[mistake] {
		return false
	}
	t.planted[mistake] = true
	return true
}

// fail records a failed check.
func (t *tally) fail(format string, args ...any) {
	text := fmt.Sprintf("%6.1f s  ", time.Since(t.began).Seconds()) + clip(fmt.Sprintf(format, args...))
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failures) >= maxFailures {
		t.more++
		return
	}
	t.failures = append(t.failures, text)
	fmt.Fprintln(os.Stderr, "FAILED:", text)
}

// say prints an event.
func (t *tally) say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// wrong returns the number of failed checks.
func (t *tally) wrong() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures) + t.more
}

// clip shortens a message for printing.
func clip(s string) string {
	if len(s) > 1000 {
		return s[:1000] + "..."
	}
	return s
}
