package watchdog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hangVariable says how this binary hangs when it is a child of TestWatchdog.
const hangVariable = "METATOOL_TEST_HANG"

func TestMain(m *testing.M) {
	if os.Getenv(hangVariable) == "" {
		_ = flag.Set("test.parallel", "8") // parallel tests wait for children that sleep
	}
	code := m.Run()
	if os.Getenv(hangVariable) == "after the tests" {
		forever()
	}
	os.Exit(code)
}

// hangs has the ways to hang, and the lines that the watchdog must print.
var hangs = map[string]struct {
	hang func(t *testing.T)
	want []string
}{
	"sleep":    {func(*testing.T) { forever() }, []string{"--- FAIL: TestHang"}},
	"mutex":    {func(*testing.T) { var mu sync.Mutex; mu.Lock(); mu.Lock() }, []string{"--- FAIL: TestHang"}},
	"busyLoop": {func(*testing.T) { busyLoop() }, []string{"--- FAIL: TestHang"}},
	"read":     {func(t *testing.T) { read(t) }, []string{"--- FAIL: TestHang"}},
	"subtest": {
		func(t *testing.T) {
			t.Run("outer", func(t *testing.T) { t.Run("a case", func(*testing.T) { forever() }) })
		},
		[]string{"--- FAIL: TestHang", "    --- FAIL: TestHang/outer", "        --- FAIL: TestHang/outer/a_case"},
	},
	"parallel": {
		func(t *testing.T) {
			for _, name := range []string{"quick", "stuck", "waits"} { // with -parallel 1, in any order
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					if name == "stuck" {
						forever()
					}
				})
			}
		},
		[]string{"--- FAIL: TestHang", "    --- FAIL: TestHang/stuck"},
	},
	"cleanup": {func(t *testing.T) { t.Cleanup(forever) }, []string{"--- FAIL: TestHang"}},
	"bubble": {
		func(t *testing.T) { synctest.Test(t, func(t *testing.T) { read(t) }) },
		[]string{"--- FAIL: TestHang"},
	},
	"bubbleTime": { // its time goes on for ever
		func(t *testing.T) { synctest.Test(t, func(*testing.T) { forever() }) },
		[]string{"--- FAIL: TestHang"},
	},
	"many": {
		func(t *testing.T) {
			for range 5000 {
				go forever()
			}
			forever()
		},
		[]string{"--- FAIL: TestHang"},
	},
	"after the tests": {func(*testing.T) {}, []string{"watchdog: no test has been running"}},
}

func forever() {
	for {
		time.Sleep(time.Minute)
	}
}

func busyLoop() {
	for x := 0; ; x++ {
	}
}

// read waits for a peer that says nothing, which does not block a bubble durably.
func read(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = l.Accept()
}

// TestHang hangs in a child of TestWatchdog.
func TestHang(t *testing.T) {
	way := os.Getenv(hangVariable)
	if way == "" {
		t.Skip("it hangs: TestWatchdog runs it")
	}
	hangs[way].hang(t)
}

// child returns a run of TestHang.
func child(way string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestHang$", "-test.parallel=1"}, args...)...)
	cmd.Env = append(os.Environ(), hangVariable+"="+way, HangVariable+"=300ms")
	return cmd
}

// TestWatchdog checks that a test that hangs fails by its name, with all goroutines.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	seconds := regexp.MustCompile(` \([0-9.]+s\)$`)
	for way, test := range hangs {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			out, err := child(way).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("%v:\n%s", err, out)
			}
			var failed []string
			for line := range strings.Lines(string(out)) {
				line = strings.TrimRight(line, "\n")
				if strings.HasPrefix(strings.TrimSpace(line), "--- FAIL: ") {
					failed = append(failed, seconds.ReplaceAllString(line, ""))
				} else if strings.HasPrefix(line, "watchdog: no test") {
					failed = append(failed, strings.SplitAfter(line, "running")[0])
				}
			}
			if got, want := strings.Join(failed, "\n"), strings.Join(test.want, "\n"); got != want {
				t.Errorf("it says\n%s\nand should say\n%s\nin\n%s", got, want, out)
			}
			for _, want := range []string{"goroutine 1 [", "watchdog.TestMain("} {
				if !bytes.Contains(out, []byte(want)) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			// How many have begun depends on the machine; TestFold counts them.
			if way == "many" && (!regexp.MustCompile(`[0-9]{3,4} more goroutines in the same place`).Match(out) || len(out) > 50_000) {
				t.Errorf("%d bytes about many goroutines:\n%s", len(out), out)
			}
		})
	}
}

// TestFold checks that of goroutines in the same place only one is shown, and the others are counted.
func TestFold(t *testing.T) {
	block := make(chan bool)
	var ended sync.WaitGroup
	for range 5000 {
		ended.Go(func() { <-block })
	}
	waiting := func(g goroutine) bool {
		return strings.Contains(g.text, "[chan receive") && strings.Contains(g.text, "TestFold.func1")
	}
	var all []goroutine
	for len(all) < 5000 { // until all wait
		runtime.Gosched()
		all = slices.DeleteFunc(goroutines(), func(g goroutine) bool { return !waiting(g) })
	}
	text := fold(all)
	close(block)
	ended.Wait()
	if !strings.HasSuffix(strings.TrimSpace(text), "(and 4999 more goroutines in the same place)") || len(text) > 2000 {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
}

// TestWatchdogTimeout checks that the test that runs when the package's time is over is named,
// and that go test -json knows it.
func TestWatchdogTimeout(t *testing.T) {
	t.Parallel()
	cmd := child("subtest", "-test.timeout=3s", "-test.v=test2json")
	cmd.Env = append(cmd.Env, HangVariable+"=1h")
	out, err := cmd.Output()
	if err == nil || !bytes.Contains(out, []byte("is running when the package's -timeout, 3s, is nearly over")) {
		t.Fatalf("%v:\n%s", err, out)
	}
	convert := exec.Command("go", "tool", "test2json")
	convert.Stdin = bytes.NewReader(out)
	events, err := convert.Output()
	if err != nil {
		t.Fatal(err)
	}
	failed := ""
	for dec := json.NewDecoder(bufio.NewReader(bytes.NewReader(events))); ; {
		var e struct{ Action, Test string }
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if e.Action == "fail" && e.Test != "" {
			failed += e.Test + " "
		}
	}
	if failed != "TestHang/outer/a_case TestHang/outer TestHang " {
		t.Errorf("failed according to test2json: %s\n%s", failed, events)
	}
}

func TestNewWatchdog(t *testing.T) {
	const never = math.MaxInt64 / (2 * maxSlowness)
	for _, c := range []struct {
		args, hangs string
		limit       time.Duration // 0: not watched
	}{
		{"", "", 0},
		{"serve --config x", "", 0},
		{"-test.paniconexit0 -test.timeout=10m0s", "", 2 * time.Minute},
		{"-test.timeout=10s", "", 2 * time.Minute},
		{"-test.timeout=0s", "", 2 * time.Minute},
		{"-test.timeout=30m0s", "", 6 * time.Minute},
		{"-test.timeout=30m0s", "3s", 3 * time.Second},
		{"-test.timeout=30m0s", "soon", 6 * time.Minute},
		{"-test.timeout=10m0s -long", "", never},
		{"-test.timeout=10m0s -test.bench=.", "", 0},
		{"-test.timeout=10m0s -test.fuzz=FuzzX", "", 0},
		{"-test.timeout=10m0s -test.fuzzworker", "", 0},
	} {
		w := newWatchdog(strings.Fields(c.args), c.hangs)
		switch {
		case w == nil && c.limit != 0, w != nil && w.limit != c.limit:
			t.Errorf("%s with %q: %+v", c.args, c.hangs, w)
		case w != nil && (w.every <= 0 || w.every > 15*time.Second):
			t.Errorf("%s with %q: looks every %v", c.args, c.hangs, w.every)
		}
	}
}

// TestMeasure checks the bounds of slowness.
func TestMeasure(t *testing.T) {
	if s := measure(); s < 1 || s > maxSlowness {
		t.Errorf("slowness %v", s)
	}
}

// BenchmarkLook measures a look at 100 and 10,000 goroutines.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		stop := make(chan struct{})
		var all sync.WaitGroup
		for range n {
			all.Go(func() { <-stop })
		}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				if len(goroutines()) < n {
					b.Fatal("goroutines are missing")
				}
			}
		})
		close(stop)
		all.Wait()
	}
}

// BenchmarkMeasure measures the work of measure, which ordinaryTime should say.
func BenchmarkMeasure(b *testing.B) {
	for b.Loop() {
		measure()
	}
}
