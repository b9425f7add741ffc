// Package watchdog fails a test that hangs by its name, and prints all goroutines, in every test
// binary with an import of this package. It looks at the stacks every 15 seconds, and notes how
// long each test has been running its own code: after two minutes, in proportion longer on a slow
// machine, a test hangs. With a longer -timeout of go test the limit is a fifth of the timeout;
// arguments of the package, for example -long, leave the whole -timeout to each test; HangVariable
// sets another limit. Benchmarks, fuzzing, and a test binary that serves as another program are not
// watched.
//
// No goroutine exists between two looks, so tests can count goroutines. The package imports only
// imports of package testing, so no test binary grows.
package watchdog

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// HangVariable is the name of the environment variable with the time after which a test hangs, for
// example 30s.
const HangVariable = "METATOOL_TEST_HANGS_AFTER"

const hangTime = 2 * time.Minute

// watchdog watches this process.
type watchdog struct {
	limit   time.Duration // of a test, on an ordinary machine
	every   time.Duration // between looks, if a look takes no time
	timeout time.Duration // of the process, 0 without
	mark    string        // before lines of the result, as go test -json expects
	began   time.Time

	mu     sync.Mutex
	looked time.Time
	wait   time.Duration            // until the next look
	ages   map[string]time.Duration // by the goroutine's number; "" is the time without any test
}

// stdout is the standard output of the process: an example has a pipe.
var stdout io.Writer = os.Stdout

func init() {
	if !testing.Testing() {
		return
	}
	if w := newWatchdog(os.Args[1:], os.Getenv(HangVariable)); w != nil {
		w.began = time.Now()
		w.looked = w.began
		time.AfterFunc(w.every, w.look)
		if w.timeout > 0 {
			time.AfterFunc(w.timeout-w.timeout/30, w.end)
		}
	}
}

// newWatchdog returns nil for an unwatched process.
func newWatchdog(args []string, hangs string) *watchdog {
	w := &watchdog{limit: hangTime}
	watched, own := false, false
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case slices.Contains([]string{"-test.bench", "-test.fuzz", "-test.fuzzworker"}, name) && value != "":
			return nil
		case name == "-test.fuzzworker":
			return nil
		case name == "-test.timeout":
			w.timeout, _ = time.ParseDuration(value)
		case name == "-test.v" && value == "test2json":
			w.mark = "\x16"
		}
		if strings.HasPrefix(name, "-test.") {
			watched = true
		} else {
			own = true
		}
	}
	if !watched {
		return nil
	}
	w.limit = max(w.limit, w.timeout/5)
	if own {
		w.limit = math.MaxInt64 / (2 * maxSlowness)
	}
	if d, err := time.ParseDuration(hangs); err == nil && d > 0 {
		w.limit = d
	}
	w.every = min(w.limit, hangTime) / 8
	w.wait = w.every
	return w
}

// look finds hanging tests, and schedules the next look.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	step := min(now.Sub(w.looked), 2*w.wait) // a process stopped meanwhile does not hang
	w.looked = now
	all := goroutines()
	running := slices.DeleteFunc(slices.Clone(all), func(g goroutine) bool { return !g.runsTest() })
	if len(running) == 0 {
		running = []goroutine{{}}
	}
	ages := map[string]time.Duration{}
	var late []goroutine
	for _, g := range running {
		if age, seen := w.ages[g.id]; seen {
			ages[g.id] = age + step
		} else {
			ages[g.id] = 0
		}
		if ages[g.id] >= w.limit {
			late = append(late, g)
		}
	}
	w.ages = ages
	if len(late) > 0 {
		limit := scaled(w.limit, measure())
		late = slices.DeleteFunc(late, func(g goroutine) bool { return ages[g.id] < limit })
		if len(late) > 0 {
			w.fail(all, late, fmt.Sprintf("hangs: it has been running for more than %v", limit.Round(time.Second)))
		}
	}
	w.wait = min(max(w.every, 100*time.Since(now)), 4*w.every)
	time.AfterFunc(w.wait, w.look)
}

// end fails the running tests shortly before go test would end the process without a report.
func (w *watchdog) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := goroutines()
	running := slices.DeleteFunc(slices.Clone(all), func(g goroutine) bool { return !g.runsTest() })
	w.fail(all, running, fmt.Sprintf("is running when the package's -timeout, %v, is nearly over", w.timeout))
}

// fail reports tests as failed, and ends the process.
func (w *watchdog) fail(all, tests []goroutine, why string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nwatchdog: the goroutines after %v:\n\n%s", time.Since(w.began).Round(time.Second), fold(all))
	for _, g := range tests {
		if g.id == "" {
			fmt.Fprintf(&b, "watchdog: no test has been running for %v: what comes before or after the tests hangs\n", w.ages[""].Round(time.Second))
			continue
		}
		name := g.test()
		for i, depth := 0, 0; i < len(name); depth++ { // TestX, then TestX/case
			if n := strings.IndexByte(name[i+1:], '/'); n >= 0 {
				i += 1 + n
			} else {
				i = len(name)
			}
			fmt.Fprintf(&b, "%s%s--- FAIL: %s (%.2fs)\n", w.mark, strings.Repeat("    ", depth), name[:i], w.ages[g.id].Seconds())
		}
		fmt.Fprintf(&b, "    watchdog: %s %s\n\t%s\n", name, why, strings.ReplaceAll(g.text, "\n", "\n\t"))
	}
	fmt.Fprintf(&b, "%sFAIL\n", w.mark)
	_, _ = io.WriteString(stdout, b.String())
	os.Exit(1)
}
