//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

const (
	scaleRounds  = 3
	scaleClients = 16 // calls at once
	scaleTime    = 3 * time.Second
	scaleRuns    = 40 // of each kind and store, one at a time
)

// work is a measured kind of call.
type work struct {
	name   string
	params func(key string) string
}

var works = []work{
	{"proxied call", func(key string) string { return charge("ledger__quick", key, 0) }},
	{"composite, 3 calls", func(key string) string { return runOf("fleet_quick", key, 3, 0) }},
	{"durable, 3 calls", func(key string) string { return runOf("fleet_quick_durable", key, 3, 0) }},
}

// measured are the times of calls, in any order.
type measured []time.Duration

func (m measured) percentile(p int) time.Duration {
	if len(m) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m))
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// measure measures, and prints the results.
func (t *trial) measure(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d CPUs for everything: replicas, NATS, server and clients\n\n", runtime.NumCPU())
	c := newCrowd(t)
	savedTools = append(savedTools, quickTools...)
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := t.measureReplicas(ctx, out, c); err != nil {
		return err
	}
	if err := t.measureRuns(ctx, out, c); err != nil {
		return err
	}
	return t.measureMembers(ctx, out)
}

// measureReplicas compares one, two and three replicas, in turns: other load on the machine affects
// all of them alike.
func (t *trial) measureReplicas(ctx context.Context, out io.Writer, c *crowd) error {
	times, rates := map[string]measured{}, map[string][]float64{}
	for round := range scaleRounds + 1 {
		for _, w := range works {
			for n := 1; n <= size; n++ {
				c.balancer.most.Store(int32(n))
				took, rate, err := c.load(ctx, w)
				if err != nil {
					return fmt.Errorf("%s with %d replicas: %w", w.name, n, err)
				}
				if round == 0 {
					continue // the first round warms up
				}
				name := fmt.Sprintf("%s %d", w.name, n)
				times[name], rates[name] = append(times[name], took...), append(rates[name], rate)
			}
		}
	}
	c.balancer.most.Store(size)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%d at once\treplicas\tcalls/s\tagainst one\tp50 ms\tp90 ms\t\n", scaleClients)
	for _, w := range works {
		one := middle(rates[w.name+" 1"])
		for n := 1; n <= size; n++ {
			name := fmt.Sprintf("%s %d", w.name, n)
			rate := middle(rates[name])
			fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.2f\t%s\t%s\t\n", w.name, n, rate, rate/one, ms(times[name].percentile(50)), ms(times[name].percentile(90)))
		}
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}

func middle(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

// load makes calls from many clients, and returns the time of each and the number in a second.
func (c *crowd) load(ctx context.Context, w work) (all measured, rate float64, err error) {
	var mu sync.Mutex
	var working sync.WaitGroup
	began := time.Now()
	for no := range scaleClients {
		working.Go(func() {
			client := c.modern()
			defer client.Disconnect()
			var mine measured
			var failed error
			for n := 1; time.Since(began) < scaleTime && ctx.Err() == nil; n++ {
				start := time.Now()
				got := await(client, client.Start(strconv.Itoa(n), "tools/call", mcptest.Envelope{}.Params(w.params(fmt.Sprintf("q%d.%d", no, n)))))
				if !got.ok() {
					failed = errors.New(got.String())
					break
				}
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all, err = append(all, mine...), errors.Join(err, failed)
		})
	}
	working.Wait()
	return all, float64(len(all)) / time.Since(began).Seconds(), err
}

// measureRuns compares runs of ten calls, durable and not, with a store in files, in one NATS
// server, and in three, one at a time and in turns.
func (t *trial) measureRuns(ctx context.Context, out io.Writer, c *crowd) error {
	f := t.fleet
	single := natstest.Start(f.bench)
	for _, alone := range []struct{ name, store string }{
		{"files", ""}, {"jetstream-1", inNATS(newKey(), 1, single.URL())},
	} {
		r, err := f.newReplica(len(f.replicas), alone.name, alone.store)
		if err != nil {
			return err
		}
		f.replicas = append(f.replicas, r)
		if err := r.start(ctx); err != nil {
			return err
		}
		if err := c.prepareReplica(ctx, r); err != nil {
			return err
		}
	}
	stores := []struct {
		name    string
		replica int
	}{{"files", size}, {"JetStream, 1 server", size + 1}, {"JetStream, 3 servers", 0}}
	times := map[string]measured{}
	for n := range scaleRuns + 5 {
		for _, s := range stores {
			client := c.sticky(s.replica)
			for i, tool := range []string{"fleet_quick", "fleet_quick_durable"} {
				start := time.Now()
				got := await(client, client.Start(strconv.Itoa(i+1), "tools/call", mcptest.Envelope{}.Params(runOf(tool, fmt.Sprintf("w%d", n), 10, 0))))
				if !got.ok() {
					client.Disconnect()
					return fmt.Errorf("%s with %s: %v", tool, s.name, got)
				}
				if n >= 5 {
					times[s.name+tool] = append(times[s.name+tool], time.Since(start))
				}
			}
			client.Disconnect()
		}
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "run of 10 calls\tp50 ms\tdurable p50 ms\tadded ms\tadded per call ms\t")
	for _, s := range stores {
		plain, durable := times[s.name+"fleet_quick"].percentile(50), times[s.name+"fleet_quick_durable"].percentile(50)
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t\n", s.name, ms(plain), ms(durable), ms(durable-plain), ms((durable-plain)/10))
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}
