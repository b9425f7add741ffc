//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// idleTime is how long members do nothing but report that they are alive.
const idleTime = 10 * time.Second

// membersPuts is how many changes of a document are watched by all members.
const membersPuts = 30

// measureMembers measures the cost of idle members of a fleet, how soon all members see a change of
// a document, and the number of leases that they renew in a second. The members are in this
// process, with connections of their own to the NATS servers of the fleet, whose replicas are ended
// before.
func (t *trial) measureMembers(ctx context.Context, out io.Writer) error {
	t.fleet.kill()
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "members\tidle: CPU of NATS\tof a member\tall know all after s\tchange seen by all p50 ms\tp90 ms\tlease renewals/s\t")
	for _, n := range []int{1, 3, 10, 30, 100} {
		line, err := t.members(ctx, n)
		if err != nil {
			return fmt.Errorf("%d members: %w", n, err)
		}
		fmt.Fprintln(tw, line)
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}

// members measures n of them, and returns a line of the table.
func (t *trial) members(ctx context.Context, n int) (line string, err error) {
	key, err := sealed.ParseKey(newKey())
	if err != nil {
		return "", err
	}
	ring, err := sealed.NewRing(key)
	if err != nil {
		return "", err
	}
	all := make([]*fleet.Fleet, n)
	prefix := fmt.Sprintf("members-%d", n)
	for i := range all {
		all[i] = fleet.Open(fleet.Options{
			Open: func(ctx context.Context) (store.Store, error) {
				inner, err := jetstream.Open(ctx, jetstream.Options{URLs: t.fleet.nats.URLs(), Prefix: prefix, Replicas: size, Make: jetstream.MakeNew, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					return nil, err
				}
				return sealed.New(inner, ring, prefix), nil
			},
			Ring: ring, Name: prefix, About: fleet.Info{Name: strconv.Itoa(i)}, Log: slog.New(slog.DiscardHandler),
		})
		defer all[i].Close()
	}
	began := time.Now()
	for _, f := range all {
		for len(f.Replicas()) < n {
			if time.Since(began) > 3*time.Minute {
				return "", fmt.Errorf("a member knows %d", len(f.Replicas()))
			}
			pause(ctx, 10*time.Millisecond)
		}
	}
	known := time.Since(began)
	pause(ctx, 5*time.Second) // until the machine is quiet
	servers, own := t.serversCPU(), ownCPU()
	pause(ctx, idleTime)
	servers, own = (t.serversCPU()-servers)/idleTime.Seconds(), (ownCPU()-own)/idleTime.Seconds()/float64(n)
	seen, err := watched(ctx, all)
	if err != nil {
		return "", err
	}
	renewals, err := renewed(ctx, all)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d\t%.1f%%\t%.2f%%\t%.1f\t%s\t%s\t%.0f\t", n, 100*servers, 100*own, known.Seconds(),
		ms(seen.percentile(50)), ms(seen.percentile(90)), renewals), nil
}

// watched changes a document that all members watch, and returns the times until all had seen each
// change.
func watched(ctx context.Context, all []*fleet.Fleet) (times measured, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	seen := make(chan struct{}, len(all)*(membersPuts+1))
	for _, f := range all {
		watching.Go(func() {
			for c, err := range f.Store().Watch(ctx, "bench") {
				if err != nil {
					return
				}
				if c.Ready || c.Name != "" {
					seen <- struct{}{}
				}
			}
		})
	}
	wait := func() error {
		late := time.NewTimer(patience)
		defer late.Stop()
		for range all {
			select {
			case <-seen:
			case <-late.C:
				return fmt.Errorf("a change is not seen by all within %v", patience)
			}
		}
		return nil
	}
	if err := wait(); err != nil { // all are ready
		return nil, err
	}
	var version store.Version
	for n := range membersPuts {
		start := time.Now()
		if version, err = all[0].Store().Put(ctx, store.Key{Collection: "bench", Name: "one"}, version, make([]byte, 1000+n)); err != nil {
			return nil, err
		}
		if err := wait(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}

// renewed lets all members renew leases of their own, as fast as they can, and returns how many
// they renew in a second.
func renewed(ctx context.Context, all []*fleet.Fleet) (float64, error) {
	var count atomic.Int64
	var working sync.WaitGroup
	var mu sync.Mutex
	var failed error
	began := time.Now()
	for i, f := range all {
		working.Go(func() {
			var version store.Version
			var err error
			for n := 0; time.Since(began) < scaleTime && err == nil; n++ {
				version, err = f.Store().Put(ctx, store.Key{Collection: "bench-leases", Name: strconv.Itoa(i)}, version, fmt.Appendf(nil, "%0100d", n))
				count.Add(1)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
		})
	}
	working.Wait()
	return float64(count.Load()) / time.Since(began).Seconds(), failed
}

// serversCPU returns the CPU seconds used by the NATS servers of the fleet.
func (t *trial) serversCPU() (seconds float64) {
	for _, s := range t.fleet.nats {
		seconds += cpuOf(strconv.Itoa(s.Pid()))
	}
	return seconds
}

func ownCPU() float64 { return cpuOf("self") }

// cpuOf returns the CPU seconds used by a process (proc_pid_stat(5)).
func cpuOf(pid string) float64 {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name of the command may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // ticks; Linux reports 100 in a second
}
