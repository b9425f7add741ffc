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
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
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

// goroutine is a goroutine in a text of runtime.Stack.
type goroutine struct {
	id     string
	text   string
	frames []string // calls, from the innermost, as "testing.tRunner(0xc000123500, 0x5a1b28)"
}

// goroutines returns all goroutines of this process.
func goroutines() []goroutine {
	text := make([]byte, 64<<10+runtime.NumGoroutine()*2<<10)
	for n := runtime.Stack(text, true); ; n = runtime.Stack(text, true) {
		if n < len(text) || n > 128<<20 {
			return parseStacks(string(text[:n]))
		}
		text = make([]byte, 2*len(text))
	}
}

func parseStacks(text string) []goroutine {
	var all []goroutine
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, rest, _ := strings.Cut(block, "\n")
		g := goroutine{text: block}
		g.id, _, _ = strings.Cut(strings.TrimPrefix(head, "goroutine "), " ")
		for line := range strings.Lines(rest) {
			if line[0] != '\t' && !strings.HasPrefix(line, "created by ") && !strings.HasPrefix(line, "...") {
				g.frames = append(g.frames, strings.TrimSpace(line))
			}
		}
		all = append(all, g)
	}
	return all
}

// runner returns the index of the frame of the package testing that called a test, a fuzz test or
// an example on this goroutine, or -1.
func (g goroutine) runner() int {
	for i := len(g.frames) - 1; i >= 0; i-- {
		f := g.frames[i]
		last := i == len(g.frames)-1
		if last && (strings.HasPrefix(f, "testing.tRunner(") || strings.HasPrefix(f, "testing.fRunner(")) ||
			strings.HasPrefix(f, "testing.runExample(") {
			return i
		}
	}
	return -1
}

// runsTest reports whether the goroutine runs code of a test, and does not wait for subtests or for
// a turn among parallel tests.
func (g goroutine) runsTest() bool {
	if g.runner() < 0 {
		return false
	}
	for _, f := range g.frames {
		if !strings.HasPrefix(f, "runtime.") {
			return !strings.HasPrefix(f, "testing.") && !strings.HasPrefix(f, "internal/synctest.Run(")
		}
	}
	return false
}

// test returns the name of the goroutine's test, for example TestX/case.
func (g goroutine) test() string {
	i := g.runner()
	if i < 0 {
		return ""
	}
	function, arguments, _ := strings.Cut(g.frames[i], "(")
	if function != "testing.runExample" {
		first, _, _ := strings.Cut(strings.TrimRight(arguments, ")"), ",")
		if name := nameAt(strings.TrimRight(first, "?")); name != "" {
			return name
		}
	}
	if i == 0 {
		return "a test"
	}
	function, _, _ = strings.Cut(path.Base(g.frames[i-1]), "(")
	_, function, _ = strings.Cut(function, ".")
	function, _, _ = strings.Cut(function, ".") // from TestX.func1
	return function
}

// nameAt returns the name of the *testing.T or *testing.F at an address found in a stack: nothing
// else names the running subtest. The result is "" for anything but a name. Only a process about to
// end calls nameAt.
func nameAt(address string) (name string) {
	at, err := strconv.ParseUint(address, 0, 64)
	if err != nil {
		return ""
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	p := uintptr(at)
	name = strings.Clone((*(**testing.T)(unsafe.Pointer(&p))).Name())
	if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") || strings.ContainsAny(name, "\n\x00") {
		return ""
	}
	return name
}

// fold returns the text of goroutines, with only the first of goroutines in the same place.
func fold(all []goroutine) string {
	var b strings.Builder
	same := map[string]int{}
	for _, g := range all {
		same[g.place()]++
	}
	for _, g := range all {
		n := same[g.place()]
		if n == 0 {
			continue
		}
		same[g.place()] = 0
		b.WriteString(g.text)
		if n > 1 {
			fmt.Fprintf(&b, "\n(and %d more goroutines in the same place)", n-1)
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

// place returns the stack without arguments and addresses.
func (g goroutine) place() string {
	var b strings.Builder
	_, rest, _ := strings.Cut(g.text, "\n")
	for line := range strings.Lines(rest) {
		if line[0] == '\t' {
			line, _, _ = strings.Cut(line, " +0x")
			b.WriteString(line)
		}
	}
	return b.String()
}

const (
	// ordinaryTime is the time of the work of measure on an idle machine of ordinary speed. A
	// process with a tenth of a processor runs as long at a time (10 ms of every 100), so the quota
	// shows: the work then takes 100 ms.
	ordinaryTime = 10 * time.Millisecond
	ordinaryWork = 5_500_000 // steps of measure

	// maxSlowness bounds the effect of a bad moment.
	maxSlowness = 20
)

// Slowness returns how many times longer than on an idle machine of ordinary speed work takes here,
// from 1 to 20. The first call of the process measures, for about 10 ms. A bubble of synctest
// cannot measure.
var Slowness = sync.OnceValue(measure)

// measure returns how slow the machine is now. The measure is wall time, and so includes other
// processes, quotas, and the race detector.
func measure() float64 {
	began := time.Now()
	x := uint64(began.UnixNano()) | 1
	for range ordinaryWork { // xorshift
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 { // never, but the compiler does not know
		return 0
	}
	return min(max(1, float64(time.Since(began))/float64(ordinaryTime)), maxSlowness)
}

func scaled(d time.Duration, slowness float64) time.Duration {
	return time.Duration(float64(d) * slowness)
}
