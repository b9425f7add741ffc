package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

func upstreamOf(name, kind string) config.Upstream {
	return config.Upstream{
		Name: name, Command: inProcess, Env: map[string]string{upstreamEnv: kind}, Prefix: name + "__", Timeout: maxWait,
	}
}

func testConfig(t testing.TB, upstreams ...config.Upstream) *config.Config {
	return &config.Config{
		StartupWait: maxWait, MaxMessage: limits.Message.Default,
		Execution: config.Execution{Timeout: maxWait, MaxMemory: uint64(limits.Memory.Default)},
		Store:     config.Store{Dir: t.TempDir()},
		Journal:   config.Journal{Enabled: true, Proxied: config.ProxiedSummary},
		Upstreams: upstreams,
	}
}

// startHost runs a Host whose compiled guest is shared by all tests.
func startHost(t testing.TB, cfg *config.Config) (*Host, *mcptest.Buffer) {
	t.Helper()
	return startHostFor(t, cfg, NoClient)
}

func startHostFor(t testing.TB, cfg *config.Config, clients Clients) (*Host, *mcptest.Buffer) {
	t.Helper()
	return startHostOf(t, cfg, Options{Clients: clients})
}

// startHostOf is startHost with options. It sets those that are the same for all tests. Its
// Sandbox has the guest of all tests: loading another takes longer than most of them.
func startHostOf(t testing.TB, cfg *config.Config, opts Options) (*Host, *mcptest.Buffer) {
	t.Helper()
	var log mcptest.Buffer
	opts.Version, opts.CacheDir, opts.Log = "test", guestCache, slog.New(slog.NewTextHandler(&log, nil))
	guest := sandboxtest.Guest(t)
	if opts.streams == nil {
		opts.streams = serversHere(t)
	}
	opts.newSandbox = func(opts sandbox.Options) *sandbox.Sandbox {
		shared, err := guest.Share(opts)
		if err != nil {
			t.Fatal(err)
		}
		return shared // the Host closes it
	}
	h, err := New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	h.router.HandshakeWait, h.restTime, h.shutdownTime = maxWait, maxWait, maxWait // a busy machine may start servers slowly, and write slowly
	t.Cleanup(func() {
		<-h.sandbox.Ready() // a compilation would outlive Close, and the test
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", log.String())
		}
	})
	return h, &log
}

// client is a client of a Host that sends and receives raw lines.
type client struct {
	t      testing.TB
	in     *io.PipeWriter
	out    *wire.Reader
	served chan error
}

func dial(t testing.TB, h *Host) *client {
	t.Helper()
	c := dialBare(t, h)
	c.initialize(`{}`)
	return c
}

// dialBare is dial without a session, for requests of the stateless era or initialize.
func dialBare(t testing.TB, h *Host) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: t, in: inW, out: wire.NewReader(outR, 0), served: make(chan error, 1)}
	go func() {
		err := h.Serve(context.Background(), inR, outW)
		outW.Close()
		c.served <- err
	}()
	t.Cleanup(c.close)
	return c
}

// initialize begins a session of a client with capabilities, a raw object.
func (c *client) initialize(capabilities string) {
	c.t.Helper()
	c.say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"t","version":"0"}}}`)
	c.hear()
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *client) close() {
	c.in.Close()
	for {
		if _, err := c.out.Read(); err != nil {
			break
		}
	}
	if err := <-c.served; err != nil {
		c.t.Errorf("session: %v", err)
	}
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) hear() string {
	c.t.Helper()
	for {
		raw, err := c.out.Read()
		if err != nil {
			c.t.Fatal(err)
		}
		// Upstreams that become ready change the list at any time.
		if !strings.Contains(string(raw), "notifications/tools/list_changed") {
			return string(raw)
		}
	}
}

// request sends a request and returns the next message.
func (c *client) request(id, method, params string) string {
	c.t.Helper()
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return c.hear()
}

// call calls a tool and returns its result.
func (c *client) call(tool, arguments string) string {
	c.t.Helper()
	got := c.request("1", "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	result, ok := wire.Get([]byte(got), "result")
	if !ok {
		c.t.Fatalf("%s: %s", tool, got)
	}
	return string(result)
}

func TestProxiedCallsLoseNothing(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw")))
	c := dial(t, h)

	list := c.request("1", "tools/list", `{}`)
	if want := strings.Replace(strings.SplitAfter(rawTools, `},{"name":"rpc-error"`)[0], `"mirror"`, `"raw__mirror"`, 1); !strings.Contains(list, strings.TrimSuffix(want, `,{"name":"rpc-error"`)) {
		t.Errorf("the list lacks\n%s\nin\n%s", want, list)
	}

	params := `{ "_meta":{"traceparent":"00-1","n":9007199254740993}, "name":"%s","arguments":{"b":1.0,"a":[12345678901234567890,-0,1e999],"a":"\ud83d\ude00"},"x":null}`
	got := c.request(`"one"`, "tools/call", fmt.Sprintf(params, "raw__mirror"))
	want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"one","result":%s}`, fmt.Sprintf(rawResult, fmt.Sprintf(params, "mirror")))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	got = c.request("2", "tools/call", `{"name":"raw__rpc-error"}`)
	if want := `{"jsonrpc":"2.0","id":2,"error":{"code":-32042,"message":"no <such> thing","data":{"n":9007199254740993},"x":1}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestProgressOfProxiedCall(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw")))
	c := dial(t, h)
	const times = 2000
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"raw__count","arguments":{"times":%d},"_meta":{"progressToken":"1"}}}`, times))
	for i := range times {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":%d,"total":%d,"x":9007199254740993}}`, i+1, times)
		if got := c.hear(); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	if got := c.hear(); got != fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"counted":%d}}}`, times) {
		t.Errorf("result: %s", got)
	}
}

func TestCancelReachesTheUpstream(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw")))
	c := dial(t, h)
	c.call("raw__text", `{"text":"warm"}`) // the upstream is up and its tools are known
	c.say(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"raw__hang","_meta":{"progressToken":1}}}`)
	c.hear() // progress: the upstream has the call, and can be told of the cancellation
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77,"reason":"enough","x":9007199254740993}}`)
	// The cancellation and this call may arrive in either order, so repeat the call.
	for {
		var all []byte
		got := c.call("raw__cancels", `{}`)
		all, _ = wire.Get([]byte(got), "structuredContent", "cancelled")
		if string(all) == "[]" {
			continue
		}
		hung, _ := wire.Get([]byte(got), "structuredContent", "hung")
		items, err := wire.Elements(all)
		if err != nil || len(items) != 1 {
			t.Fatalf("cancellations: %s", all)
		}
		id, _ := wire.Get(items[0], "requestId")
		if string(id) != string(hung) || string(id) == "77" {
			t.Errorf("cancelled request %s, the call has the id %s", id, hung)
		}
		if reason, _ := wire.GetString(items[0], "reason"); reason != "enough" || !strings.Contains(string(items[0]), `"x":9007199254740993`) {
			t.Errorf("cancelled with %s", items[0])
		}
		return
	}
}

func TestDeadUpstreamAffectsNoOther(t *testing.T) {
	t.Parallel()
	one := inOwnProcess(upstreamOf("one", "raw"))
	one.Restart = config.RestartNever
	h, log := startHost(t, testConfig(t, one, upstreamOf("two", "raw")))
	c := dial(t, h)
	for _, tt := range []struct{ tool, want string }{
		{"one__exit", `"isError":true`},
		{"one__text", `"isError":true`},
		{"two__text", `{"content":[{"type":"text","text":"hi"}]}`},
	} {
		got := c.call(tt.tool, `{"text":"hi"}`)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", tt.tool, got)
		}
		if strings.HasPrefix(tt.tool, "one") && !strings.Contains(got, `upstream \"one\"`) {
			t.Errorf("%s does not say whose fault it is: %s", tt.tool, got)
		}
	}
	if !strings.Contains(log.String(), "told to exit") {
		t.Error("the log lacks the upstream's stderr")
	}
}

func TestBrokenUpstreams(t *testing.T) {
	t.Parallel()
	missing := upstreamOf("missing", "raw")
	missing.Command = "no-such-command-anywhere"
	hang := inOwnProcess(upstreamOf("hang", "hang"))
	hang.Timeout = time.Second
	cfg := testConfig(t, missing, hang, inOwnProcess(upstreamOf("garbage", "garbage")), inOwnProcess(upstreamOf("good", "raw")))
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	if list := c.request("1", "tools/list", `{}`); !strings.Contains(list, `"good__text"`) {
		t.Errorf("list: %s", list)
	}
	if got := c.call("good__text", `{"text":"hi"}`); !strings.Contains(got, `"hi"`) {
		t.Errorf("good: %s", got)
	}
	for i, status := range h.Upstreams(t.Context()) {
		wantUp := cfg.Upstreams[i].Name == "good"
		if up := status.State == servers.Ready; up != wantUp || (status.Err == "") != wantUp {
			t.Errorf("%+v", status)
		}
		if status.Name == "garbage" && !strings.Contains(status.Err, "this is not JSON-RPC") {
			t.Errorf("garbage is not shown: %s", status.Err)
		}
	}
}

func TestSavedToolEndToEnd(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw"), upstreamOf("other-one", "raw")))
	c := dial(t, h)
	got := c.call("save_tool", `{"name":"join","description":"Joins.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},`+`"code":"a = raw.mirror({'n': params.n})\nprint('mirrored', a.n)\nb = other_one.text(text='{\"k\": 12345678901234567890}')\nreturn {'n': a.n, 'k': b.k, 'p': params.n}"}`)
	if strings.Contains(got, `"isError":true`) {
		t.Fatalf("save_tool: %s", got)
	}
	if list := c.request("1", "tools/list", `{}`); !strings.Contains(list, `{"name":"join",`) {
		t.Errorf("list: %s", list)
	}
	got = c.call("join", `{"n":"5"}`)
	structured, _ := wire.Get([]byte(got), "structuredContent")
	for path, want := range map[string]string{
		"result": `{"n":9007199254740993,"k":12345678901234567890,"p":5}`,
		"logs":   `["mirrored 9007199254740993"]`,
	} {
		if v, _ := wire.Get(structured, path); string(v) != want {
			t.Errorf("%s = %s, want %s", path, v, want)
		}
	}
	calls, _ := wire.Get(structured, "toolCalls")
	if items, err := wire.Elements(calls); err != nil || len(items) != 2 {
		t.Errorf("toolCalls: %s", calls)
	}
	if got := c.call("delete_saved_tool", `{"name":"join"}`); strings.Contains(got, `"isError":true`) {
		t.Errorf("delete: %s", got)
	}
	if got := c.request("9", "tools/call", `{"name":"join"}`); !strings.Contains(got, `"code":-32602`) {
		t.Errorf("after deletion: %s", got)
	}
}

// TestScriptsAndUnavailableUpstreams checks that a script waits for an upstream that
// is still starting, and is told why another one is down.
func TestScriptsAndUnavailableUpstreams(t *testing.T) {
	t.Parallel()
	missing := upstreamOf("missing", "raw")
	missing.Command = "no-such-command-anywhere"
	late := upstreamOf("late", "late")
	gate, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	late.Args = []string{gate.Addr().String()}
	cfg := testConfig(t, missing, late)
	cfg.StartupWait = 0
	h, _ := startHost(t, cfg)
	h.router.HandshakeWait = time.Millisecond // late is late
	c := dial(t, h)
	if got := c.call("eval_starlark", `{"code":"missing.text(text='x')"}`); !strings.Contains(got, "no-such-command-anywhere") || !strings.Contains(got, `"type":"tool"`) {
		t.Errorf("missing: %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"eval_starlark","arguments":{"code":"late.text(text='hi')"}}}`)
	waiting, err := gate.Accept()
	if err != nil {
		t.Fatal(err)
	}
	waiting.Close()
	if got := c.hear(); !strings.Contains(got, `"result":"hi"`) {
		t.Errorf("late: %s", got)
	}
}

func TestCancelOfComposite(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw")))
	c := dial(t, h)
	c.call("eval_starlark", `{"code":"return raw.text(text='warm')"}`)
	for _, code := range []string{"while True: pass", "raw.hang()"} {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"eval_starlark","arguments":{"code":%q}}}`, code))
		c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
		if got := c.request("2", "ping", `{}`); got != `{"jsonrpc":"2.0","id":2,"result":{}}` {
			t.Errorf("%s: heard %s", code, got)
		}
	}
}

func TestListChangedIsAnnounced(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t))
	c := dial(t, h)
	c.request("1", "tools/list", `{}`)
	for _, call := range []string{
		`{"name":"save_tool","arguments":{"name":"x","description":"d","inputSchema":{"type":"object"},"code":"return 1"}}`,
		`{"name":"delete_saved_tool","arguments":{"name":"x"}}`,
	} {
		c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + call + `}`)
		var heard []string
		for len(heard) < 2 { // the answer and the announcement, in either order
			raw, err := c.out.Read()
			if err != nil {
				t.Fatal(err)
			}
			heard = append(heard, string(raw))
		}
		if all := strings.Join(heard, "\n"); !strings.Contains(all, `"notifications/tools/list_changed"`) || !strings.Contains(all, `"id":2,"result"`) {
			t.Errorf("heard %s", all)
		}
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	h, _ := startHost(t, testConfig(t, upstreamOf("raw", "raw")))
	c, err := h.Connect(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var progress int
	reply, err := c.Call(t.Context(), wire.Call{Method: "tools/call", Params: []byte(`{"name":"raw__count","arguments":{"times":3}}`), Progress: func([]byte) { progress++ }})
	if err != nil || progress != 3 || !strings.Contains(string(reply.Result), `"counted":3`) {
		t.Errorf("%s%s, %v, %d progress notifications", reply.Result, reply.Error, err, progress)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Call(ctx, wire.Call{Method: "tools/call", Params: []byte(`{"name":"raw__hang"}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestLastExecutionsAreCounted ends a Host while the test holds the lock of the tool store,
// for longer than the Host waits for the sandbox.
func TestLastExecutionsAreCounted(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	h, _ := startHost(t, cfg)
	<-h.sandbox.Ready()
	folder := filepath.Join(cfg.Store.Dir, "tools")
	lock := regular.NewLock(filepath.Join(folder, ".lock"))
	defer lock.Close()
	t.Run("calls", func(t *testing.T) { // whose session ends
		c := dial(t, h)
		if got := c.call("save_tool", `{"name":"one","description":"d","inputSchema":{"type":"object"},"code":"return 1"}`); !strings.Contains(got, `"created"`) {
			t.Fatalf("save_tool: %s", got)
		}
		if held, err := lock.TryLock(); err != nil || !held {
			t.Fatal(held, err)
		}
		if got := c.call("one", `{}`); !strings.Contains(got, `"1"`) {
			t.Fatalf("one: %s", got)
		}
	})
	h.shutdownTime, h.restTime = time.Minute, time.Millisecond
	closed := make(chan error, 1)
	go func() { closed <- h.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("closed without counting: %v", err)
	case <-time.After(testenv.Quiet(200 * time.Millisecond)):
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "one.json"))
	if count, _ := wire.Get(data, "metadata"); err != nil || !strings.Contains(string(count), `"executionCount": 1`) {
		t.Errorf("%s, %v", data, err)
	}
}

// TestCloseAgain checks that Close may be called again, also concurrently.
func TestCloseAgain(t *testing.T) {
	t.Parallel()
	h, err := New(testConfig(t, inOwnProcess(upstreamOf("raw", "raw"))), Options{Version: "test", Log: slog.New(slog.DiscardHandler), CacheDir: guestCache})
	if err != nil {
		t.Fatal(err)
	}
	h.shutdownTime = maxWait
	<-h.sandbox.Ready()
	for range 2 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				if st := h.Upstreams(t.Context())[0]; st.State != servers.Closed || st.Pid != 0 {
					t.Errorf("the upstream is %s, process %d", st.State, st.Pid)
				}
			})
		}
		all.Wait()
	}
}
