package sandbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// health has what the process holds after everything that can be freed was freed.
type health struct {
	resident    uint64
	mappings    int
	descriptors int
	goroutines  int
}

func healthNow(t *testing.T) health {
	t.Helper()
	runtime.GC() // finalizers of the first collection free more
	debug.FreeOSMemory()
	var h health
	var ok [3]bool
	h.resident, ok[0] = residentMemory()
	h.mappings, ok[1] = mappings()
	h.descriptors, ok[2] = descriptors()
	if slices.Contains(ok[:], false) {
		t.Skip("this system does not tell what a process holds")
	}
	h.goroutines = runtime.NumGoroutine()
	return h
}

func (h health) String() string {
	return fmt.Sprintf("%.1f MiB, %d mappings, %d descriptors, %d goroutines", mib(h.resident), h.mappings, h.descriptors, h.goroutines)
}

// leakSlack is how many more mappings are allowed, because the host's heap has some
// too. A leak in each run exceeds it.
const leakSlack = 12

// memoryAttacks returns the scripts that attack memory. They have as little memory as
// possible, so that many can run in a test.
func memoryAttacks(t *testing.T) (some []attack) {
	t.Helper()
	for _, a := range attacks(t) {
		if a.want == class("resource", LimitMemory) {
			a.limits.Memory = 8 << 20
			some = append(some, a)
		}
	}
	if *hostileRuns <= 30 {
		// One of each kind, or half of them; the flag selects all.
		kinds := []string{
			"memory_list_append", "memory_list_repeat", "memory_set_union", "memory_string_doubling", "memory_string_join",
			"memory_replace", "memory_split", "memory_closures", "memory_captured_by_recursion", "memory_json_decode_wide",
			"memory_json_encode_shared", "memory_result_shared", "memory_answers_kept", "memory_zip_endless_range",
		}
		if !*long {
			kinds = kinds[:len(kinds)/2]
		}
		some = slices.DeleteFunc(some, func(a attack) bool { return !slices.Contains(kinds, a.name) })
		if len(some) != len(kinds) {
			t.Fatalf("%d of %d kinds of attack", len(some), len(kinds))
		}
	}
	return some
}

// TestHostileLeaks checks that the process does not grow over many runs of each
// memory attack.
func TestHostileLeaks(t *testing.T) {
	s := realSandbox(t)
	some := memoryAttacks(t)
	several := func(t *testing.T, a attack, n int) {
		for range n {
			if out, err := a.run(context.Background(), s); classOf(out, err) != a.want {
				t.Fatalf("%s ended in %q (%v)", a.name, classOf(out, err), err)
			}
		}
	}
	for _, a := range some { // allocates what is allocated only once
		several(t, a, 1)
	}
	first := healthNow(t)
	kinds := 0 // fewer than some if -run selects
	for _, a := range some {
		t.Run(a.name, func(t *testing.T) {
			kinds++
			before := healthNow(t)
			several(t, a, *hostileRuns)
			checkHealth(t, before, healthNow(t))
		})
	}
	last := healthNow(t)
	checkHealth(t, first, last)
	t.Logf("before: %s", first)
	t.Logf("after %d runs of each of %d attacks: %s", *hostileRuns, kinds, last)
}

func checkHealth(t *testing.T, before, after health) {
	t.Helper()
	if after.resident > before.resident+before.resident/10 {
		t.Errorf("%.1f MiB in memory, more than 10 %% over the %.1f MiB before", mib(after.resident), mib(before.resident))
	}
	if after.mappings > before.mappings+leakSlack {
		t.Errorf("%d mappings, %d before", after.mappings, before.mappings)
	}
	if after.descriptors > before.descriptors {
		t.Errorf("%d open descriptors, %d before", after.descriptors, before.descriptors)
	}
	if after.goroutines > before.goroutines {
		t.Errorf("%d goroutines, %d before:\n%s", after.goroutines, before.goroutines, stackOf())
	}
}

// TestOtherRunsDuringAttacks checks that other runs return the usual results during
// attacks of all kinds.
func TestOtherRunsDuringAttacks(t *testing.T) {
	const attackers, neighbours, runs = 2, 3, 100
	s := realSandbox(t)
	alone := neighbour(t, s, runs)

	ctx, cancel := context.WithCancel(context.Background())
	all := attacks(t)
	var attackGroup, group sync.WaitGroup
	for n := range attackers {
		attackGroup.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for ctx.Err() == nil {
				a := all[random.IntN(len(all))]
				out, err := a.run(ctx, s)
				if got := classOf(out, err); got != a.want && ctx.Err() == nil {
					t.Errorf("%s ended in %q (%v, %+v), want %q", a.name, got, err, out.Err, a.want)
				}
			}
		})
	}
	crowded := make([][]time.Duration, neighbours)
	for n := range neighbours {
		group.Go(func() { crowded[n] = neighbour(t, s, runs) })
	}
	group.Wait()
	cancel()
	attackGroup.Wait()
	t.Logf("latency of a script with three tool calls: alone %s; %d at a time with %d attackers %s",
		spread(alone), neighbours, attackers, spread(slices.Concat(crowded...)))
}

// neighbour runs a harmless script several times and returns the time of each run.
func neighbour(t *testing.T, s *Sandbox, runs int) (took []time.Duration) {
	const code = `
total = 0
for i in range(3):
    page = s.echo({"page": i, "items": [{"id": n, "name": "item %d" % n} for n in range(params.n)]})
    total += len([x for x in page["items"] if x.id % 2])
return {"total": total, "n": params.n}
`
	for i := range runs {
		n := 2 * (i % 10)
		r := Run{Request: request(code, fmt.Sprintf(`{"n":%d}`, n)), Caller: &victim{}}
		start := time.Now()
		out, err := s.Run(context.Background(), r)
		took = append(took, time.Since(start))
		if want := fmt.Sprintf(`{"total":%d,"n":%d}`, 3*n/2, n); err != nil || string(out.Result) != want {
			t.Errorf("a neighbour got %s (%v, %+v), want %s", out.Result, err, out.Err, want)
		}
	}
	return took
}

// spread describes times by their median, 99th percentile and maximum.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(percent int) string { return milliseconds(sorted[(len(sorted)-1)*percent/100]) }
	return strings.Join([]string{"median " + at(50), "p99 " + at(99), "worst " + at(100)}, ", ")
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
