package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// Flags for how thorough the tests of hostile scripts are. By default they check that
// everything works; for figures worth quoting:
//
//	go test ./host/script/sandbox -run Hostile -v -hostile.table -hostile.runs 1000 -hostile.stops 1000
//
// With -long, which .ci/run sets, TestHostile, TestDeterminism and TestPreparedCorpus run every
// script and TestStartState more rounds.
var (
	long         = flag.Bool("long", false, "run the tests that take minutes in full")
	hostileTable = flag.Bool("hostile.table", false, "print the outcome and the cost of each hostile script")
	hostileRuns  = flag.Int("hostile.runs", 3, "runs of each memory attack between two looks at the process")
	hostileStops = flag.Int("hostile.stops", 100, "hostile runs to be stopped, and timed")
)

// maxNative is how much memory of the host, in addition to the guest's, a deep stack
// may use.
const maxNative = 32 << 20

// TestHostile checks that every script of the corpus, or every eighth one of each category
// without -long, ends as its header says, within its limits, and that the sandbox still works
// afterwards.
func TestHostile(t *testing.T) {
	s := realSandbox(t)
	all := attacks(t)
	if !*long {
		all = someOfEach(all)
	}
	rows := make([]string, 0, len(all))
	classes := map[string]int{}
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			deep := slices.Contains([]string{"recursion", "deep", "cycle", "source"}, a.category())
			native := peakOf(*hostileTable || deep)
			start := time.Now()
			out, err := a.run(context.Background(), s)
			took := time.Since(start)
			extra := native(out.Memory)

			got := classOf(out, err)
			classes[got]++
			rows = append(rows, fmt.Sprintf("%-34s %-20s %8.1f %6.1f %6s %12d", a.name, got, took.Seconds()*1000, mib(out.Memory), extra, out.Fuel))
			if got != a.want {
				t.Errorf("ended in %q (%v, %+v), want %q", got, err, out.Err, a.want)
			}
			checkWithin(t, a, out, err)
			if deep && extra.known && extra.bytes > maxNative {
				t.Errorf("%s MiB of the host's memory in addition to the guest's, more than %d", extra, maxNative>>20)
			}
		})
	}
	out, err := s.Run(context.Background(), Run{Request: request("return s.echo({'n': 1}).n", "{}"), Caller: &victim{}})
	if err != nil || string(out.Result) != "1" {
		t.Errorf("after all that a script gives %s (%v, %+v)", out.Result, err, out.Err)
	}
	if *hostileTable {
		t.Logf("%-34s %-20s %8s %6s %6s %12s\n%s", "script", "ends in", "ms", "MiB", "host", "fuel", strings.Join(rows, "\n"))
	}
	names := make([]string, 0, len(classes))
	for name, n := range classes {
		names = append(names, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(names)
	t.Logf("%d scripts: %s", len(all), strings.Join(names, ", "))
}

// someOfEach returns every eighth attack of each category, beginning with the first.
func someOfEach(all []attack) []attack {
	var some []attack
	seen := map[string]int{}
	for _, a := range all {
		if seen[a.category()]++; seen[a.category()]%8 == 1 {
			some = append(some, a)
		}
	}
	return some
}

// category returns the first word of the script's name.
func (a attack) category() string {
	word, _, _ := strings.Cut(a.name, "_")
	return word
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

// checkWithin checks that the figures of a run are within its limits, and that a
// client can read its outcome.
func checkWithin(t *testing.T, a attack, out Outcome, err error) {
	t.Helper()
	if out.Memory > a.limits.Memory {
		t.Errorf("%d bytes of memory, more than %d", out.Memory, a.limits.Memory)
	}
	if out.Fuel > a.limits.Fuel {
		t.Errorf("%d units of fuel, more than %d", out.Fuel, a.limits.Fuel)
	}
	if out.Calls > a.limits.Calls {
		t.Errorf("%d calls, more than %d", out.Calls, a.limits.Calls)
	}
	if len(out.Result) > a.limits.Result {
		t.Errorf("a result of %d bytes, more than %d", len(out.Result), a.limits.Result)
	}
	if (out.Result != nil) != (err == nil && out.Err == nil) {
		t.Errorf("result %.80q with %v, %+v", out.Result, err, out.Err)
	}
	if out.Result != nil && !json.Valid(out.Result) {
		t.Errorf("result %.80q", out.Result)
	}
	if out.Err != nil {
		message, err := json.Marshal(out.Err)
		if err != nil || len(message) > 2*a.limits.Result {
			t.Errorf("an error of %d bytes, %v", len(message), err)
		}
	}
	if err != nil && len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes: %.200s", len(err.Error()), err)
	}
}

// nativePeak returns the peak memory of the process, without the guest's memory. It is
// unknown on some systems, and not measured under the race detector.
type nativePeak struct {
	bytes uint64
	known bool
}

func (p nativePeak) String() string {
	if !p.known {
		return "-"
	}
	return fmt.Sprintf("%.1f", mib(p.bytes))
}

// peakOf starts a measurement; the function that it returns ends it.
func peakOf(wanted bool) func(guest uint64) nativePeak {
	if !wanted || raceEnabled {
		return func(uint64) nativePeak { return nativePeak{} }
	}
	debug.FreeOSMemory()
	before, ok := resetPeak()
	return func(guest uint64) nativePeak {
		after, ok2 := peakMemory()
		p := nativePeak{known: ok && ok2}
		if after > before+guest {
			p.bytes = after - before - guest
		}
		return p
	}
}

// TestHostileExpand checks that the corpus is expanded correctly.
func TestHostileExpand(t *testing.T) {
	got, err := expand("a@{(*3}b@{x\\n*2}@{\\xff*1}*2}")
	if want := "a(((bx\nx\n\xff*2}"; got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	a := attack{code: "# want: resource memory\n# limits: memory=3MiB calls=7 deadline=5ms fuel=2M\nx"}
	if err := a.header(); err != nil || a.limits.Memory != 3<<20 || a.limits.Calls != 7 || a.limits.Fuel != 2_000_000 || a.deadline != 5*time.Millisecond {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{"x", "# want: internal\n", "# want: resource\n", "# want: ok\n# limits: speed=1\n", "# want: ok\n# limits: calls=x\n"} {
		if err := (&attack{code: bad}).header(); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// stackOf returns the stacks of all goroutines, for messages about leaked ones.
func stackOf() string {
	buf := make([]byte, 1<<20)
	return string(bytes.TrimSpace(buf[:runtime.Stack(buf, true)]))
}
