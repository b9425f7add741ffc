package durable_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

var long = flag.Bool("long", false, "kill runs at every event of their logs")

// roleEnv makes this binary something else than the tests.
const roleEnv = "DURABLE_TEST_ROLE"

func TestMain(m *testing.M) {
	host.OpenStore = fleettest.Open
	switch os.Getenv(roleEnv) {
	case "server":
		serveCounter()
		return
	case "proxy":
		os.Exit(proxy(os.Args[1:]))
	}
	_ = flag.Set("test.parallel", "4") // parallel tests wait most of the time
	goleak.VerifyTestMain(m)
}

// serveCounter is a server over stdio that writes each call to the file COUNT before it
// answers. If KILL is the number in the arguments of a call, it kills the process PROXY instead.
func serveCounter() {
	count, err := os.OpenFile(os.Getenv("COUNT"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		id, ok := wire.Get(in.Bytes(), "id")
		if !ok {
			continue
		}
		method, _ := wire.GetString(in.Bytes(), "method")
		var result string
		switch method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"counter","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"add","inputSchema":{"type":"object"}},` +
				`{"name":"put","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},` +
				`{"name":"undo","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},` +
				`{"name":"undo_once","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			tool, _ := wire.GetString(in.Bytes(), "params", "name")
			n, _ := wire.Get(in.Bytes(), "params", "arguments", "n")
			of, _ := wire.GetString(in.Bytes(), "params", "arguments", "of")
			key, _ := wire.GetString(in.Bytes(), "params", "_meta", compose.IdempotencyKey)
			fmt.Fprintf(count, "%s %s %s %s\n", of, tool, n, key)
			if string(n) == os.Getenv("KILL") {
				pid, _ := strconv.Atoi(os.Getenv("PROXY"))
				p, _ := os.FindProcess(pid)
				_ = p.Kill()
				time.Sleep(time.Hour)
			}
			if string(n) == os.Getenv("HOLD") {
				awaitFile(os.Getenv("GO"))
			}
			result = fmt.Sprintf(`{"content":[{"type":"text","text":"%s"}]}`, n)
		}
		if result == "" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", id)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	}
}

// awaitFile waits until there is a file.
func awaitFile(path string) {
	for deadline := time.Now().Add(testenv.Deadline(time.Minute)); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
}

// killer is a Store that kills this process before or after the event with that number.
type killer struct {
	durable.Store
	before bool
	event  int64
	events atomic.Int64
}

func (k *killer) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	n := k.events.Add(1)
	if k.before && n == k.event {
		kill()
	}
	at, err := k.Store.Append(ctx, log, e)
	if err == nil {
		err = k.Store.Flush(ctx, log) // nothing may depend on what is not flushed
	}
	if !k.before && n == k.event {
		kill()
	}
	return at, err
}

func kill() {
	p, _ := os.FindProcess(os.Getpid())
	_ = p.Kill()
	time.Sleep(time.Hour)
}

// configuration is that of a process whose store is in a folder.
func configuration(dir string, env map[string]string) *config.Config {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	env[roleEnv], env["COUNT"] = "server", filepath.Join(dir, "count")
	cfg := &config.Config{
		StartupWait: testenv.Deadline(time.Minute), MaxMessage: limits.Message.Default,
		Execution: config.Execution{Timeout: testenv.Deadline(time.Minute), MaxMemory: uint64(limits.Memory.Default)},
		Store:     config.Store{Dir: filepath.Join(dir, "store")},
		Journal:   config.Journal{Enabled: true, Signing: config.Signing{Sign: config.SignOn}},
		Upstreams: []config.Upstream{{Name: "c", Command: self, Env: env}},
	}
	if url, err := os.ReadFile(filepath.Join(dir, "nats")); err == nil { // see newFleet
		cfg.Store.NATS, cfg.Store.Keys = []string{string(url)}, []sealed.Key{{ID: "1", Secret: [sealed.KeySize]byte{1}}}
	}
	return cfg
}

// proxyTTL is that of the leases of proxy, unless ttlEnv says something else.
const (
	proxyTTL = 2 * time.Second
	ttlEnv   = "DURABLE_TEST_TTL"
)

func ttl() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(ttlEnv)); err == nil {
		return d
	}
	return proxyTTL
}

// proxy calls a durable tool in a process of its own, which is killed.
// Its arguments are the folder, the tool, the arguments, and where it is killed.
func proxy(args []string) int {
	dir, tool, arguments, point := args[0], args[1], args[2], args[3]
	env := map[string]string{"PROXY": strconv.Itoa(os.Getpid())}
	k := &killer{}
	where, n, _ := strings.Cut(point, " ")
	switch where {
	case "answer": // of the call with that number
		env["KILL"] = n
	case "hold":
		env["HOLD"], env["GO"] = n, filepath.Join(dir, "go")
	default:
		k.before = where == "before"
		k.event, _ = strconv.ParseInt(n, 10, 64)
	}
	h, err := host.New(configuration(dir, env), host.Options{
		Version: "1", Log: slog.New(slog.DiscardHandler), CacheDir: guestcache.Dir(), DurableTTL: ttl(),
		DurableRuns: func(s durable.Store) durable.Store { k.Store = s; return k },
		Clients:     map[bool]host.Clients{true: host.OneClient}[tool == ""],
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if tool == "" { // it goes on with the runs of others
		time.Sleep(testenv.Deadline(time.Minute))
	}
	c, err := h.Connect(context.Background(), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	reply, err := c.Call(context.Background(), wire.Call{
		Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments),
	})
	fmt.Fprintf(os.Stderr, "not killed: %s %v\n", reply.Result, err)
	return 1
}

// scripts are the durable tools. The number of the event of each step in the log:
//
//	steps: 1 begin, 2 intent of add 1, 3 its answer, 4 and 5 put 2, 6 and 7 add 3, 8 over
//	fails: 1 begin, 2 and 3 add 1, 4 and 5 add 2, 6 undoing, 7 and 8 undo 2, 9 and 10
//	       undo_once 1, 11 over
var scripts = map[string]string{
	"steps":  "a = c.add(n=1, of=params.of)\nundo(c.undo, n=4, of=params.of)\nb = c.put(n=2, of=params.of)\nd = c.add(n=3, of=params.of)\nreturn [a, b, d]\n",
	"fails":  "c.add(n=1, of=params.of)\nundo(c.undo_once, n=4, of=params.of)\nc.add(n=2, of=params.of)\nundo(c.undo, n=5, of=params.of)\nfail('enough')\n",
	"inner":  "x = c.add(n=10, of=params.of)\nundo(c.undo, n=11, of=params.of)\ny = c.put(n=12, of=params.of)\nreturn x + y\n",
	"nested": "r = tools.inner(of=params.of)\nc.add(n=13, of=params.of)\nfail('enough ' + str(r))\n",
	"both":   "return parallel([lambda n=n: c.put(n=n, of=params.of) for n in [1, 2, 3]])\n",
}

type killCase struct {
	tool, point string
	always      bool // not only with -long
	inDoubt     tools.InDoubt
	outcome     string // of the run in the end
	calls       string // that the server got
}

// killCases has what becomes of runs that were killed.
func killCases() []killCase {
	steps, doubt := "add 1, put 2, add 3", "it is not known whether c.add was called"
	undone := "add 1, add 2, undo 5, undo_once 4"
	all := []killCase{
		{"steps", "after 1", false, "", "ok", steps},
		{"steps", "before 2", true, "", "ok", steps},
		{"steps", "after 2", true, "", doubt, ""},
		{"steps", "answer 1", true, "", doubt, "add 1"},
		{"steps", "before 3", true, "", doubt, "add 1"},
		{"steps", "after 3", true, "", "ok", steps},
		{"steps", "before 4", false, "", "ok", steps},
		{"steps", "after 4", false, "", "ok", steps},
		{"steps", "answer 2", true, "", "ok", "add 1, put 2, put 2, add 3"},
		{"steps", "before 5", false, "", "ok", "add 1, put 2, put 2, add 3"},
		{"steps", "after 5", false, "", "ok", steps},
		{"steps", "before 6", false, "", "ok", steps},
		{"steps", "after 6", false, "undo", doubt, "add 1, put 2, undo 4"},
		{"steps", "answer 3", true, "undo", doubt, "add 1, put 2, add 3, undo 4"},
		{"steps", "before 7", false, "", doubt, steps},
		{"steps", "after 7", false, "", "ok", steps},
		{"steps", "before 8", false, "", "ok", steps},
		{"steps", "after 8", true, "", "ok", steps},
		{"both", "answer 2", true, "", "ok [1,2,3]", "put 1, put 2, put 3"}, // each once or twice
		{"nested", "answer 12", true, "", "enough 22", "add 10, put 12, put 12, add 13, undo 11"},
		{"nested", "answer 13", true, "undo", doubt, "add 10, put 12, add 13, undo 11"},
		{"fails", "before 6", false, "", "enough", undone},
		{"fails", "after 6", true, "", "enough", undone},
		{"fails", "before 7", false, "", "enough", undone},
		{"fails", "after 7", false, "", "enough", undone},
		{"fails", "answer 5", true, "", "enough", "add 1, add 2, undo 5, undo 5, undo_once 4"},
		{"fails", "before 8", false, "", "enough", "add 1, add 2, undo 5, undo 5, undo_once 4"},
		{"fails", "after 8", false, "", "enough", undone},
		{"fails", "after 9", false, "", "enough", "add 1, add 2, undo 5"},
		{"fails", "answer 4", true, "", "enough", undone},
		{"fails", "before 10", false, "", "enough", undone},
		{"fails", "after 10", false, "", "enough", undone},
		{"fails", "before 11", false, "", "enough", undone},
		{"fails", "after 11", false, "", "enough", undone},
	}
	if *long {
		return all
	}
	return slices.DeleteFunc(all, func(c killCase) bool { return !c.always })
}

// TestKill kills processes with kill -9 in the middle of durable runs, lets another process go
// on with all of them, and compares what a real server got with what it should have got.
func TestKill(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process that was killed cannot be told from one that failed")
	}
	dir := t.TempDir()
	cases := killCases()
	saveScripts(t, dir)
	killAll(t, dir, cases)
	// Two processes want all of them. Here they are in one, but share nothing else.
	one, _ := goOn(t, dir, 0)
	other, _ := goOn(t, dir, 0)
	cfg := configuration(dir, map[string]string{})
	awaitEnd(t, cfg)
	one()
	other()
	compareKilled(t, dir, cases, cfg)
}

// saveScripts saves the durable tools.
func saveScripts(t *testing.T, dir string) {
	kept, err := tools.OpenStore(filepath.Join(dir, "store"), tools.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, doubt := range []tools.InDoubt{"", "undo"} {
		for name, code := range scripts {
			def := tools.Definition{
				Name: name + string(doubt), Description: "x", InputSchema: []byte(`{"type":"object"}`), Code: code,
				Durability: tools.Durability{Durable: true, InDoubt: doubt},
			}
			if _, _, err := kept.Save(def); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
}

// goOn starts a proxy that goes on with the runs of others.
func goOn(t *testing.T, dir string, ttl time.Duration, over ...func(durable.Store) durable.Store) (stop func(), said *mcptest.Buffer) {
	said = &mcptest.Buffer{}
	opts := host.Options{
		Version: "1", Log: slog.New(slog.NewTextHandler(said, nil)), CacheDir: guestcache.Dir(),
		Clients: host.OneClient, DurableTTL: ttl,
	}
	for _, f := range over {
		opts.DurableRuns = f
	}
	h, err := host.New(configuration(dir, map[string]string{}), opts)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		slow := testenv.Deadline(time.Minute) > 2*time.Minute // upstreams may not end in time there
		if err := h.Close(); err != nil && !(slow && errors.Is(err, context.DeadlineExceeded)) {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", said)
		}
	}, said
}

// killAll makes the runs of all cases, each in a process that is killed.
func killAll(t *testing.T, dir string, cases []killCase) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, c := range cases {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Deadline(time.Minute))
			defer cancel()
			cmd := exec.CommandContext(ctx, self, dir, c.tool+string(c.inDoubt), fmt.Sprintf(`{"of":"%d"}`, i), c.point)
			if c.tool == "" {
				cmd.Args[2] = ""
			}
			cmd.Env = append(os.Environ(), roleEnv+"=proxy")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Run(); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "killed") {
				t.Errorf("%s %s: the process was not killed there: %v\n%s", c.tool, c.point, err, &stderr)
			}
		})
	}
	group.Wait()
}

// awaitEnd waits until there are no open runs.
func awaitEnd(t *testing.T, cfg *config.Config) {
	runs, err := host.OpenRuns(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Close(t.Context())
	for deadline := time.Now().Add(testenv.Deadline(time.Minute)); ; time.Sleep(20 * time.Millisecond) {
		open, err := runs.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(open) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d runs do not end: %+v", len(open), open[0])
		}
	}
}

// compareKilled compares what the server got, and what the journals have.
func compareKilled(t *testing.T, dir string, cases []killCase, cfgs ...*config.Config) {
	got := make([][]string, len(cases))
	keys := map[string]string{}
	data, err := os.ReadFile(filepath.Join(dir, "count"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		i, err := strconv.Atoi(f[0])
		if err != nil || len(f) != 4 {
			t.Fatalf("line %q", line)
		}
		got[i] = append(got[i], f[1]+" "+f[2])
		if other, ok := keys[f[0]+f[1]+f[2]]; ok && other != f[3] {
			t.Errorf("%s: two idempotency keys of one call", line)
		}
		keys[f[0]+f[1]+f[2]] = f[3]
	}
	outcomes := make([]string, len(cases))
	for _, cfg := range cfgs {
		for rec, err := range journal.Scan(t.Context(), cfg.JournalDir(), journal.Filter{}) {
			if err != nil && !strings.Contains(err.Error(), "incomplete") {
				t.Error(err)
			}
			of, _ := wire.GetString(rec.Params, "of")
			i, err := strconv.Atoi(of)
			if err != nil || !rec.Done {
				continue
			}
			outcomes[i] += outcome(&rec)
		}
	}
	var table strings.Builder
	for i, c := range cases {
		if c.tool == "both" {
			slices.Sort(got[i])
			got[i] = slices.Compact(got[i])
		}
		calls := strings.Join(got[i], ", ")
		fmt.Fprintf(&table, "%-6s %-10s %-5s  %-50s %s\n", c.tool, c.point, c.inDoubt, calls, outcomes[i])
		if calls != c.calls {
			t.Errorf("%s killed %s: the server got %q, want %q", c.tool, c.point, calls, c.calls)
		}
		if !strings.Contains(outcomes[i], c.outcome) {
			t.Errorf("%s killed %s: ended with %q, want %q", c.tool, c.point, outcomes[i], c.outcome)
		}
	}
	t.Logf("\n%s", &table)
	if n := verifyAll(t, cfgs...); n == 0 && len(cases) > 1 {
		t.Error("no run goes on with another one")
	}
}

func outcome(rec *journal.Record) string {
	if rec.Outcome.Error == "" {
		return "ok " + string(rec.Outcome.Result)
	}
	return rec.Outcome.Message
}

// withOwner returns the open runs of a configuration, as a process that makes runs has them.
func withOwner(t *testing.T, cfg *config.Config, folder *durable.Folder) *durable.Runs {
	key, err := requeststate.LoadKey(t.Context(), cfg.Store.Dir)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := durable.NewAEAD(key)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := folder.NewOwner()
	if err != nil {
		t.Fatal(err)
	}
	runs := durable.New(durable.Options{Store: folder, Alive: folder.Alive, AEAD: aead, Owner: func() (string, error) { return owner.Name, nil }})
	t.Cleanup(func() {
		if err := runs.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	})
	return runs
}
