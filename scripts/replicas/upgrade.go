//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

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
