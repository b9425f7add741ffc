package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// fixture is an Upstream whose server is the test binary in some mode; see serverMain.
type fixture struct {
	*Upstream
	log   mcptest.Buffer
	tools chan []string  // names of each listing of tools
	notes chan string    // methods and params of notifications
	here  sync.WaitGroup // servers in the process of the tests
}

// spec returns the Spec of a server in some mode. It is not restarted.
func spec(mode string, env ...string) Spec {
	return Spec{Name: "x", Command: os.Args[0], Env: append(env, serverEnv+"="+mode, "GORACE=atexit_sleep_ms=0"), Restart: RestartNever}
}

// fastTimings make no step of a shutdown depend on the clock, and restart at once.
var fastTimings = timings{grace: time.Minute, killWait: time.Minute, firstDelay: time.Millisecond, maxDelay: time.Millisecond, stableAfter: time.Hour, callWait: time.Minute, askAgain: time.Millisecond, discover: time.Minute, patience: time.Minute}

func launch(t *testing.T, s Spec) *fixture {
	t.Helper()
	return launchWith(t, s, Options{}, fastTimings)
}

// launchWith starts an upstream that is closed at the end of the test. It sets the
// options that are missing in opts.
func launchWith(t *testing.T, s Spec, opts Options, with timings) *fixture {
	t.Helper()
	f := &fixture{tools: make(chan []string, 10), notes: make(chan string, 100)}
	opts.Log = slog.New(slog.NewTextHandler(&f.log, nil))
	opts.ClientName, opts.ClientVersion = "test", "0"
	if opts.OnList == nil {
		opts.OnList = func(l List) {
			if l.Surface == wire.Tools {
				f.tools <- keys(l.Surface, l.Items)
			}
		}
	}
	if opts.OnNotification == nil {
		opts.OnNotification = func(m wire.Inbound) { f.notes <- m.Method + string(m.Params) }
	}
	if opts.Streams == nil {
		opts.Streams = f.streams
	}
	f.Upstream = start(s, opts, with)
	t.Cleanup(func() { f.stop(t) })
	return f
}

// keys returns the key of each item.
func keys(s wire.Surface, items [][]byte) []string {
	var names []string
	for _, item := range items {
		name, _ := wire.GetString(item, s.Key())
		names = append(names, name)
	}
	return names
}

// toolCall returns a call of a tool without arguments.
func toolCall(tool string) wire.Call {
	return wire.Call{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q}`, tool)}
}

// stop kills the server, without the steps of a shutdown.
func (f *fixture) stop(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		<-f.done // on a slow machine the kill takes longer than Close waits
	}
	f.here.Wait()
}

// call calls a tool and returns the result.
func (f *fixture) call(t *testing.T, tool string) string {
	t.Helper()
	reply, err := f.Call(t.Context(), toolCall(tool))
	if err != nil || reply.Error != nil {
		t.Fatalf("%s: %s %v", tool, reply.Error, err)
	}
	return string(reply.Result)
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	f := launch(t, spec("ok"))
	<-f.Started()
	s := f.Status()
	if s.Name != "x" || s.State != Ready || s.ServerName != "raw" || s.ServerVersion != "1.2" || s.ProtocolVersion != "2025-06-18" ||
		s.Tools != 2 || s.StartTime <= 0 || s.Pid == 0 || s.Err != "" || s.Since.IsZero() {
		t.Errorf("status %+v", s)
	}
	if got := <-f.tools; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("tools %v", got)
	}
	const params = `{"name":"echo","arguments":{"n":123456789012345678901234567890,"f":1.0,"e":1E5},"_meta":{"trace":"\u00e9"},"unknown":[null]}`
	reply, err := f.Call(t.Context(), wire.Call{Method: "tools/call", Params: []byte(params)})
	if err != nil || string(reply.Result) != params {
		t.Errorf("echo: %s, %v", reply.Result, err)
	}
	reply, err = f.Call(t.Context(), toolCall("nosuch"))
	if err != nil || string(reply.Error) != `{"code":-32602,"message":"no such tool","data":{"n":9007199254740993}}` {
		t.Errorf("error: %s, %v", reply.Error, err)
	}
	if got := f.call(t, "ask"); got != "{}" { // the server pings us and answers with our answer
		t.Errorf("ask: %s", got)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if s := f.Status(); s.State != Closed || s.Pid != 0 {
		t.Errorf("status %+v", s)
	}
	if _, err := f.Call(t.Context(), wire.Call{Method: "m"}); !errors.Is(err, wire.ErrClosed) {
		t.Error(err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUpstreamProgress(t *testing.T) {
	t.Parallel()
	f := launch(t, here("ok"))
	next := 0
	_, err := f.Call(t.Context(), wire.Call{Method: "tools/call", Params: []byte(`{"name":"flood","_meta":{"progressToken":"theirs"}}`), Progress: func(params []byte) {
		if got, _ := wire.Get(params, "progress"); string(got) != fmt.Sprint(next) {
			t.Errorf("got %s, want %d", params, next)
		}
		next++
	}})
	if err != nil || next != 2000 {
		t.Fatalf("%d of 2000 before the answer, %v", next, err)
	}
}

func TestUpstreamConcurrentCalls(t *testing.T) {
	t.Parallel()
	f := launch(t, here("ok"))
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			params := fmt.Appendf(nil, `{"name":"echo","i":%d,"pad":%q}`, i, strings.Repeat("p", i*100))
			reply, err := f.Call(t.Context(), wire.Call{Method: "tools/call", Params: params})
			if err != nil || !bytes.Equal(reply.Result, params) {
				t.Errorf("call %d: %.100s, %v", i, reply.Result, err)
			}
		})
	}
	wg.Wait()
}

func TestUpstreamCancel(t *testing.T) {
	t.Parallel()
	f := launch(t, here("ok"))
	<-f.Started()
	for _, tool := range []string{"hang", "late"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := f.Call(ctx, toolCall(tool))
			done <- err
		}()
		if got := <-f.notes; got != `notifications/message{"data":"hanging"}` {
			t.Fatal(got)
		}
		cause := &wire.CancelledError{Params: fmt.Appendf(nil, `{"requestId":"c1","reason":%q}`, tool)}
		cancel(cause)
		if err := <-done; err != cause {
			t.Fatal(err)
		}
	}
	var got struct {
		Late, Hang string
		Params     []struct {
			RequestID json.Number `json:"requestId"`
			Reason    string      `json:"reason"`
		}
	}
	mustUnmarshal(t, f.call(t, "cancelled"), &got)
	if len(got.Params) != 2 || got.Params[0].RequestID.String() != got.Hang || got.Params[0].Reason != "hang" ||
		got.Params[1].RequestID.String() != got.Late || got.Params[1].Reason != "late" {
		t.Errorf("the server got %+v", got)
	}
	if log := f.log.String(); strings.Contains(log, "garbage") {
		t.Error(log)
	}
}

func TestUpstreamTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := here("ok")
		f := launch(t, s)
		<-f.Started()
		f.spec.Timeout = time.Millisecond // not before the handshake, which it also limits
		var timeout *TimeoutError
		_, err := f.Call(t.Context(), toolCall("hang"))
		if !errors.As(err, &timeout) || timeout.Method != "tools/call" || timeout.Upstream != "x" || errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		f.spec.Timeout = time.Minute
		if got := f.call(t, "cancelled"); !strings.Contains(got, `no answer to tools/call within 1ms`) {
			t.Errorf("the server got %s", got)
		}
	})
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		spec Spec
		want string
	}{
		{"no such command", Spec{Name: "x", Command: "surely-no-such-command"},
			`upstream "x": command "surely-no-such-command" not found in PATH (install it or give the full path)`},
		{"no command", Spec{Name: "x"}, `no command`},
		{"no such path", Spec{Name: "x", Command: filepath.Join(dir, "nosuch")}, `cannot be run`},
		{"not executable", Spec{Name: "x", Command: plain}, `cannot be run`},
		{"no such cwd", Spec{Name: "x", Command: os.Args[0], Dir: filepath.Join(dir, "nosuch")}, `is not a directory`},
		{"exits at once", spec("exit"), "exit status 3"},
		{"exits at once, stderr", spec("exit"), "cannot open the database"},
		{"refuses", here("refuses"), "server refused initialize: no licence (code -32000)"},
		{"old", here("old"), `protocol revision "1999-01-01"`},
		{"list fails", here("list fails"), "server refused tools/list: backend gone (code -32603)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Restart = RestartNever // else the state may be Starting again
			f := launch(t, tt.spec)
			_, err := f.Call(t.Context(), wire.Call{Method: "m"}) // waits for the start
			var down *DownError
			if !errors.As(err, &down) || down.Upstream != "x" {
				t.Errorf("call: %v", err)
			}
			if strings.Contains(err.Error(), "database") {
				t.Errorf("stderr in an error for clients: %v", err)
			}
			s := f.Status()
			if s.State != Failed || !strings.Contains(s.Err, tt.want) || strings.Count(s.Err, `upstream "x"`) != 1 {
				t.Errorf("status %+v", s)
			}
			if !strings.Contains(f.log.String(), "upstream failed") {
				t.Errorf("log %s", f.log.String())
			}
		})
	}
}

func TestHangInInitialize(t *testing.T) {
	t.Parallel()
	b := newProcessMonitor(t)
	running := make(chan *Upstream, 1)
	f := launchWith(t, spec("hang", b.env()), Options{InitializeParams: func(context.Context) ([]byte, error) {
		(<-running).spec.Timeout = 10 * time.Millisecond // not for the start of the process, which it also limits
		return []byte("{}"), nil
	}}, fastTimings)
	_, _, r := b.next()
	running <- f.Upstream
	<-f.Started()
	if s := f.Status(); s.State != Failed || !strings.Contains(s.Err, "no answer to initialize within 10ms (raise its timeout)") {
		t.Errorf("status %+v", s)
	}
	awaitEnd(r) // it exits at the end of its input
}

func TestCrash(t *testing.T) {
	t.Parallel()
	f := launch(t, spec("third call kills"))
	hanging := make(chan error, 1)
	go func() {
		_, err := f.Call(t.Context(), toolCall("hang"))
		hanging <- err
	}()
	<-f.notes
	f.call(t, "echo")
	_, err := f.Call(t.Context(), toolCall("echo"))
	for _, err := range []error{err, <-hanging} {
		var down *DownError
		if !errors.As(err, &down) || down.Reason != "its process ended: exit status 7 (what it wrote to stderr is in the log)" {
			t.Errorf("got %v", err)
		}
	}
	<-f.done // without Close
	s := f.Status()
	if s.State != Failed || s.Pid != 0 || !strings.Contains(s.Err, "on stderr:\n\uFFFD[31mout of \uFFFD luck\uFFFD[0m") {
		t.Errorf("status %+v", s)
	}
	if log := f.log.String(); !strings.Contains(log, "msg=stderr upstream=x line=\"\uFFFD[31mout of") {
		t.Errorf("log %s", log)
	}
	if _, err := f.Call(t.Context(), wire.Call{Method: "m"}); err == nil {
		t.Error("a call of a dead upstream succeeded")
	}
}

func TestFaultyServers(t *testing.T) {
	tests := []struct{ tool, reason string }{
		{"half line", "its process ended: exit status 0"},
		{"closes stdout", "its process ended"}, // because we shut it down
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			if tt.tool == "closes stdout" {
				defer func(d time.Duration) { exitWait = d }(exitWait)
				exitWait, tt.reason = time.Nanosecond, "it closed its output"
			}
			f := launch(t, spec("ok"))
			_, err := f.Call(t.Context(), toolCall(tt.tool))
			var down *DownError
			if !errors.As(err, &down) || !strings.HasPrefix(down.Reason, tt.reason) {
				t.Errorf("got %v", err)
			}
			<-f.done
		})
	}
	t.Run("closes stdin", func(t *testing.T) {
		f := launch(t, spec("ok"))
		f.call(t, "closes stdin")
		var down *DownError
		if _, err := f.Call(t.Context(), toolCall("echo")); !errors.As(err, &down) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("stop reading", func(t *testing.T) {
		f := launch(t, spec("ok"))
		f.call(t, "stop reading")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				params := fmt.Appendf(nil, `{"name":"echo","pad":%q}`, strings.Repeat("p", 1<<20))
				if _, err := f.Call(ctx, wire.Call{Method: "tools/call", Params: params}); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		cancel()
		wg.Wait()
	})
	t.Run("chatty", func(t *testing.T) {
		f := launch(t, here("chatty"))
		f.call(t, "echo")
		if log := f.log.String(); !strings.Contains(log, `line="Server is starting on stdio..."`) {
			t.Error(log)
		}
	})
}

func TestListing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode  string
		names []string
		warn  string
	}{
		{"paged", []string{"one", "two"}, "item without a name was left out"},
		{"paged", []string{"one", "two"}, "second item with the same name was left out"},
		{"looping", []string{"t", "tA", "tB"}, "repeats a cursor"},
		{"no tools", nil, ""},
	} {
		f := launch(t, here(tt.mode))
		if got := <-f.tools; !slices.Equal(got, tt.names) {
			t.Errorf("%s: tools %v", tt.mode, got)
		}
		if log := f.log.String(); !strings.Contains(log, tt.warn) {
			t.Errorf("%s: log %s", tt.mode, log)
		}
	}
	f := launch(t, here("endless"))
	if got := <-f.tools; len(got) != maxPages || !strings.Contains(f.log.String(), "does not end") {
		t.Errorf("endless: %d tools", len(got))
	}
}

// TestListsAreBounded checks that a list that is larger than it may be, or for which there is no
// memory, is not used, and that the error says which list, and what was exceeded.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	endless := here("endless")
	endless.MaxList, endless.Restart = 10_000, RestartNever
	full := func(wire.Surface, int64) error {
		return &budget.FullError{What: "lists of this server", Bytes: 30 << 20, Share: 20 << 20, Most: 25 << 20}
	}
	small := here("ok")
	small.Restart = RestartNever
	for want, f := range map[string]*fixture{
		`upstream "x": start failed: its list of tools is larger than 10000 bytes (raise max_list)`: launch(t, endless),
		`upstream "x": start failed: its list of tools is not used: no memory: the lists of this server would be 30MiB, above the current share of 20MiB, ` +
			`of 25MiB for all together (raise execution.max_total_memory)`: launchWith(t, small, Options{KeepList: full}, fastTimings),
	} {
		if err := f.Ready(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFailedRelistKeepsTheUpstream(t *testing.T) {
	t.Parallel()
	f := launch(t, here("second list fails"))
	<-f.tools
	f.call(t, "change once") // listing fails, and the server announces another change
	<-f.tools
	if s := f.Status(); s.State != Ready || s.Tools != 2 || !strings.Contains(s.Err, "backend gone") {
		t.Errorf("status %+v", s)
	}
	f.call(t, "echo")
}

// TestStartWithoutCallbacks checks an upstream with the zero Options.
func TestStartWithoutCallbacks(t *testing.T) {
	t.Parallel()
	u := Start(spec("ok"), Options{})
	if _, err := u.Call(t.Context(), toolCall("change once")); err != nil {
		t.Error(err)
	}
	if u.spec.Timeout != DefaultTimeout || u.timings != defaultTimings {
		t.Errorf("timeout %v, timings %+v", u.spec.Timeout, u.timings)
	}
	if err := u.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestListChanged(t *testing.T) {
	t.Parallel()
	f := launch(t, here("ok"))
	<-f.tools
	f.call(t, "change") // announced 50 times
	listings := 0
	for got := range f.tools {
		listings++
		if slices.Equal(got, []string{"a", "b", "new1"}) {
			break
		}
	}
	f.call(t, "change")
	for got := range f.tools {
		listings++
		if slices.Equal(got, []string{"a", "b", "new1", "new2"}) {
			break
		}
	}
	if listings > 10 {
		t.Errorf("%d listings for two changes", listings)
	}
	for range 100 { // every notification is passed on
		if got := <-f.notes; got != "notifications/tools/list_changed" {
			t.Fatal(got)
		}
	}
}

func mustUnmarshal(t testing.TB, raw string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), v); err != nil {
		t.Fatalf("%v: %.200s", err, raw)
	}
}
