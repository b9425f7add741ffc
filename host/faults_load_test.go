package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestInterleavedCalls makes 200 calls at the same time in one session over stdio. Half
// of them cannot end before the others have.
func TestInterleavedCalls(t *testing.T) {
	t.Parallel()
	const calls, times = 200, 20
	for _, upstream := range []config.Transport{config.Stdio, config.StreamableHTTP} {
		t.Run(string(upstream), func(t *testing.T) {
			w := startProxy(t, combination{config.Stdio, upstream}, mcptest.ServerOptions{})
			asked, release := make(chan struct{}, calls), make(chan struct{})
			p := pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: func(_ *mcptest.Client, m wire.Message) wire.Reply {
				asked <- struct{}{}
				<-release
				return wire.Reply{Result: fmt.Appendf(nil, `{"roots":[],"of":%s}`, m.Params)}
			}}), w.received)
			ctx := bounded(t)
			await := func(i int, done <-chan mcptest.Answer, own string) {
				select {
				case a := <-done:
					if a.Err != nil || !strings.Contains(string(a.Raw), own) {
						t.Errorf("call %d: %s %v", i, a.Raw, a.Err)
					}
				case <-ctx.Done():
					t.Fatalf("call %d is not answered", i)
				}
			}
			answers := make([]<-chan mcptest.Answer, calls)
			for i := 0; i < calls; i += 2 {
				ask := fmt.Sprintf(`{"method":"roots/list","params":{"call":"<%d>"}}`, i)
				answers[i] = p.Client.Start(fmt.Sprint(i), "tools/call", mcptest.ToolParams("ask", ask, ""))
				count := fmt.Sprintf(`{"times":%d}`, times+i)
				answers[i+1] = p.Client.Start(fmt.Sprint(i+1), "tools/call", mcptest.ToolParams("count", count, fmt.Sprint(i+1)))
			}
			for range calls / 2 {
				select {
				case <-asked:
				case <-ctx.Done():
					t.Fatal("the calls do not get through")
				}
			}
			for i := 0; i < calls; i += 2 {
				await(i+1, answers[i+1], fmt.Sprintf(`"counted":%d`, times+i))
			}
			close(release)
			for i := 0; i < calls; i += 2 {
				await(i, answers[i], fmt.Sprintf(`<%d>`, i))
			}
		})
	}
}

// TestManySessions runs many clients at the same time over HTTP. Each of them calls a
// server that they share.
func TestManySessions(t *testing.T) {
	t.Parallel()
	sessions := 150
	if *long {
		sessions = 500
	}
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	cfg := testConfig(t, up.config)
	cfg.HTTP.MaxSessions = sessions + 1 // one session may still be ending
	w := serveProxy(t, combination{config.StreamableHTTP, config.Stdio}, up.received, cfg)
	ctx := bounded(t)
	clients := make([]*mcptest.Client, sessions)
	var all sync.WaitGroup
	each := func(f func(i int)) {
		slots := make(chan struct{}, 50) // bounds the descriptors of connections
		for i := range clients {
			slots <- struct{}{}
			all.Go(func() {
				f(i)
				<-slots
			})
		}
		all.Wait()
	}
	each(func(i int) {
		clients[i] = mcptest.NewHTTP(w.url, mcptest.ClientOptions{})
		if _, err := clients[i].Initialize(ctx, mcptest.ClientParams); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
	})
	waiting := make([]<-chan mcptest.Answer, sessions)
	each(func(i int) { // all of these are in flight at the same time
		waiting[i] = clients[i].Start("1", "tools/call", mcptest.ToolParams("wait", fmt.Sprintf(`{"n":"<%d>"}`, i), "7"))
		if _, _, err := clients[i].Log.Find(ctx, "progress", 0, mcptest.ProgressWith("7")); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
	})
	each(func(i int) {
		e, err := clients[i].Request(ctx, "2", "tools/call", mcptest.ToolParams("echo", fmt.Sprintf(`{"n":"<%d>"}`, i), ""))
		if err != nil || !strings.Contains(string(e.Raw), fmt.Sprintf(`<%d>`, i)) {
			t.Errorf("session %d: %s %v", i, e.Raw, err)
		}
		if err := clients[i].Close(ctx); err != nil {
			t.Errorf("session %d: end: %v", i, err)
		}
	})
}

// TestStalledClientDelaysNoOther checks that an HTTP client that does not read what a
// server sends to many clients does not delay the others. Nothing is lost.
func TestStalledClientDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := startProxy(t, combination{config.StreamableHTTP, config.Stdio}, mcptest.ServerOptions{})
	ctx := bounded(t)
	stalled := pair(t, w.dial(t, mcptest.ClientOptions{}), w.received)
	other := pair(t, w.dial(t, mcptest.ClientOptions{}), w.received)
	stalled.Client.Pause()
	const times, size = 2000, 500_000
	counting := stalled.Client.Start("1", "tools/call", mcptest.ToolParams("count", fmt.Sprintf(`{"times":%d}`, times), `"t"`))
	var large []<-chan mcptest.Answer
	for i := range 6 { // more than all buffers on the way hold
		arguments := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", size))
		large = append(large, stalled.Client.Start(fmt.Sprintf(`"large-%d"`, i), "tools/call", mcptest.ToolParams("echo", arguments, `"l"`)))
	}
	from := 0
	for range len(large) + 1 { // the server has all of them
		var err error
		if _, from, err = w.received.Find(ctx, "the calls", from, mcptest.Method("tools/call")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if got := failure(toolCall(t, ctx, other, "echo", fmt.Sprintf(`{"n":%d}`, i))); got != "" {
			t.Fatalf("call %d of another session: %s", i, got)
		}
	}
	stalled.Client.Resume()
	for i, answer := range append(large, counting) {
		select {
		case a := <-answer:
			if a.Err != nil || failure(a.Entry) != "" {
				t.Errorf("answer %d: %.200s %v", i, a.Raw, a.Err)
			}
		case <-ctx.Done():
			t.Fatalf("answer %d does not come", i)
		}
	}
	progress := 0
	for _, e := range stalled.Client.Log.All() {
		if mcptest.ProgressWith(`"t"`)(e) {
			progress++
		}
	}
	if progress != times {
		t.Errorf("%d of %d progress notifications", progress, times)
	}
}

// TestLargeMessages sends 16 MiB in both directions, where the transports of client and server
// differ only in the long form: otherwise 2 MiB.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	for _, c := range combinations {
		t.Run(c.String(), func(t *testing.T) {
			text := strings.Repeat("0123456789abcdef", 1<<17)
			if c.client == c.upstream || *long {
				text = strings.Repeat(text, 8)
			}
			w := startProxy(t, c, mcptest.ServerOptions{})
			p := pair(t, w.dial(t, mcptest.ClientOptions{}), w.received)
			e := toolCall(t, bounded(t), p, "echo", `{"x":"`+text+`"}`)
			if got, _ := wire.GetString(e.Msg.Result, "received", "arguments", "x"); got != text {
				t.Errorf("%d of %d bytes: %.200s", len(got), len(text), e.Raw)
			}
		})
	}
}

// TestSessionsLeaveNothing opens thousands of sessions and drops them in every way.
// Nothing is left of them. Fewer have a server of their own, because processes take
// time.
func TestSessionsLeaveNothing(t *testing.T) {
	shared, own := 200, 12
	if *long {
		shared, own = 1000, 40
	}
	t.Run("shared", func(t *testing.T) { testSessionsLeaveNothing(t, config.Shared, shared) })
	t.Run("own", func(t *testing.T) { testSessionsLeaveNothing(t, config.PerSession, own) })
}

func testSessionsLeaveNothing(t *testing.T, isolation config.Isolation, sessions int) {
	shared, own := startRaw(t, config.Stdio, mcptest.ServerOptions{}), startRaw(t, config.Stdio, mcptest.ServerOptions{})
	own.config.Name, own.config.Prefix, own.config.Isolation = "own", "own__", isolation
	cfg := testConfig(t, shared.config, own.config)
	cfg.HTTP.SessionTTL = 2 * time.Second // mostly more than clients take between requests
	cfg.HTTP.InitializeRate = 1_000_000   // a fast machine comes near the usual 50 a second
	w := serveProxy(t, combination{config.StreamableHTTP, config.Stdio}, shared.received, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Deadline(5*time.Minute))
	defer cancel()
	w.host.Upstreams(ctx)
	var all sync.WaitGroup
	slots := make(chan struct{}, 20)
	round := func(n int, end func(i int) sessionEnd) {
		for i := range n {
			slots <- struct{}{}
			all.Go(func() {
				dropSession(t, ctx, w, i, end(i))
				<-slots
			})
		}
		all.Wait()
	}
	running := w.host.upstreams.Running()
	at := w.rest(ctx, left{1 << 20, 1 << 20, running})
	round(20, func(int) sessionEnd { return deleted })
	before := w.rest(ctx, left{at.goroutines + 20, at.descriptors + 10, running})
	round(sessions, func(i int) sessionEnd { return sessionEnd(i % 4) })
	most := left{before.goroutines + 5, before.descriptors + 5, running}
	after := w.rest(ctx, most)
	t.Logf("%d sessions: before %+v, after %+v", sessions, before, after)
	if !after.within(most) {
		buf := make([]byte, 1<<20)
		t.Errorf("before %+v, after %+v\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

// sessionEnd is a way to drop a session.
type sessionEnd int

const (
	deleted  sessionEnd = iota // with DELETE
	silent                     // the client disconnects
	busy                       // the client disconnects with a call in flight
	halfOpen                   // the session is used, but no connection is left
)

// dropSession opens a session and drops it. On a busy machine, a session may be too old
// before it is dropped; then there is another one.
func dropSession(t *testing.T, ctx context.Context, w *testProxy, i int, end sessionEnd) {
	for {
		c := mcptest.NewHTTP(w.url, mcptest.ClientOptions{Forget: true})
		err := useSession(ctx, c, i, end)
		var status *mcptest.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusNotFound {
			if err != nil {
				t.Errorf("session %d: %v", i, err)
			}
			return
		}
		c.Disconnect()
	}
}

func useSession(ctx context.Context, c *mcptest.Client, i int, end sessionEnd) error {
	if _, err := c.Initialize(ctx, mcptest.ClientParams); err != nil {
		return err
	}
	if i%10 == 0 {
		if _, err := c.Request(ctx, "1", "tools/call", mcptest.ToolParams("own__echo", `{}`, "")); err != nil {
			return err
		}
	}
	switch end {
	case deleted:
		return c.Close(ctx)
	case busy:
		c.Start("2", "tools/call", mcptest.ToolParams("wait", `{}`, `"t"`))
	case halfOpen:
		c.Start("2", "tools/call", mcptest.ToolParams("wait", `{}`, ""))
		c.Drop("2")
	}
	c.Disconnect()
	return nil
}

// left counts what a Host has.
type left struct{ goroutines, descriptors, upstreams int }

func (l left) within(most left) bool {
	return l.goroutines <= most.goroutines && l.descriptors <= most.descriptors && l.upstreams <= most.upstreams
}

// rest waits until there is no more than most, or ctx ends, and returns what is left.
func (w *testProxy) rest(ctx context.Context, most left) (l left) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		l = left{goroutines: runtime.NumGoroutine(), upstreams: w.host.upstreams.Running()}
		if fds, err := os.ReadDir(filepath.Join("/proc", "self", "fd")); err == nil {
			l.descriptors = len(fds)
		}
		if l.within(most) {
			return l
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return l
		}
	}
}

// TestSessionCap checks that a client is refused while there are too many sessions,
// that it is told when to try again, and that it succeeds then.
func TestSessionCap(t *testing.T) {
	t.Parallel()
	up := startRaw(t, config.Stdio, mcptest.ServerOptions{})
	cfg := testConfig(t, up.config)
	cfg.HTTP.MaxSessions = 3
	w := serveProxy(t, combination{config.StreamableHTTP, config.Stdio}, up.received, cfg)
	ctx := bounded(t)
	var pairs []*mcptest.Pair
	for range cfg.HTTP.MaxSessions {
		pairs = append(pairs, pair(t, w.dial(t, mcptest.ClientOptions{}), w.received))
	}
	over := w.dial(t, mcptest.ClientOptions{})
	_, err := over.Initialize(ctx, mcptest.ClientParams)
	var status *mcptest.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusServiceUnavailable || status.Header.Get("Retry-After") == "" ||
		!bytes.Contains(status.Body, []byte("max_sessions")) {
		t.Errorf("over the cap: %v", err)
	}
	over.Disconnect()
	for _, p := range pairs { // the others do not notice
		if got := failure(toolCall(t, ctx, p, "echo", "{}")); got != "" {
			t.Error(got)
		}
	}
	if err := pairs[0].Client.Close(ctx); err != nil {
		t.Fatal(err)
	}
	again := pair(t, w.dial(t, mcptest.ClientOptions{}), w.received)
	if got := failure(toolCall(t, ctx, again, "echo", "{}")); got != "" {
		t.Error(got)
	}
}
