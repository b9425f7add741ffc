package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// figuresStart is the environment variable of processes whose start is measured.
var figuresStart = flag.String("figures.start", "", "run one script with the compilation cache in this `folder`, and nothing else")

// figuresWait makes the process wait for the end of its input, so that others can look at
// its memory.
var figuresWait = flag.Bool("figures.wait", false, "wait for the end of the input")

// printFirstResult runs in the started process.
func printFirstResult(t *testing.T) {
	s := newSandbox(t, Options{CacheDir: *figuresStart})
	out, err := s.Run(context.Background(), Run{Request: trivial.request(), Caller: &workloadTools{}})
	if err != nil || out.Err != nil {
		t.Fatal(out.Err, err)
	}
	fmt.Printf("result %s\n", out.Result)
	<-s.trimmed
	idle := rollup("Rss:")
	for range 300 {
		if out, err := s.Run(context.Background(), Run{Request: trivial.request(), Caller: &workloadTools{}, Repeats: true}); err != nil || out.Err != nil {
			t.Fatal(out.Err, err)
		}
	}
	s.base.pool.settle()
	fmt.Printf("memory %d idle, %d after runs, %d at most\n", idle, rollup("Rss:"), mostMemory())
	if *figuresWait {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// started is a process that has run a script for the first time.
type startedProcess struct {
	cmd              *exec.Cmd
	took             time.Duration // to the first result
	idle, used, most int           // its memory in bytes
}

// startProcess starts a process with the compilation cache in a folder. If it waits, it
// ends with its input.
func startProcess(t *testing.T, cache string, wait bool) (p startedProcess, end func()) {
	t.Helper()
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestFigures$", "-figures.start="+cache, fmt.Sprintf("-figures.wait=%t", wait))
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if lines.Text() == "result 3" {
			p.took = time.Since(begin)
		}
		if n, _ := fmt.Sscanf(lines.Text(), "memory %d idle, %d after runs, %d at most", &p.idle, &p.used, &p.most); n == 3 {
			break
		}
	}
	if p.took == 0 || p.most == 0 {
		t.Fatalf("no figures: %q", seen)
	}
	return p, func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := p.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// starts measures starts of processes, and their memory.
func starts(t *testing.T, all *table) {
	start := func(cache string) startedProcess {
		p, end := startProcess(t, cache, false)
		end()
		return p
	}
	warmDir := filepath.Join(t.TempDir(), "cache")
	cold := start(warmDir)
	all.time("process start to first result, no cache", cold.took, 0)
	all.bytes("memory at most, first compile", cold.most, 150e6)
	start(warmDir)
	var took []time.Duration
	var last startedProcess
	for range 5 {
		last = start(warmDir)
		took = append(took, last.took)
	}
	all.time("process start to first result, with cache", median(took), 150*time.Millisecond)
	all.bytes("memory before the second run", last.idle, 45e6)
	all.bytes("memory after 300 runs", last.used, 55e6)
	all.bytes("memory at most, with cache", last.most, 0)
}

// manyProcesses measures the memory of ten processes that share a cache.
func manyProcesses(t *testing.T, all *table) {
	const count = 10
	dir := filepath.Join(t.TempDir(), "cache")
	_, end := startProcess(t, dir, false)
	end()
	var processes []startedProcess
	for range count {
		p, end := startProcess(t, dir, true)
		defer end()
		processes = append(processes, p)
	}
	total := 0
	for _, p := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.cmd.Process.Pid))
		if err != nil {
			return // not on this system
		}
		total += kibOf(text, "Pss:")
	}
	all.bytes("memory (PSS) of one of ten processes", total/count, 0)
}

// memoryPerCall makes many runs wait for a tool at once, and measures how much memory
// that adds to the process.
func memoryPerCall(t *testing.T, all *table) {
	const live = 1000
	if pss() == 0 {
		return // not known on this system
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
	all.bytes("memory (PSS) per live call", grown/live, 1<<19)
	all.bytes("  after a collection of the host", settled/live, 0)
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
