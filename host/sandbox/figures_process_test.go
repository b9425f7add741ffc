package sandbox

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// figuresStart is the environment variable of processes whose start is measured.
var figuresStart = flag.String("figures.start", "", "run one script with the compilation cache in this `folder`, and nothing else")

// printFirstResult runs in the started process.
func printFirstResult(t *testing.T) {
	s := newSandbox(t, Options{CacheDir: *figuresStart})
	out, err := s.Run(context.Background(), Run{Request: trivial.request(), Caller: &workloadTools{}})
	if err != nil || out.Err != nil {
		t.Fatal(out.Err, err)
	}
	fmt.Printf("result %s\n", out.Result)
	<-s.trimmed
	fmt.Printf("memory %d now, %d at most\n", rollup("Rss:"), mostMemory())
}

// starts measures the time from the start of a process to its first result.
func starts(t *testing.T, line lineFunc) {
	var now, most int // memory of the last process
	start := func(cache string) time.Duration {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFigures$", "-figures.start="+cache)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var seen []byte
		for buf := make([]byte, 256); !bytes.Contains(seen, []byte("result 3\n")); {
			n, err := out.Read(buf)
			seen = append(seen, buf[:n]...)
			if err != nil {
				t.Fatalf("no result: %v: %s", err, seen)
			}
		}
		took := time.Since(begin)
		rest, err := io.ReadAll(out)
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(rest), "memory %d now, %d at most", &now, &most); err != nil {
			t.Fatalf("no figures: %v: %s", err, rest)
		}
		return took
	}
	mib := func(b int) string { return fmt.Sprintf("%.0f MiB", float64(b)/(1<<20)) }
	warmDir := filepath.Join(t.TempDir(), "cache")
	start(warmDir)
	line("memory at most, first compile", mib(most), "", "", "150 MB")
	start(warmDir)
	line("memory after the first run", mib(now), "at most "+mib(most), "", "55 MB")
	var warm, cold []time.Duration
	for n := range 5 {
		cold = append(cold, start(filepath.Join(t.TempDir(), strconv.Itoa(n))))
		warm = append(warm, start(warmDir))
	}
	line("process start to first result, warm cache", short(median(warm)), "cold "+short(median(cold)), times(median(warm), median(cold)), "150ms")
}

// memoryPerCall makes many runs wait for a tool at once, and measures how much memory
// that adds to the process.
func memoryPerCall(t *testing.T, line lineFunc) {
	const live = 1000
	if pss() == 0 {
		line("memory per live call", "not known on "+runtime.GOOS, "", "", "0.5 MiB")
		return
	}
	s := New(Options{MaxConcurrent: live, MaxQueued: 2 * live})
	defer s.Close()
	w := workload{"held", "x = params.a + params['b']\ns.hold({})\nreturn x", trivial.params}
	one := func(tools func(context.Context, abi.ToolCall) abi.Answer) {
		out, err := s.Run(context.Background(), Run{Request: w.request(), Caller: &fakeCaller{tools: tools}})
		if err != nil || out.Err != nil {
			t.Error(out.Err, err)
		}
	}
	one(echoTools)
	debug.FreeOSMemory()
	before := pss()
	release := make(chan struct{})
	var held, done sync.WaitGroup
	held.Add(live)
	for range live {
		done.Go(func() {
			one(func(context.Context, abi.ToolCall) abi.Answer {
				held.Done()
				<-release
				return abi.Answer{Value: []byte("1")}
			})
		})
	}
	held.Wait()
	grown := pss() - before
	debug.FreeOSMemory()
	settled := pss() - before
	close(release)
	done.Wait()
	mib := func(b int) string { return fmt.Sprintf("%.2f MiB", float64(b)/live/(1<<20)) }
	line(fmt.Sprintf("memory (PSS) per live call, %d of them", live), mib(grown), "after a collection of the host "+mib(settled), "", "0.5 MiB")
}

// mostMemory returns the most memory, in bytes, that this process has had; 0 if unknown.
func mostMemory() int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	return kibOf(text, "VmHWM:")
}

// pss returns the proportional set size of this process in bytes; 0 if unknown.
func pss() int { return rollup("Pss:") }

// rollup returns a figure about all memory of this process in bytes; 0 if unknown.
func rollup(name string) int {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return 0
	}
	return kibOf(text, name)
}

// kibOf returns the value of the line that begins with name, which is in KiB, in bytes.
func kibOf(text []byte, name string) int {
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == name {
			kib, _ := strconv.Atoi(string(fields[1]))
			return kib << 10
		}
	}
	return 0
}
