// Command soakload runs the proxy between raw servers and raw clients of both eras (host/mcptest)
// with random faults, chosen by a seed. The checks: each request is answered exactly once or
// cancelled, no message reaches another session, memory, goroutines and descriptors do not grow,
// every upstream recovers, and no process is left. scripts/soak builds and runs the command.
//
// The proxy for HTTP is not the binary but a process of this program with a host.Host. So the
// goroutines can be counted, garbage can be collected before memory is measured, and /proc shows
// only the proxy. Clients over stdio run the binary itself, and end the binary in all the ways that
// clients can.
package main

import (
	"cmp"
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

func main() {
	mcptest.Main() // if this program is started as a server
	if len(os.Args) > 1 && os.Args[1] == hostVerb {
		if err := beHost(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "soak host:", err)
			os.Exit(1)
		}
		return
	}
	var s soak
	minutes := flag.Float64("minutes", 1, "duration in `MINUTES`, without start and end")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()%1_000_000_000), "seed of the random choices")
	flag.StringVar(&s.binary, "binary", "mcp-metatool", "the `FILE` that clients over stdio run")
	flag.BoolVar(&s.keep, "keep", false, "keep the proxy's log even if all checks pass")
	flag.Parse()
	if flag.NArg() > 0 || *minutes <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	if runtime.GOOS != "linux" {
		fmt.Fprintln(os.Stderr, "soak: needs Linux: it reads /proc")
		os.Exit(2)
	}
	s.time = time.Duration(*minutes * float64(time.Minute))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := s.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// soak is a run of the test.
type soak struct {
	binary string
	seed   uint64
	time   time.Duration
	keep   bool

	dir   string // temporary
	tally tally
	host  *hosted
	farm  *farm

	lastSession atomic.Int64 // the number of the newest session

	begin, end measurement
}

func (s *soak) run(ctx context.Context) (ok bool, err error) {
	if s.dir, err = os.MkdirTemp("", "mcp-metatool-soak-"); err != nil {
		return false, err
	}
	defer func() {
		if ok && err == nil && !s.keep {
			os.RemoveAll(s.dir)
			return
		}
		fmt.Printf("the log and the configuration are in %s\n", s.dir)
	}()
	fmt.Printf("soak: %v, seed %d, %d CPUs\n", s.time, s.seed, runtime.NumCPU())
	s.tally.began = time.Now()
	if s.farm, err = newFarm(s.dir); err != nil {
		return false, err
	}
	defer s.farm.close()
	if s.host, err = startHosted(ctx, s.dir, s.farm.config); err != nil {
		return false, err
	}
	defer s.host.kill()
	if err := s.prepare(ctx); err != nil {
		return false, err
	}

	warm := min(max(s.time/5, 8*time.Second), 40*time.Second, s.time/2)
	s.load(ctx, warm, 0)
	if s.begin, err = s.settle(ctx); err != nil {
		return false, errors.Join(err, s.host.dump())
	}
	s.tally.baseline()
	s.load(ctx, s.time-warm, 1)
	if s.end, err = s.settle(ctx); err != nil {
		return false, errors.Join(err, s.host.dump())
	}
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}
	s.compare()
	if s.tally.wrong() > 0 {
		err = s.host.dump()
	}
	s.finish()
	s.summary(os.Stdout)
	return s.tally.wrong() == 0, err
}

// load runs all clients for the duration d. Loads with different part make
// different random choices.
func (s *soak) load(ctx context.Context, d time.Duration, part uint64) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	c := newCrowd(s, part)
	c.run(ctx)
}

// Limits on growth between the two measurements.
const (
	slackGoroutines  = 3
	slackDescriptors = 3
	slackRSS         = 24 << 20 // bytes; the heap is compared, too
	slackHeap        = 4 << 20
)

// compare checks that nothing has grown.
func (s *soak) compare() {
	a, b := s.begin, s.end
	t := &s.tally
	t.check(b.Goroutines <= a.Goroutines+slackGoroutines, "goroutines grew from %d to %d", a.Goroutines, b.Goroutines)
	t.check(b.Descriptors <= a.Descriptors+slackDescriptors, "descriptors grew from %d to %d", a.Descriptors, b.Descriptors)
	t.check(b.Heap <= a.Heap+slackHeap, "the heap grew from %s to %s", megabytes(a.Heap), megabytes(b.Heap))
	t.check(b.RSS <= a.RSS+slackRSS, "RSS grew from %s to %s", megabytes(a.RSS), megabytes(b.RSS))
}

// finish ends the proxy and checks that no goroutines or processes are left.
func (s *soak) finish() {
	last, err := s.host.end()
	s.tally.check(err == nil, "the proxy did not end cleanly: %v", err)
	if err == nil {
		s.tally.check(last.Goroutines <= 4, "%d goroutines were left when the proxy had been closed", last.Goroutines)
	}
	orphans := s.farm.processes()
	for end := time.Now().Add(10 * time.Second); len(orphans) > 0 && time.Now().Before(end); orphans = s.farm.processes() {
		time.Sleep(50 * time.Millisecond)
	}
	s.tally.check(len(orphans) == 0, "processes of servers were left: %v", orphans)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// summary prints the counts and the failed checks.
func (s *soak) summary(w io.Writer) {
	t := &s.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	restarts := 0
	var names []string
	for _, u := range s.end.Upstreams {
		restarts += u.Restarts
		names = append(names, fmt.Sprintf("%s %d", u.Name, u.Restarts))
	}
	fmt.Fprintf(w, "\nseed          %d\ntime          %.0f s\n", s.seed, time.Since(t.began).Seconds())
	fmt.Fprintf(w, "sessions      %d\nrequests      %d\n", t.sessions, t.requests)
	fmt.Fprintf(w, "answered      %d, of these %d with isError, %d with a JSON-RPC error\n", t.answered, t.isError, t.refused)
	fmt.Fprintf(w, "cancelled     %d without an answer\nclient gone   %d without an answer\n", t.cancel, t.left)
	fmt.Fprintf(w, "crossed       %d\n", t.crossed)
	fmt.Fprintf(w, "RSS           %s at start, %s at end (heap %s, %s), without compiled scripts (%s, %s)\n",
		megabytes(s.begin.RSS), megabytes(s.end.RSS), megabytes(s.begin.Heap), megabytes(s.end.Heap),
		megabytes(s.begin.Prepared), megabytes(s.end.Prepared))
	fmt.Fprintf(w, "goroutines    %d at start, %d at end\n", s.begin.Goroutines, s.end.Goroutines)
	fmt.Fprintf(w, "descriptors   %d at start, %d at end\n", s.begin.Descriptors, s.end.Descriptors)
	fmt.Fprintf(w, "restarts      %d (%s)\n", restarts, strings.Join(names, ", "))
	total := 0
	for _, n := range t.faults {
		total += n
	}
	fmt.Fprintf(w, "faults        %d\n", total)
	for _, kind := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(w, "  %-36s %d\n", kind, t.faults[kind])
	}
	fmt.Fprintln(w, "from the crash of a server with 3 pending calls to the last of their answers, and to serving again:")
	for _, kind := range slices.Sorted(maps.Keys(t.crashes)) {
		answer := func(c crash) time.Duration { return c.answer }
		back := func(c crash) time.Duration { return c.back }
		fmt.Fprintf(w, "  %-12s%d crashes", kind, len(t.crashes[kind]))
		usual, worst := spread(t.crashes[kind], answer)
		fmt.Fprintf(w, "; answers: median %s, worst %s (%s)", ms(usual.answer), ms(worst.answer), worst.label)
		usual, worst = spread(t.crashes[kind], back)
		fmt.Fprintf(w, "; serving: median %s, worst %s (%s, after %d calls", ms(usual.back), ms(worst.back), worst.label, worst.calls)
		if worst.last != "" {
			fmt.Fprintf(w, ", the last: %s", worst.last)
		}
		fmt.Fprintln(w, ")")
	}
	if len(t.failures) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	fmt.Fprintf(w, "FAILED: %d checks\n", len(t.failures)+t.more)
	for _, f := range t.failures {
		fmt.Fprintln(w, "  "+f)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

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
