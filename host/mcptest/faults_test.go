package mcptest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// faultCases list how a client observes each fault: the number of answers, whether
// the connection still works, and other messages.
var faultCases = []struct {
	fault   string // arguments of the tool
	answers int
	lives   bool
	stdio   bool // over stdio only
	seen    func(e Entry) bool
}{
	{fault: `{"kind":"crash-before"}`},
	{fault: `{"kind":"crash-during"}`, seen: func(e Entry) bool {
		return e.Stream != "stdio" || bytes.HasPrefix(e.Raw, []byte(`{"jsonrpc":"2.0","id":`))
	}},
	{fault: `{"kind":"crash-after"}`, answers: 1},
	{fault: `{"kind":"hang"}`, lives: true},
	{fault: `{"kind":"slow","size":7}`, answers: 1, lives: true},
	{fault: `{"kind":"garbage","count":3}`, answers: 1, lives: true, seen: func(e Entry) bool { return string(e.Raw) == "this is not JSON-RPC" }},
	{fault: `{"kind":"flood","count":500,"size":100}`, answers: 1, lives: true, seen: func(e Entry) bool { return len(e.Raw) > 150 && e.Msg.Method == "notifications/message" }},
	{fault: `{"kind":"huge-line","size":3000000}`, answers: 1, lives: true, seen: func(e Entry) bool { return len(e.Raw) > 3_000_000 }},
	{fault: `{"kind":"wrong-id"}`, answers: 1, lives: true, seen: ResponseTo("987654321")},
	{fault: `{"kind":"only-wrong-id"}`, lives: true, seen: ResponseTo("987654321")},
	{fault: `{"kind":"duplicate","count":3}`, answers: 3, lives: true},
	{fault: `{"kind":"close-stdout"}`},
	{fault: `{"kind":"half-line"}`, stdio: true, seen: func(e Entry) bool { return strings.Count(string(e.Raw), "jsonrpc") == 2 }}, // the next answer is on the same line
}

func TestFaults(t *testing.T) {
	for _, tr := range transports {
		for _, tt := range faultCases {
			if tt.stdio && tr.name != "stdio" {
				continue
			}
			t.Run(tr.name+"/"+tt.fault, func(t *testing.T) {
				ctx := testContext(t)
				c, log := tr.dial(t, ServerOptions{}, ClientOptions{})
				defer c.Disconnect()
				if _, err := c.Initialize(ctx, ClientParams); err != nil {
					t.Fatal(err)
				}
				broken := c.Start(`"f"`, "tools/call", ToolParams("fault", tt.fault, ""))
				if _, _, err := log.Find(ctx, "the call", 0, CallOf("fault")); err != nil {
					t.Fatal(err)
				}
				if tt.answers > 0 {
					if a := <-broken; a.Err != nil {
						t.Fatal(a.Err)
					}
				}
				lives := tt.lives || strings.Contains(tt.fault, CloseStdout) && strings.HasPrefix(tr.name, "http")
				switch {
				case lives:
					if _, err := c.Request(ctx, "2", "ping", ""); err != nil {
						t.Errorf("afterwards: %v", err)
					}
				case tt.stdio: // the half line may come after other answers
					for n, glued := 2, false; !glued; n++ {
						c.Start(fmt.Sprint(n), "ping", "")
						e, _, err := c.Log.Find(ctx, "what is glued", 0, func(e Entry) bool { return tt.seen(e) || ResponseTo(fmt.Sprint(n))(e) })
						if err != nil {
							t.Fatal(err)
						}
						glued = tt.seen(e)
					}
				default:
					if tt.answers == 0 { // the end comes before what is next
						if a := <-broken; a.Err == nil {
							t.Errorf("answered: %s", a.Raw)
						}
					}
					if _, err := c.Request(ctx, "2", "ping", ""); err == nil && tt.answers == 0 {
						t.Error("it lives")
					}
				}
				if tr.name == "stdio" { // repeated answers may come after others
					for from, n := 0, 0; n < tt.answers; n++ {
						var err error
						if _, from, err = c.Log.Find(ctx, "an answer", from, ResponseTo(`"f"`)); err != nil {
							t.Fatal(err)
						}
					}
				}
				p := &Pair{Client: c}
				if n := p.answersSince(0, `"f"`); n != tt.answers && (tr.name == "stdio" || tt.answers < 2) {
					t.Errorf("%d answers", n)
				}
				if tt.seen != nil && tt.lives {
					if _, _, err := c.Log.Find(ctx, tt.fault, 0, tt.seen); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

func TestAnswerAfterCancel(t *testing.T) {
	for _, tr := range transports {
		ctx := testContext(t)
		c, log := tr.dial(t, ServerOptions{Faults: map[string]Fault{"echo": {Kind: AfterCancel, Times: 1, Skip: 1}}}, ClientOptions{})
		if _, err := c.Initialize(ctx, ClientParams); err != nil {
			t.Fatal(err)
		}
		p := &Pair{Client: c, Server: log}
		if _, err := p.call(ctx, "echo", "{}"); err != nil { // skipped
			t.Fatal(err)
		}
		c.Start(`"late"`, "tools/call", ToolParams("echo", `{"second":1}`, ""))
		if _, _, err := log.Find(ctx, "the call", 0, func(e Entry) bool { return bytes.Contains(e.Raw, []byte(`"second"`)) }); err != nil {
			t.Fatal(err)
		}
		if err := c.Notify("notifications/cancelled", `{"requestId":"late"}`); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Log.Find(ctx, "a late answer", 0, ResponseTo(`"late"`)); err != nil {
			t.Errorf("%s: %v", tr.name, err)
		}
		if _, err := p.call(ctx, "echo", "{}"); err != nil { // no more
			t.Errorf("%s: %v", tr.name, err)
		}
		if err := c.Close(ctx); err != nil {
			t.Errorf("%s: %v", tr.name, err)
		}
	}
}

func TestExitsOnStart(t *testing.T) {
	ctx := testContext(t)
	sw := ServerOptions{ExitOnStart: 2, StartsFile: filepath.Join(t.TempDir(), "starts")}
	for i := range 3 {
		c, log := dialProcess(t, sw, ClientOptions{})
		_, err := c.Initialize(ctx, ClientParams)
		if started := err == nil; started != (i == 2) {
			t.Errorf("start %d: %v", i, err)
		}
		c.Disconnect()
		if i == 2 {
			if _, _, err := log.Find(ctx, "the end", 0, func(e Entry) bool { return string(e.Raw) == "ended" }); err != nil {
				t.Error(err)
			}
		}
	}
}

// pipes connects a client to a server in this process.
func pipes(t *testing.T, sw ServerOptions, opts ClientOptions) (*Client, *Server) {
	s := NewServer(sw)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan struct{})
	go func() {
		s.ServeStdio(inR, outW)
		close(served)
	}()
	t.Cleanup(func() { s.Close(); <-served })
	return NewStdio(outR, inW, opts), s
}

func TestCrashInProcess(t *testing.T) {
	ctx := testContext(t)
	for _, kind := range []string{CrashBefore, CrashDuring, CloseStdout} {
		c, s := pipes(t, ServerOptions{Faults: map[string]Fault{"ping": {Kind: kind}}}, ClientOptions{})
		if _, err := c.Request(ctx, "1", "ping", ""); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", kind, err)
		}
		if n := s.Sessions(); kind != CloseStdout && n != 0 {
			t.Errorf("%s: %d sessions", kind, n)
		}
		c.Disconnect()
	}
}

// TestStopReading checks that a server can stop reading in the middle of a flood, which
// blocks the client until the server is closed.
func TestStopReading(t *testing.T) {
	c, s := pipes(t, ServerOptions{Faults: map[string]Fault{"ping": {Kind: StopReading}}}, ClientOptions{})
	ended := c.Start("1", "ping", "")
	if _, _, err := s.Received.Find(testContext(t), "ping", 0, Method("ping")); err != nil {
		t.Fatal(err)
	}
	blocked := make(chan error)
	go func() { blocked <- c.Notify("x", "") }()
	select {
	case err := <-blocked:
		t.Errorf("the server read on: %v", err)
	case a := <-ended:
		t.Errorf("answered: %v", a)
	default:
	}
	c.Disconnect()
	if err := <-blocked; err == nil {
		t.Error("the server read on")
	}
	if a := <-ended; a.Err == nil {
		t.Errorf("answered: %s", a.Raw)
	}
}

// TestClientThatStopsReading checks that a client that pauses until the connection
// is full gets all messages when it resumes.
func TestClientThatStopsReading(t *testing.T) {
	for _, tr := range transports {
		ctx := testContext(t)
		c, log := tr.dial(t, ServerOptions{}, ClientOptions{})
		if _, err := c.Initialize(ctx, ClientParams); err != nil {
			t.Fatal(err)
		}
		c.Pause()
		answer := c.Start("1", "tools/call", ToolParams("fault", `{"kind":"flood","count":300,"size":20000}`, ""))
		if _, _, err := log.Find(ctx, "the call", 0, CallOf("fault")); err != nil {
			t.Fatal(err)
		}
		select {
		case a := <-answer:
			t.Errorf("%s: answered: %v", tr.name, a.Err)
		default:
		}
		c.Resume()
		if a := <-answer; a.Err != nil {
			t.Errorf("%s: %v", tr.name, a.Err)
		}
		n := 0
		for _, e := range c.Log.All() {
			if e.Msg.Method == "notifications/message" {
				n++
			}
		}
		if n != 300 {
			t.Errorf("%s: %d of 300", tr.name, n)
		}
		c.Disconnect()
	}
}

// TestReusedIDs checks that two requests in flight with the same id are both
// answered, in the order of the requests.
func TestReusedIDs(t *testing.T) {
	c, _ := pipes(t, ServerOptions{}, ClientOptions{})
	first := c.Start("1", "tools/call", ToolParams("instead", `{"text":"a"}`, ""))
	a := <-first
	second, third := c.Start("1", "ping", ""), c.Start("1", "ping", "")
	for _, done := range []<-chan Answer{second, third} {
		if b := <-done; b.Err != nil || string(b.Msg.Result) != "{}" {
			t.Errorf("%s %v", b.Raw, b.Err)
		}
	}
	if text, _ := wire.Get(a.Msg.Result, "content"); string(text) != `[{"type":"text","text":"a"}]` {
		t.Errorf("%s", a.Raw)
	}
	c.Disconnect()
}

func TestForgottenSessions(t *testing.T) {
	ctx := testContext(t)
	s := NewServer(ServerOptions{})
	c := NewHTTP(listen(t, s, s.HTTP()), ClientOptions{})
	defer c.Disconnect()
	if _, err := c.Initialize(ctx, ClientParams); err != nil {
		t.Fatal(err)
	}
	s.ForgetSessions()
	var status *StatusError
	if _, err := c.Request(ctx, "1", "ping", ""); !errors.As(err, &status) || status.Code != 404 {
		t.Errorf("%v", err)
	}
}

func TestSSEParsing(t *testing.T) {
	const stream = ": comment\n\nid: 1\nretry: 7\ndata:\n\nevent: message\r\ndata: a\r\ndata:b\r\n\r\nid\ndata: c\n\nfield: x\ndata: unfinished"
	var got []string
	err := readEvents(strings.NewReader(stream), func(e event) bool {
		if e.data != nil || e.id != "" {
			got = append(got, fmt.Sprintf("%s|%q|%s|%v", e.name, e.data, e.id, e.retry))
		}
		return true
	})
	want := []string{`|""|1|7ms`, `message|"a\nb"|1|7ms`, `|"c"||7ms`}
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
