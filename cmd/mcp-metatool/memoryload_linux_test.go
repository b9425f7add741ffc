package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// containerSize is the memory of the container in TestMemoryUnderLoad, in bytes.
const containerSize = 512 << 20

// loadConfig is the configuration of that test: three hostile principals, a modest one, and
// servers at a URL that list and answer too much. Everything else is the default, so that
// what the container can take is found out as always.
const loadConfig = `
startup_wait = "2s"
input_timeout = "5m"
[http]
max_connections = 600
[[http.tokens]]
name = "modest"
token = "modest-token-0123456789"
[[http.tokens]]
name = "first"
token = "first-token-0123456789"
[[http.tokens]]
name = "second"
token = "second-token-0123456789"
[[http.tokens]]
name = "third"
token = "third-token-0123456789"
[upstream.small]
url = "%[1]s/small"
transport = "http"
protocol = "legacy"
[upstream.heavy]
url = "%[1]s/heavy"
transport = "http"
protocol = "legacy"
[upstream.wide]
url = "%[1]s/wide"
transport = "http"
protocol = "legacy"
[upstream.wider]
url = "%[1]s/wider"
transport = "http"
protocol = "legacy"
[upstream.huge]
url = "%[1]s/huge"
transport = "http"
protocol = "legacy"
[upstream.pipe]
command = "largeanswers"
`

// hostileTokens are those of the hostile principals.
var hostileTokens = []string{"first-token-0123456789", "second-token-0123456789", "third-token-0123456789"}

// enoughCalls is how many small calls must be answered during the hostile calls.
const enoughCalls = 10

// TestMemoryUnderLoad runs the program in a container and lets three hostile principals do
// at once all that takes memory, while a modest one makes small calls. The program is not
// killed, all the small calls are answered, and each refusal says what was exceeded.
func TestMemoryUnderLoad(t *testing.T) {
	onlyLong(t)
	if err := home(); err != nil {
		t.Fatal(err)
	}
	const took, runs, lists = time.Minute, 8, 8
	servers := httptest.NewServer(heavyServers())
	defer servers.Close()
	config := fmt.Sprintf(loadConfig, servers.URL)
	for i := range lists { // of 24 MB each
		config += fmt.Sprintf("[upstream.long%d]\nurl = \"%s/long\"\ntransport = \"http\"\nprotocol = \"legacy\"\n", i, servers.URL)
	}
	p := startContained(t, config)
	l := &load{url: p.url, recorded: map[string]*loadClient{}, refused: map[string]int{}, odd: map[string]bool{}}
	l.warmUp(t)
	for _, token := range hostileTokens {
		l.record(t, token, runs)
	}
	var stop context.CancelFunc
	l.ctx, stop = context.WithCancel(t.Context())
	defer stop()
	var hostile, modest sync.WaitGroup
	hostile.Go(func() { // on a slow machine it takes longer until there is something to see
		defer stop()
		time.Sleep(testenv.Quiet(took))
		for end := time.Now().Add(time.Minute); l.answered.Load() < enoughCalls && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	})
	for _, attack := range []func(token string){
		l.largeRequests, l.unreadAnswers, l.unreadLists, l.manySessions, l.parkedCalls, l.largeParkedCalls, l.plans, l.scripts, l.journal, l.brokenStreams, l.halfRequests, l.largeFromPipe, l.savedTools,
	} {
		for _, token := range hostileTokens {
			hostile.Go(func() { attack(token) })
		}
	}
	for range 2 {
		modest.Go(func() { l.modestCalls(t, "modest-token-0123456789") })
	}
	modest.Wait() // it goes on until ctx has ended, and every call has been answered
	hostile.Wait()
	p.end(t)
	if l.answered.Load() < enoughCalls {
		t.Errorf("only %d small calls were answered", l.answered.Load())
	}
	t.Logf("%d small calls were answered beside %d large ones; at most %d MiB of %d MiB resident (%s)",
		l.answered.Load(), l.large.Load(), p.peak>>20, containerSize>>20, p.how)
	l.report(t)
	if p.peak > containerSize {
		t.Errorf("%d bytes resident, more than the %d of the container", p.peak, containerSize)
	}
	for _, want := range []string{
		`its list of tools is larger than 32MiB (raise max_list)`,
		`its list of tools is not used: no memory: the lists of this server would be`,
	} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log does not say: %s\n%s", want, p.tail())
		}
	}
}

// contained is the program in a container.
type contained struct {
	cmd   *exec.Cmd
	url   string
	how   string // what limits it
	group string // its control group; "" for none
	log   mcptest.Buffer
	ended chan error

	peak int64 // resident bytes
}

// startContained starts the program over HTTP in a control group with containerSize. Where no
// group can be made, it is told the size, and only how much it uses is compared with it.
func startContained(t *testing.T, config string) *contained {
	t.Helper()
	dir := t.TempDir()
	p := &contained{ended: make(chan error, 1)}
	p.group, p.how = memoryGroup(t)
	enter := fmt.Sprintf("echo $$ > %s/cgroup.procs && ", p.group)
	env := append(os.Environ(), "MCP_METATOOL_DIR="+dir)
	if p.group == "" {
		enter = ""
		config = fmt.Sprintf("[execution]\nmax_total_memory = \"%dMB\"\n", containerSize>>21) + config
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", containerSize/2))
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command("sh", "-c", enter+"exec mcp-metatool serve --http 127.0.0.1:0")
	p.cmd.Env = env
	said, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(io.TeeReader(said, &p.log))
		for lines.Scan() {
			if _, at, ok := strings.Cut(lines.Text(), "serving MCP on "); ok {
				url <- strings.TrimSpace(at)
			}
		}
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
	p.url = mcptest.Receive(t, "the address", url)
	return p
}

// memoryGroup makes a control group with a limit of memory below that of this process; ""
// if that is not possible.
func memoryGroup(t *testing.T) (group, how string) {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		root, limit := "/sys/fs/cgroup", "memory.max"
		if slices.Contains(strings.Split(fields[1], ","), "memory") {
			root, limit = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		group = filepath.Join(root, fields[2], fmt.Sprintf("mcp-metatool-test-%d", os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(group) })
		if os.WriteFile(filepath.Join(group, limit), []byte(strconv.Itoa(containerSize)), 0o644) == nil {
			return group, "enforced by a control group, " + limit
		}
	}
	return "", "not enforced here: no control group can be made"
}

// end stops the program, which must still be there, and reads how much it has used.
func (p *contained) end(t *testing.T) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)
	select {
	case early := <-p.ended:
		t.Fatalf("the program has ended: %v\n%s", early, p.tail())
	default:
	}
	if err != nil || m == nil {
		t.Fatalf("%v\n%s\n%s", err, status, p.tail())
	}
	kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
	p.peak = kib << 10
	for _, name := range []string{"memory.max_usage_in_bytes", "memory.peak", "memory.failcnt", "memory.oom_control", "memory.events"} {
		if text, err := os.ReadFile(filepath.Join(p.group, name)); err == nil {
			t.Logf("%s: %s", name, strings.Join(strings.Fields(string(text)), " "))
			if m := regexp.MustCompile(`(?m)^oom_kill (\d+)$`).FindSubmatch(text); m != nil && string(m[1]) != "0" {
				t.Errorf("processes were killed for memory: %s", text)
			}
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("the end: %v\n%s", err, p.tail())
		}
	case <-mcptest.Bounded(t).Done():
		t.Errorf("the program does not end\n%s", p.tail())
	}
}

func (p *contained) tail() string {
	log := p.log.String()
	return log[max(0, len(log)-4000):]
}

// load are the clients.
type load struct {
	ctx             context.Context // of the attacks
	url             string
	recorded        map[string]*loadClient // with sessions that have made runs, by their tokens
	answered, large atomic.Int64
	id              atomic.Int64 // of the last request

	mu      sync.Mutex
	slowest time.Duration // of the small calls
	slow    string        // which one that was
	refused map[string]int
	odd     map[string]bool // refusals that do not say what was exceeded
}

// kinds are the settings and bounds that refusals name.
var kinds = regexp.MustCompile(`max_total_memory|max_list|max_message|max_sessions\w*|initialize_rate|max_connections|max_queued|max_answer|max_memory|` +
	`execution\.timeout|session not found|too many calls wait|too many requests in flight|too many bytes of other messages|requests in progress|there is no room for another plan|unknown tool|what the client says about itself|without a session, a message may have at most`)

// about matches what an error is about for which there is no memory.
var about = regexp.MustCompile(`no memory: the ([a-z ]+) would be`)

// refusal notes a refusal.
func (l *load) refusal(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind := kinds.FindString(text); kind != "" {
		if m := about.FindStringSubmatch(text); m != nil {
			kind += ", the " + m[1]
		}
		l.refused[kind]++
	} else {
		l.odd[text[:min(len(text), 300)]] = true
	}
}

func (l *load) report(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("the slowest small call took %v: %s", l.slowest.Round(time.Millisecond), l.slow)
	for kind, n := range l.refused {
		t.Logf("%6d refused: %s", n, kind)
	}
	for text := range l.odd {
		t.Errorf("a refusal does not say what was exceeded: %s", text)
	}
}

// warmUp waits until the servers have listed, and a script has run.
func (l *load) warmUp(t *testing.T) {
	t.Helper()
	c := l.client("modest-token-0123456789")
	for _, call := range []string{loadCall("small__get", "{}"), loadCall("eval_starlark", `{"code":"return 1"}`)} {
		if status, text, err := c.post(mcptest.Bounded(t), call); err != nil || status != http.StatusOK || refusedText(text) != "" {
			t.Fatalf("%d %v %s", status, err, text)
		}
	}
}

// until calls attack on so many goroutines again and again, until ctx ends.
func (l *load) until(goroutines int, attack func()) {
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for l.ctx.Err() == nil {
				attack()
			}
		})
	}
	all.Wait()
}

// note counts an answer to an attack.
func (l *load) note(status int, text string, err error) {
	switch reason := refusedText(text); {
	case err != nil: // cut off, at the end at the latest
	case status >= 300:
		l.refusal(text)
	case reason != "":
		l.refusal(reason)
	default:
		l.large.Add(1)
	}
}

var errorText = regexp.MustCompile(`"error":\{[^{}]*"message":"((?:[^"\\]|\\.)*)"|"isError":true`)

// refusedText returns the error in an answer; "" if there is none.
func refusedText(text string) string {
	m := errorText.FindStringSubmatch(text)
	switch {
	case m == nil:
		return ""
	case m[1] == "":
		return text
	}
	return m[1]
}

// roundsOfSession is for how many rounds of calls the modest client keeps a session, so that
// it stays below http.initialize_rate however fast the machine is.
const roundsOfSession = 20

// modestCalls makes small calls in both eras, until ctx ends. Each must be answered.
func (l *load) modestCalls(t *testing.T, token string) {
	modern := l.client(token)
	for l.ctx.Err() == nil {
		session := l.client(token)
		ctx, cancel := context.WithTimeout(t.Context(), roundTime)
		status, text, err := session.begin(ctx)
		cancel()
		if err != nil || status != http.StatusOK {
			t.Errorf("a session of the modest client: %d %s %v", status, text, err)
			return
		}
		ok := true
		for round := 0; ok && round < roundsOfSession && l.ctx.Err() == nil; round++ {
			ok = l.modestRound(t, modern, session)
		}
		session.finish(t.Context())
		if !ok {
			return
		}
	}
}

// took notes how long a small call has taken.
func (l *load) took(call string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d > l.slowest {
		l.slowest, l.slow = d, call
	}
}

// roundTime is how long a round of the modest client may take.
const roundTime = 50 * time.Second

// modestRound makes each small call in both eras, and reports whether all were answered.
func (l *load) modestRound(t *testing.T, modern, session *loadClient) bool {
	ctx, cancel := context.WithTimeout(t.Context(), roundTime)
	defer cancel()
	for _, c := range []*loadClient{modern, session} {
		for _, call := range []string{loadCall("small__get", "{}"), loadCall("eval_starlark", `{"code":"return small.get()"}`), `"method":"ping"`, loadCall("search_tools", `{"query":"get"}`)} {
			if c == modern && call == `"method":"ping"` {
				continue
			}
			asked := time.Now()
			status, text, err := c.post(ctx, call)
			l.took(call, time.Since(asked))
			if err != nil || status != http.StatusOK || refusedText(text) != "" {
				t.Errorf("a small call of the modest client: %d %v %s: %s", status, err, call, text[:min(len(text), 500)])
				return false
			}
			l.answered.Add(1)
		}
	}
	return true
}
