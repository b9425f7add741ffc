//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
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

// tell lets a durable run survive the deaths of two replicas, and prints the events: the calls at
// the server, the output of the commands meanwhile, and the record of the run.
func (t *trial) tell(ctx context.Context, out io.Writer) error {
	c := newCrowd(t)
	c.settle, c.over = context.WithCancel(ctx)
	defer c.over()
	if err := c.prepare(ctx); err != nil {
		return err
	}
	const key, times = "story", 8
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	client := c.sticky(0)
	defer client.Disconnect()
	got := ask(client, 1, "tools/call", runOf(toolPays, key, times, 700))
	task, ok := wire.GetString(got.result, "taskId")
	if !ok {
		return fmt.Errorf("no task: %v", got)
	}
	say("the client calls %s at replica-1, and gets a task", toolPays)
	owner := t.fleet.replicas[0]
	for n := range 2 {
		if err := t.called(ctx, key, 2+3*n); err != nil {
			return err
		}
		say("the server was called %d times; kill -9 %s", t.calledKeys(key, times), owner.name)
		before := t.goingOn()
		if err := owner.down("kill -9", syscall.SIGKILL); err != nil {
			return err
		}
		killed := owner
		if owner = t.next(ctx, before); owner == nil {
			return fmt.Errorf("no replica goes on with the run")
		}
		say("%s goes on with the run", owner.name)
		if text, err := t.command(ctx, owner, "runs", "list", "--open"); err == nil {
			fmt.Fprintf(out, "\n%s\n", text)
		}
		if n == 0 {
			if err := killed.start(ctx); err != nil {
				return err
			}
			say("%s is started again", killed.name)
		}
	}
	any := c.modern()
	defer any.Disconnect()
	var last reply
	for n := 1; ; n++ {
		last = ask(any, n, "tasks/get", fmt.Sprintf(`{"taskId":%q}`, task))
		status, _ := wire.GetString(last.result, "status")
		if status != "" && status != "working" {
			say("tasks/get at any replica: %s", status)
			break
		}
		if time.Since(began) > settleTime {
			return fmt.Errorf("the run does not end: %v", last)
		}
		pause(ctx, 200*time.Millisecond)
	}
	for i := range times {
		if n := t.fleet.ledger.count(fmt.Sprintf("%s.%d", key, i)); n != 1 {
			return fmt.Errorf("%s.%d was paid %d times", key, i, n)
		}
	}
	say("each of %d keys was paid once; %d calls came again with their idempotency key", times, t.fleet.ledger.repeated())
	result, _ := wire.Get(last.result, "result")
	text, _ := wire.Get(result, "content")
	say("the result: %s", text)
	shown, err := t.command(ctx, owner, "runs", "list", "--tool", toolPays)
	fmt.Fprintf(out, "\n%s", shown)
	return err
}

// called waits until the server was called with so many keys.
func (t *trial) called(ctx context.Context, key string, times int) error {
	for deadline := time.Now().Add(patience); t.calledKeys(key, times) < times; pause(ctx, 5*time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the server is not called")
		}
	}
	return nil
}

func (t *trial) calledKeys(key string, times int) (n int) {
	for i := range times {
		if t.fleet.ledger.count(fmt.Sprintf("%s.%d", key, i)) > 0 {
			n++
		}
	}
	return n
}

// goingOn returns how often each replica's log says that the replica goes on with a run.
func (t *trial) goingOn() []int {
	var all []int
	for _, r := range t.fleet.replicas {
		text, _ := os.ReadFile(r.log)
		all = append(all, bytes.Count(text, []byte("going on with a durable run")))
	}
	return all
}

// next waits until a replica goes on with a run; nil if none does.
func (t *trial) next(ctx context.Context, before []int) *replica {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pause(ctx, 20*time.Millisecond) {
		for i, n := range t.goingOn() {
			if n > before[i] {
				return t.fleet.replicas[i]
			}
		}
	}
	return nil
}
