//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
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

// How an upgrade ends a process. A drained process may lose nothing.
const (
	drained    = "SIGTERM after it had drained"
	notDrained = "SIGTERM after --wait, which was too short"
)

// drainWait is how long a replica may take to drain. For the first ten seconds, sessions are
// accepted.
const drainWait = "25s"

// balancerDelay bounds how long load balancers send requests to a replica that says that it is not
// ready. The delay is less than the ten seconds in which the replica still accepts all requests.
const balancerDelay = 5 * time.Second

// upgradeReplica drains a replica, ends the replica, and starts the replica again with the other
// guest.
func (t *trial) upgradeReplica(ctx context.Context, rnd *rand.Rand) {
	t.upgrade(ctx, t.fleet.replicas[rnd.IntN(size)], time.Duration(rnd.Int64N(int64(balancerDelay))))
}

// upgrade upgrades a replica. The load balancer stops sending requests at delay after the replica
// is no longer ready.
func (t *trial) upgrade(ctx context.Context, r *replica, delay time.Duration) {
	ctx = context.WithoutCancel(ctx)
	t.note("%s drains", r.name)
	var hearing sync.WaitGroup
	hearing.Go(func() {
		if t.unready(ctx, r) {
			pause(ctx, delay)
		}
		r.mu.Lock()
		r.away = true
		r.mu.Unlock()
	})
	err := t.drain(ctx, r)
	hearing.Wait()
	how := drained
	var exit *exec.ExitError
	switch {
	case err == nil:
		t.tally.note("replicas that had drained when they were ended")
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		how = notDrained
		t.tally.note("replicas that had not drained within " + drainWait + " when they were ended")
	default:
		t.tally.fail("fleet drain of %s: %v", r.name, err)
	}
	t.note("%s is ended: %s: %v", r.name, how, err)
	if err := r.down(how, syscall.SIGTERM); err != nil {
		t.tally.fail("%v", err)
	}
	r.mu.Lock()
	if r.binary == t.binary {
		r.binary = t.other
	} else {
		r.binary = t.binary
	}
	r.mu.Unlock()
	if err := r.start(ctx); err != nil {
		t.tally.fail("%v", err)
	}
}

// drain runs the command, repeatedly while the process has just been started and does not yet
// accept the command, according to the exit code.
func (t *trial) drain(ctx context.Context, r *replica) error {
	for began := time.Now(); ; pause(ctx, 200*time.Millisecond) {
		_, err := t.command(ctx, r, "fleet", "drain", "--wait", drainWait)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || time.Since(began) > patience/2 {
			return err
		}
	}
}

// unready waits until a replica says that it accepts no more sessions, and returns false if the
// replica does not say so.
func (t *trial) unready(ctx context.Context, r *replica) bool {
	for began := time.Now(); time.Since(began) < patience/2; pause(ctx, 200*time.Millisecond) {
		resp, err := probe(r, "/readyz")
		if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
			return true
		}
	}
	t.tally.fail("%s drains, and its /readyz does not say so", r.name)
	return false
}

// probe asks a replica for a page, and returns the head of the answer.
func probe(r *replica, path string) (*http.Response, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + r.address + path)
	if err != nil {
		return nil, err
	}
	return resp, resp.Body.Close()
}

// bothGuests makes sure that each guest is on a replica, if upgrades happened, so that all runs can
// end, and that the replicas say so.
func (t *trial) bothGuests(ctx context.Context) {
	if t.disturbed()["upgrade"] == 0 {
		return
	}
	first := t.fleet.replicas[0].program()
	same := true
	for _, r := range t.fleet.replicas {
		same = same && r.program() == first
	}
	if same {
		t.upgrade(ctx, t.fleet.replicas[0], 0)
	}
	for began := time.Now(); ; pause(ctx, time.Second) {
		out, err := t.command(ctx, t.fleet.replicas[0], "fleet", "status", "--json")
		var status struct {
			Replicas []struct{ State, Guest string }
		}
		if err == nil {
			err = json.Unmarshal(out, &status)
		}
		guests := map[string]bool{}
		for _, r := range status.Replicas {
			if r.State == "live" {
				guests[r.Guest] = true
			}
		}
		if len(guests) == 2 || ctx.Err() != nil {
			return
		}
		if time.Since(began) > patience {
			t.tally.fail("fleet status does not show two guests: %v: %s", err, out)
			return
		}
	}
}
