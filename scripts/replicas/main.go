//go:build unix

// Command replicas runs three replicas of the binary and a NATS cluster of three as processes on
// loopback, with clients of both eras, and disturbs them at random with the faults in faults.go:
// ended and paused replicas, upgrades to another guest, moved clocks, and killed or partitioned
// NATS servers. replicas counts lost answers, calls made twice, lost sessions and lost runs, and
// fails for a loss that the table of failures in docs/fleet.md does not name. scripts/soak --fleet
// builds and runs the command; with --scale, as in scripts/bench --fleet, the command measures
// instead.
//
// Upgrades and clocks need programs built with the overlays from --overlays; see programs.go.
// Without other faults, only the possible losses of these two are excused.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

// trial is a run of this command.
type trial struct {
	binary       string
	other        string // with another guest; "" for none
	seed         uint64
	time         time.Duration
	keep         bool
	only         string
	plant        string
	scale, story bool

	dir   string // temporary
	tally *tally
	fleet *site
}

func main() {
	var t trial
	minutes := flag.Float64("minutes", 1, "duration in `MINUTES`, without start and end")
	flag.Uint64Var(&t.seed, "seed", uint64(time.Now().UnixNano()%1_000_000_000), "seed of the random choices")
	flag.StringVar(&t.binary, "binary", "mcp-metatool", "the `FILE` that replicas run")
	flag.StringVar(&t.other, "other", "", "the `FILE` that replicas run after an upgrade; both are built with overlays")
	overlays := flag.String("overlays", "", "write overlays for both files into `DIR` instead")
	flag.StringVar(&t.only, "faults", "", "only these `FAULTS`, separated by commas")
	flag.StringVar(&t.plant, "plant", "", "a `MISTAKE` that a counter must find: "+strings.Join(mistakes, ", "))
	flag.BoolVar(&t.scale, "scale", false, "measure instead: throughput of one to three replicas, the cost of a run, many members")
	flag.BoolVar(&t.story, "story", false, "kill two replicas under one durable run instead, and print what happens")
	flag.BoolVar(&t.keep, "keep", false, "keep the logs even if all checks pass")
	flag.Parse()
	if flag.NArg() > 0 || *minutes <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *overlays != "" {
		if err := writeOverlays(*overlays); err != nil {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(1)
		}
		return
	}
	if runtime.GOOS != "linux" {
		fmt.Fprintln(os.Stderr, "fleet: needs Linux: it stops and continues processes")
		os.Exit(2)
	}
	t.time = time.Duration(*minutes * float64(time.Minute))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := t.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func (t *trial) run(ctx context.Context) (ok bool, err error) {
	kinds, err := t.faultsNamed(t.only)
	if err != nil {
		return false, err
	}
	if t.dir, err = os.MkdirTemp("", "mcp-metatool-fleet-"); err != nil {
		return false, err
	}
	defer func() {
		if ok && err == nil && !t.keep {
			os.RemoveAll(t.dir)
			return
		}
		fmt.Printf("logs and configurations are in %s\n", t.dir)
	}()
	fmt.Printf("fleet: %v, seed %d, %d CPUs\n", t.time, t.seed, runtime.NumCPU())
	t.tally = newTally()
	t.tally.gentle = !slices.ContainsFunc(kinds, func(f fault) bool { return !f.gentle })
	bench := &bench{dir: t.dir}
	defer bench.end()
	// Fatal of a natstest.T must not return.
	defer func() {
		if p := recover(); p != nil {
			f, is := p.(fatal)
			if !is {
				panic(p)
			}
			ok, err = false, errors.New(string(f))
		}
	}()
	if t.fleet, err = startFleet(ctx, t, bench); err != nil {
		return false, err
	}
	defer t.fleet.kill()
	if t.scale {
		return true, t.measure(ctx, os.Stdout)
	}
	if t.story {
		return true, t.tell(ctx, os.Stdout)
	}
	crowd := newCrowd(t)
	if err := crowd.prepare(ctx); err != nil {
		return false, err
	}
	t.tally.say("the load begins")
	crowd.start(ctx)
	t.disturb(ctx, kinds)
	t.bothGuests(ctx)
	t.tally.say("the load ends")
	crowd.end()
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}
	crowd.check()
	t.summary(os.Stdout)
	return t.tally.wrong() == 0, nil
}

// bench is the natstest.T of a program.
type bench struct {
	dir  string
	no   int
	last []func()
}

// fatal is the value with which Fatal panics.
type fatal string

func (b *bench) Helper()                   {}
func (b *bench) Fatal(args ...any)         { panic(fatal(fmt.Sprint(args...))) }
func (b *bench) Fatalf(f string, a ...any) { panic(fatal(fmt.Sprintf(f, a...))) }
func (b *bench) Cleanup(f func())          { b.last = append(b.last, f) }
func (b *bench) TempDir() string {
	b.no++
	dir := fmt.Sprintf("%s/nats-%d", b.dir, b.no)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	return dir
}

// end calls the functions passed to Cleanup, the last first.
func (b *bench) end() {
	for len(b.last) > 0 {
		f := b.last[len(b.last)-1]
		b.last = b.last[:len(b.last)-1]
		f()
	}
}

// summary prints the counts and the failed checks.
func (t *trial) summary(out io.Writer) {
	c := t.tally
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(out, "\nseed %d, %.0f s\n\n", t.seed, time.Since(c.began).Seconds())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tsent\tanswered\tas the table of failures says\tLOST\tTWICE\tSESSIONS\t")
	for _, kind := range c.order {
		k := c.kinds[kind]
		n := 0
		for _, e := range k.excused {
			n += e
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", kind, k.sent, k.answered, n, k.lost, k.twice, k.sessions)
	}
	w.Flush()
	fmt.Fprintln(out, "\nfaults:")
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		fmt.Fprintf(out, "  %-18s %d\n", name, c.faults[name])
	}
	fmt.Fprintln(out, "\nwhat was lost as the table of failures says, by fault:")
	for _, kind := range c.order {
		for _, fault := range slices.Sorted(maps.Keys(c.kinds[kind].excused)) {
			fmt.Fprintf(out, "  %5d  %-28s %s\n", c.kinds[kind].excused[fault], kind, fault)
		}
	}
	if len(c.notes) > 0 {
		fmt.Fprintln(out, "\nwhat else was seen:")
	}
	for _, note := range slices.Sorted(maps.Keys(c.notes)) {
		fmt.Fprintf(out, "  %5d  %s\n", c.notes[note], note)
	}
	fmt.Fprintf(out, "\nthe ledger was asked %d times to pay what was paid already\n", t.fleet.ledger.repeated())
	if len(c.failures) == 0 {
		fmt.Fprintln(out, "ok")
		return
	}
	fmt.Fprintf(out, "FAILED: %d checks\n  %s\n", len(c.failures)+c.more, strings.Join(c.failures, "\n  "))
}

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
