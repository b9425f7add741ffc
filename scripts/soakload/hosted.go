package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
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

// origin is a server behind the proxy.
type origin struct {
	name      string
	transport string // "stdio", "http", "sse"
	calm      bool   // no client asks for faults
	own       bool   // each session has a process of its own
	extra     string // more lines of the configuration
	switches  mcptest.ServerOptions
}

// origins are all origins. The tools of each begin with the origin's name.
var origins = []origin{
	{name: "calm", transport: "stdio", calm: true},
	{name: "calmweb", transport: "http", calm: true},
	{name: "wild", transport: "stdio"},
	{name: "slowstart", transport: "stdio", switches: mcptest.ServerOptions{ // the faults happen at each start
		StringIDs: true,
		Faults: map[string]mcptest.Fault{
			"initialize":     {Kind: mcptest.Slow, Size: 40, Pause: 1},
			"tools/list":     {Kind: mcptest.Duplicate},
			"resources/list": {Kind: mcptest.Garbage, Count: 20},
			"prompts/list":   {Kind: mcptest.WrongID},
		},
	}},
	{name: "wildweb", transport: "http", switches: mcptest.ServerOptions{Answers: "auto", CutAfter: 40}},
	{name: "plainweb", transport: "http", switches: mcptest.ServerOptions{Answers: "json", NoGETStream: true}},
	{name: "wildsse", transport: "sse"},
	{name: "own", transport: "stdio", own: true, extra: "isolation = \"session\"\n"},
	{name: "lazy", transport: "stdio", extra: "start = \"lazy\"\n"},
	{name: "flaky", transport: "stdio", calm: true, switches: mcptest.ServerOptions{ExitOnStart: 3}},
	{name: "newweb", transport: "http", calm: true, switches: mcptest.ServerOptions{Eras: mcptest.EraModern}},
	{name: "new", transport: "stdio", switches: mcptest.ServerOptions{Eras: mcptest.EraModern}},
	{name: "newjson", transport: "http", calm: true, switches: mcptest.ServerOptions{Eras: mcptest.EraBoth, Answers: "auto"}},
}

// exact reports whether a question of the server always belongs to a known call, also if several
// clients share the server.
func (o origin) exact() bool { return o.name == "calmweb" || o.switches.Eras != "" }

// farm has the servers. HTTP servers run in this process; the proxy starts the others.
type farm struct {
	config string // of the proxy for HTTP
	small  string // of the binary for a client over stdio
	mark   string // in the environment of each server's process

	servers map[string]*mcptest.Server
	web     []*http.Server
}

// markEnv is the environment variable with the mark.
const markEnv = "MCP_METATOOL_SOAK"

func newFarm(dir string) (*farm, error) {
	f := &farm{
		config: filepath.Join(dir, "config.toml"), small: filepath.Join(dir, "small.toml"),
		mark: filepath.Base(dir), servers: map[string]*mcptest.Server{},
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("startup_wait = \"5s\"\ninput_timeout = \"2s\"\n[store]\ndir = %q\n[http]\nsession_ttl = \"5s\"\nresume_window = \"1s\"\nmax_sessions = 150\n",
		filepath.Join(dir, "store"))
	whole, part := head, head
	for _, o := range origins {
		text := fmt.Sprintf("[upstream.%s]\n%s", o.name, o.extra)
		if o.calm {
			text += "timeout = \"20s\"\n"
		} else {
			text += "timeout = \"2s\"\nmax_timeout = \"6s\"\n"
		}
		sw := o.switches
		sw.Name = o.name
		if o.transport == "stdio" {
			sw.StartsFile = filepath.Join(dir, o.name+".starts")
			text += fmt.Sprintf("command = %q\nenv = { %s = %q, %s = '''%s''' }\n", self, markEnv, f.mark, mcptest.Env, sw.Environ()[mcptest.Env])
		} else {
			address, err := f.serve(o, sw)
			if err != nil {
				f.close()
				return nil, err
			}
			text += fmt.Sprintf("url = %q\ntransport = %q\n", address, o.transport)
		}
		whole += text
		if slices.Contains(small, o.name) {
			part += text
		}
	}
	return f, firstError(os.WriteFile(f.config, []byte(whole), 0o600), os.WriteFile(f.small, []byte(part), 0o600))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server with an address.
func (f *farm) serve(o origin, sw mcptest.ServerOptions) (address string, err error) {
	server := mcptest.NewServer(sw)
	server.Received.Forget = true
	f.servers[o.name] = server
	handler := server.HTTP()
	if o.transport == "sse" {
		handler = server.SSE()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	web := &http.Server{Handler: handler}
	f.web = append(f.web, web)
	go func() { _ = web.Serve(ln) }() // until close
	return "http://" + ln.Addr().String() + "/mcp", nil
}

// closeIdle closes idle connections.
func (f *farm) closeIdle() {
	for _, web := range f.web {
		web.SetKeepAlivesEnabled(false)
		web.SetKeepAlivesEnabled(true)
	}
}

func (f *farm) close() {
	for _, web := range f.web {
		_ = web.Close()
	}
	for _, server := range f.servers {
		server.Close()
	}
}

// processes returns the ids of all processes of servers.
func (f *farm) processes() []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	want := []byte(markEnv + "=" + f.mark + "\x00")
	for _, name := range names {
		if env, err := os.ReadFile(name); err == nil && bytes.Contains(append(env, 0), want) {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// shared returns the number of server processes while no client is connected,
// once all idle servers have been started.
func (f *farm) shared() int {
	n := 0
	for _, o := range origins {
		if o.transport == "stdio" && !o.own {
			n++
		}
	}
	return n
}

// settled waits until the number of processes is as expected.
func (f *farm) settled(d time.Duration) (pids []int) {
	for end := time.Now().Add(d); ; time.Sleep(100 * time.Millisecond) {
		if pids = f.processes(); len(pids) == f.shared() || time.Now().After(end) {
			return pids
		}
	}
}
