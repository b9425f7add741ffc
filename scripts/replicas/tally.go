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

// tally counts what happened. It is safe for concurrent use.
type tally struct {
	began  time.Time
	gentle bool // all faults are

	mu       sync.Mutex // guards what follows
	kinds    map[string]*counts
	order    []string // of kinds
	faults   map[string]int
	notes    map[string]int
	keys     []keyed
	failures []string
	more     int // failures beyond maxFailures
	planted  map[string]bool
	troubles int       // faults of the store that go on
	calm     time.Time // when the last one has ended
}

// counts are those of one kind of request.
type counts struct {
	sent, answered int
	// excused are those that were lost as the table of failures says, by the fault.
	excused map[string]int
	// What must be zero.
	lost     int // neither answered nor excused
	twice    int // calls of the ledger that were made twice
	sessions int // sessions that ended by themselves
}

// keyed is a key of the ledger, and what its count must be in the end.
type keyed struct {
	kind, key   string
	least, most int
	said        string // what the client was told, if that is why
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

// excused counts what was lost, and may be, by the fault.
func (t *tally) excused(kind, fault string) {
	if strings.Contains(fault, drained) || t.gentle && !slices.ContainsFunc(gentleExcuses, func(e string) bool { return strings.Contains(fault, e) }) {
		t.lost(kind, "no fault that there was may cost this: %s", fault)
		return
	}
	t.of(kind, func(c *counts) { c.excused[fault]++ })
}

// gentleExcuses are in the excuses that need no other faults than gentle ones.
var gentleExcuses = []string{notDrained, "nobody has decided in time"}

// lost counts what may not be lost.
func (t *tally) lost(kind, format string, args ...any) {
	t.of(kind, func(c *counts) { c.lost++ })
	t.fail(kind+": "+format, args...)
}

// expect says how often a key of the ledger may have been used in the end.
func (t *tally) expect(kind, key string, least, most int) { t.expectAs(kind, key, least, most, "") }

// expectAs is expect with what the client was told, for whoever reads about a failure.
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

// trouble says that a fault begins or ends, which the store may have.
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

// troubled reports whether the store may be away for somebody, or was a short while ago.
func (t *tally) troubled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.troubles > 0 || time.Since(t.calm) < recovery
}

// note counts something that is no failure.
func (t *tally) note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes[what]++
}

// plant reports, once for each mistake, whether it is to be made now.
func (t *tally) plant(mistake string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.planted[mistake] {
		return false
	}
	t.planted[mistake] = true
	return true
}

// fail records that a check has failed.
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

// say prints what happens.
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
