package main

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	concurrency = 64 // calls at once
	rateRounds  = 3  // of each kind
	rateTime    = 400 * time.Millisecond
)

// rate has the calls per second in each round, through the binary and made
// directly.
type rate struct {
	name            string
	through, direct []float64
}

// measureRates measures in rounds, each kind right after the kind to compare with.
func measureRates(pairs []pair) ([]rate, error) {
	rates := make([]rate, len(pairs))
	for round := range rateRounds + 1 {
		for i, p := range pairs {
			direct, err := measureRate(p.direct, rateTime)
			if err != nil {
				return nil, err
			}
			through, err := measureRate(p.through, rateTime)
			if err != nil {
				return nil, err
			}
			if round == 0 {
				continue // the first round warms up
			}
			rates[i].name = p.name
			rates[i].through = append(rates[i].through, through)
			rates[i].direct = append(rates[i].direct, direct)
		}
	}
	return rates, nil
}

// measureRate makes calls from concurrency goroutines, and returns the number of calls per second.
// Each goroutine makes at least one call, so that a slow machine has a rate too.
func measureRate(k *kind, during time.Duration) (float64, error) {
	var done atomic.Int64
	var group errgroup.Group
	began := time.Now()
	for range concurrency {
		group.Go(func() error {
			for {
				if err := call(k.client, k.params, k.want); err != nil {
					return err
				}
				done.Add(1)
				if time.Since(began) >= during {
					return nil
				}
			}
		})
	}
	err := group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), err
}

// joinRates adds the rates of more to all. Both have the same kinds, unless all is empty.
func joinRates(all, more []rate) []rate {
	if all == nil {
		return more
	}
	for i := range all {
		all[i].through, all[i].direct = append(all[i].through, more[i].through...), append(all[i].direct, more[i].direct...)
	}
	return all
}

// ratio is the ratio of the medians.
func (r rate) ratio() float64 { return median(r.through) / median(r.direct) }

func rateTable(out io.Writer, rates []rate) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "throughput at %d calls at once\tcalls/s\tdirect\tratio\t\n", concurrency)
	for _, r := range rates {
		own, base := median(r.through), median(r.direct)
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\t\n", r.name, own, base, r.ratio())
	}
	w.Flush()
	fmt.Fprintln(out)
}

func median(of []float64) float64 {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
