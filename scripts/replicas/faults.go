//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault is a disturbance of the fleet.
type fault struct {
	name string
	// of names the disturbed part. Each part has at most one fault at a time.
	of   string
	make func(t *trial, ctx context.Context, rnd *rand.Rand)
	// gentle faults lose nothing. They need a program with overlays.
	gentle bool
}

const (
	ofReplicas = "replicas"
	ofServers  = "NATS"
)

// ofStore reports whether the store can be away for a replica during the fault.
func (f fault) ofStore() bool { return f.of == ofServers || f.name == "cut" }

var faults = []fault{
	{"kill", ofReplicas, func(t *trial, ctx context.Context, rnd *rand.Rand) {
		t.endReplica(ctx, rnd, "kill -9", syscall.SIGKILL)
	}, false},
	{"term", ofReplicas, func(t *trial, ctx context.Context, rnd *rand.Rand) {
		t.endReplica(ctx, rnd, "SIGTERM", syscall.SIGTERM)
	}, false},
	{"pause", ofReplicas, (*trial).pauseReplica, false},
	{"cut", ofReplicas, (*trial).cutReplica, false},
	{"upgrade", ofReplicas, (*trial).upgradeReplica, true},
	{"clock", ofReplicas, (*trial).setClock, true},
	{"nats-kill", ofServers, (*trial).killServer, false},
	{"nats-partition", ofServers, (*trial).partition, false},
	{"nats-all", ofServers, (*trial).killServers, false},
}

// faultsNamed returns the faults with these names, and for "" all possible faults.
func (t *trial) faultsNamed(names string) ([]fault, error) {
	var some []fault
	if names == "" {
		for _, f := range faults {
			if !f.gentle || t.other != "" {
				some = append(some, f)
			}
		}
		return some, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("unknown fault %q", name)
		case faults[i].gentle && t.other == "":
			return nil, fmt.Errorf("the fault %s needs programs built with overlays (scripts/soak --fleet builds them; see --other)", name)
		}
		some = append(some, faults[i])
	}
	return some, nil
}

// disturb makes faults until the time is over, and leaves the fleet whole.
func (t *trial) disturb(ctx context.Context, kinds []fault) {
	ctx, cancel := context.WithTimeout(ctx, t.time)
	defer cancel()
	var all sync.WaitGroup
	for n, of := range []string{ofReplicas, ofServers} {
		mine := slices.DeleteFunc(slices.Clone(kinds), func(f fault) bool { return f.of != of })
		if len(mine) == 0 {
			continue
		}
		rnd := rand.New(rand.NewPCG(t.seed, 1000+uint64(n)))
		all.Go(func() {
			var turn []int
			for ; ctx.Err() == nil; pause(ctx, time.Duration(500+rnd.IntN(3000))*time.Millisecond) {
				if len(turn) == 0 {
					turn = rnd.Perm(len(mine)) // each as often as the others
				}
				f := mine[turn[0]]
				turn = turn[1:]
				t.tally.fault(f.name)
				t.tally.trouble(f.ofStore(), true)
				t.note("%s begins", f.name)
				f.make(t, ctx, rnd)
				t.note("%s is over", f.name)
				t.tally.trouble(f.ofStore(), false)
			}
		})
	}
	<-ctx.Done()
	all.Wait()
}

// note writes a line into the file about faults, next to the logs, for readers in search of the
// cause of a failure.
func (t *trial) note(format string, args ...any) {
	f, err := os.OpenFile(filepath.Join(t.dir, "faults.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, time.Now().UTC().Format("time=2006-01-02T15:04:05.000Z"), fmt.Sprintf(format, args...))
}

// disturbed returns the number of faults by name.
func (t *trial) disturbed() map[string]int {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	now := map[string]int{}
	for name, n := range t.tally.faults {
		now[name] = n
	}
	return now
}

// disturbedSince names the faults since then that end calls.
func (t *trial) disturbedSince(then map[string]int) string {
	now := t.disturbed()
	for _, name := range []string{"kill", "term", "pause", "cut", "nats-kill", "nats-partition", "nats-all"} {
		if now[name] > then[name] {
			return name
		}
	}
	return "without a fault"
}

// endReplica ends a replica and starts the replica again.
func (t *trial) endReplica(ctx context.Context, rnd *rand.Rand, fault string, signal syscall.Signal) {
	r := t.fleet.replicas[rnd.IntN(size)]
	t.note("%s of %s", fault, r.name)
	if err := r.down(fault, signal); err != nil {
		t.tally.fail("%v", err)
	}
	pause(ctx, time.Duration(rnd.IntN(3000))*time.Millisecond)
	if err := r.start(context.WithoutCancel(ctx)); err != nil {
		t.tally.fail("%v", err)
	}
}

// pauseReplica stops a replica for some time, so that others take the replica for dead, or not yet.
func (t *trial) pauseReplica(ctx context.Context, rnd *rand.Rand) {
	r := t.fleet.replicas[rnd.IntN(size)]
	t.note("%s is paused", r.name)
	_ = r.pause(true)
	pause(ctx, time.Duration(200+rnd.IntN(20_000))*time.Millisecond)
	_ = r.pause(false)
}

// cutReplica cuts a replica off from NATS.
func (t *trial) cutReplica(ctx context.Context, rnd *rand.Rand) {
	quiet := rnd.IntN(2) == 0
	n := rnd.IntN(size)
	t.note("replica %d is cut off, quietly: %t", n+1, quiet)
	proxies := t.fleet.to[n]
	for _, p := range proxies {
		if quiet {
			p.Silence(true)
		} else {
			p.Refuse(true)
		}
	}
	pause(ctx, time.Duration(200+rnd.IntN(15_000))*time.Millisecond)
	for _, p := range proxies {
		p.Silence(false)
		p.Refuse(false)
		if quiet {
			p.Cut()
		}
	}
}

// killServer kills a NATS server and starts the server again.
func (t *trial) killServer(ctx context.Context, rnd *rand.Rand) {
	s := t.fleet.nats[rnd.IntN(size)]
	s.Kill()
	pause(ctx, time.Duration(rnd.IntN(6000))*time.Millisecond)
	s.Start(t.fleet.bench)
	pause(ctx, 3*time.Second) // the server catches up
}

// partition cuts a NATS server off from the others.
func (t *trial) partition(ctx context.Context, rnd *rand.Rand) {
	n, quiet := rnd.IntN(size), rnd.IntN(2) == 0
	t.note("NATS server %d is cut off, quietly: %t", n+1, quiet)
	t.fleet.network.Isolate(n, quiet)
	pause(ctx, time.Duration(1000+rnd.IntN(12_000))*time.Millisecond)
	t.fleet.network.Heal()
	pause(ctx, 3*time.Second)
}

// killServers kills all NATS servers at once: the store is away.
func (t *trial) killServers(ctx context.Context, rnd *rand.Rand) {
	for _, s := range t.fleet.nats {
		s.Kill()
	}
	pause(ctx, time.Duration(rnd.IntN(5000))*time.Millisecond)
	t.fleet.nats.Start(t.fleet.bench)
	pause(ctx, 3*time.Second)
}
