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
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
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
