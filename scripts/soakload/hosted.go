package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// hostVerb makes this program the process with the proxy: "host CONFIG LOG". The first line of the
// output is the URL. Each line of the input is answered with a measurement. At the end of the
// input, the process measures once more and exits.
const hostVerb = "host"

// measurement is the report of a process with the proxy about itself.
type measurement struct {
	Goroutines  int
	Descriptors int
	RSS, Heap   int64 // bytes, after a collection, without Prepared
	Prepared    int64 // bytes of states of compiled scripts, which have a limit
	Upstreams   []servers.Status
}

// statusLine asks for a measurement of the upstreams alone.
const statusLine = "status"

// stacksLine asks for the stacks of all goroutines, in the log.
const stacksLine = "stacks"

func beHost(args []string) error {
	if len(args) != 2 {
		return errors.New("want CONFIG and LOG")
	}
	log, err := os.OpenFile(args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cfg, err := config.Load(config.LoadOptions{Flag: args[0]})
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	h, err := host.New(cfg, host.Options{
		Version: "soak", Clients: host.ManyClients, CacheDir: filepath.Join(cache, "mcp-metatool", "wasm"),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, h.Close())
	}
	fmt.Printf("http://%s%s\n", ln.Addr(), cfg.HTTP.Path)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { err = h.ServeHTTPOn(ctx, ln) })
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == stacksLine {
			_ = pprof.Lookup("goroutine").WriteTo(log, 1)
		}
		var m measurement
		if lines.Text() != statusLine {
			m = measure(h)
		}
		m.Upstreams = h.Upstreams(ctx)
		if err := out.Encode(m); err != nil {
			break
		}
	}
	cancel()
	serving.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	err = errors.Join(err, h.Close())
	m := measure(nil)
	for wait := 0; m.Goroutines > 3 && wait < 20; wait++ { // some may be about to end
		time.Sleep(50 * time.Millisecond)
		m = measure(nil)
	}
	if m.Goroutines > 4 {
		_ = pprof.Lookup("goroutine").WriteTo(log, 1)
	}
	return errors.Join(err, out.Encode(m))
}

// measure measures this process. h is nil after the host's end.
func measure(h *host.Host) measurement {
	runtime.GC()
	debug.FreeOSMemory()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m := measurement{Goroutines: runtime.NumGoroutine() - idleWorkers(), Heap: int64(mem.HeapAlloc)}
	if h != nil {
		m.Prepared = int64(h.Prepared())
		m.Heap -= m.Prepared
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		m.Descriptors = len(fds) - 1 // without the descriptor that reads
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			m.RSS = kb<<10 - m.Prepared
		}
	}
	return m
}

// hosted is a process with the proxy, as seen by the parent.
type hosted struct {
	url string
	log string // file
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	mu   sync.Mutex // serializes questions
	over sync.Once
}

func startHosted(ctx context.Context, dir, config string) (*hosted, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &hosted{log: filepath.Join(dir, "host.log")}
	h.cmd = exec.Command(self, hostVerb, config, h.log)
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.kill()
		return nil, fmt.Errorf("the process with the proxy did not start: %w", err)
	}
	h.url = strings.TrimSpace(line)
	return h, ctx.Err()
}

// ask requests a measurement.
func (h *hosted) ask(line string) (m measurement, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err = fmt.Fprintln(h.in, line); err != nil {
		return m, err
	}
	return h.read()
}

func (h *hosted) read() (m measurement, err error) {
	line, err := h.out.ReadBytes('\n')
	if err != nil {
		return m, fmt.Errorf("the process with the proxy is gone: %w", err)
	}
	return m, json.Unmarshal(line, &m)
}

// dump writes the stacks of all goroutines to the log.
func (h *hosted) dump() error {
	_, err := h.ask(stacksLine)
	return err
}

// end ends the process and returns the last measurement.
func (h *hosted) end() (m measurement, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.in.Close(); err != nil {
		return m, err
	}
	late := time.AfterFunc(20*time.Second, h.kill)
	defer late.Stop()
	if m, err = h.read(); err != nil {
		return m, err
	}
	h.over.Do(func() { err = h.cmd.Wait() })
	return m, err
}

func (h *hosted) kill() {
	h.over.Do(func() {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
}

// idleWorkers counts the goroutines that connections keep for further calls. Their number depends
// on the number of earlier concurrent calls.
func idleWorkers() (idle int) {
	var profile strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	_, stacks, _ := strings.Cut(profile.String(), "\n") // the first line is the total
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(stack, "streamable.(*Link).runAll") && !strings.Contains(stack, "(*post).run") ||
			strings.Contains(stack, "rpc.(*workers).run") && !strings.Contains(stack, "(*Request).run") {
			var n int
			_, _ = fmt.Sscan(stack, &n) // "44 @ 0x..."
			idle += n
		}
	}
	return idle
}
