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
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
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
