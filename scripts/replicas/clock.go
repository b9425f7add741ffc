//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// setClock sets the clock of a running replica ahead or back, by minutes or hours, or right again.
// The clock stays set when the process is started again.
func (t *trial) setClock(ctx context.Context, rnd *rand.Rand) {
	r := t.fleet.replicas[rnd.IntN(size)]
	seconds := 60 + rnd.Int64N(59*60)
	if rnd.IntN(2) == 0 {
		seconds = 3600 + rnd.Int64N(11*3600)
	}
	if rnd.IntN(2) == 0 {
		seconds = -seconds
	}
	r.mu.Lock()
	if r.ahead != 0 && rnd.IntN(2) == 0 {
		seconds = 0
	}
	r.ahead = seconds
	r.mu.Unlock()
	ahead := time.Duration(seconds) * time.Second
	t.note("the clock of %s is set: %v", r.name, ahead)
	if err := writeShift(r.clock, seconds); err != nil {
		t.tally.fail("%v", err)
	}
	if err := clockIs(ctx, r, ahead); err != nil {
		t.tally.fail("%v", err)
	}
	pause(ctx, time.Duration(500+rnd.IntN(4000))*time.Millisecond)
}

// clockIs checks, by an answer of the replica, that the replica's clock is ahead of the clock of
// this process.
func clockIs(ctx context.Context, r *replica, ahead time.Duration) error {
	for began := time.Now(); ; pause(ctx, 100*time.Millisecond) {
		resp, err := probe(r, "/healthz")
		if err == nil {
			said, bad := http.ParseTime(resp.Header.Get("Date"))
			off := time.Until(said) - ahead
			if bad == nil && off.Abs() < 20*time.Second {
				return nil
			}
			err = fmt.Errorf("the replica says %q", resp.Header.Get("Date"))
		}
		if time.Since(began) > patience/2 {
			return fmt.Errorf("the clock of %s is not ahead by %v: %w", r.name, ahead, err)
		}
	}
}
