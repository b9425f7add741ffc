package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the server's end of a Conn. The test reads and writes its messages.
type peer struct {
	t  *testing.T
	in *bufio.Reader
	w  *io.PipeWriter
	r  *io.PipeReader
}

// pair makes a Conn whose server is the test. The pipes hold nothing: a write
// of the Conn blocks until the peer reads it.
func pair(t *testing.T, opts link.Options) (*Conn, *peer) {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	opts.SerialIDs = true // so that tests know the ids
	c := NewConn(fromServer, toServer, complete(opts))
	t.Cleanup(func() { c.Close() })
	return c, &peer{t: t, in: bufio.NewReader(fromClient), w: toClient, r: fromClient}
}

// complete sets the options that a test has not set.
func complete(opts link.Options) link.Options {
	if opts.Handler == nil {
		opts.Handler = link.Callbacks{}
	}
	opts.Errors = linktest.Errors{}
	return opts
}

// line reads one message.
func (p *peer) line() string {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		p.t.Fatalf("peer reads: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// want reads one message and compares it byte for byte.
func (p *peer) want(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Fatalf("peer got  %s\nwant      %s", got, want)
	}
}

// send writes one message.
func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.w, format+"\n", args...); err != nil {
		p.t.Fatalf("peer writes: %v", err)
	}
}

// message is a message as the peer reads it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// outcome is what a call returned.
type outcome struct {
	reply wire.Reply
	err   error
}

// call makes a call in the background.
func call(ctx context.Context, c *Conn, method, params string, progress func([]byte)) <-chan outcome {
	done := make(chan outcome, 1)
	var raw []byte
	if params != "" {
		raw = []byte(params)
	}
	go func() {
		reply, err := c.Call(ctx, wire.Call{Method: method, Params: raw, Progress: progress})
		done <- outcome{reply, err}
	}()
	return done
}

func TestCallKeepsBytes(t *testing.T) {
	c, p := pair(t, link.Options{})
	progress := func([]byte) {}
	tests := []struct {
		name, params string
		progress     func([]byte)
		sent         string // params as the server sees them; $ is the id
	}{
		{"no params", ``, nil, ``},
		{"numbers and order", `{ "z":123456789012345678901234567890, "a" : 1e400,"b":"\u00e9\/"}`, nil,
			`{ "z":123456789012345678901234567890, "a" : 1e400,"b":"\u00e9\/"}`},
		{"line breaks between tokens", "{\n\"a\":\r\n1}", nil, `{ "a":  1}`},
		{"array", `[1,2]`, nil, `[1,2]`},
		{"token removed", `{"_meta":{"t":9007199254740993,"progressToken":"abc"},"x":1}`, nil, `{"_meta":{"t":9007199254740993},"x":1}`},
		{"_meta is not an object", `{"_meta":5}`, nil, `{"_meta":5}`},
		{"token replaced", `{"_meta":{"progressToken":"abc","t":1.0},"x":1}`, progress, `{"_meta":{"progressToken":$,"t":1.0},"x":1}`},
		{"token added", `{"x":1}`, progress, `{"x":1,"_meta":{"progressToken":$}}`},
		{"token without params", ``, progress, `{"_meta":{"progressToken":$}}`},
	}
	outcomes := []struct{ member, value string }{
		{"result", `{"n":123456789012345678901234567890, "isError" : false,"x":{"$ref":"#/d"}}`},
		{"result", `null`},
		{"error", `{"code":-32602,"message":"m","data":{"n":9007199254740993}, "odd":1}`},
	}
	id := 0
	for _, tt := range tests {
		for _, o := range outcomes {
			id++
			done := call(t.Context(), c, "tools/call", tt.params, tt.progress)
			params := ""
			if tt.sent != "" {
				params = `,"params":` + strings.ReplaceAll(tt.sent, "$", fmt.Sprint(id))
				params = strings.ReplaceAll(params, `"`+fmt.Sprint(id)+`ref"`, `"$ref"`)
			}
			p.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call"%s}`, id, params))
			p.send(`{"jsonrpc":"2.0","id":%d,"extra":[],%q:%s}`, id, o.member, o.value)
			got := <-done
			want := wire.Reply{Result: []byte(o.value)}
			if o.member == "error" {
				want = wire.Reply{Error: []byte(o.value)}
			}
			if got.err != nil || string(got.reply.Result) != string(want.Result) || string(got.reply.Error) != string(want.Error) {
				t.Errorf("%s: got %s %s %v, want %s", tt.name, got.reply.Result, got.reply.Error, got.err, o.value)
			}
		}
	}
	var rpc *wire.RPCError
	for _, bad := range []string{`[1]`, `{"_meta":5}`} {
		if a := <-call(t.Context(), c, "m", bad, progress); !errors.As(a.err, &rpc) || rpc.Code != wire.CodeInvalidParams {
			t.Errorf("token into %s: %v", bad, a.err)
		}
	}
	if n := c.rpc.Calls(); n != 0 {
		t.Errorf("%d calls are still pending", n)
	}
}

func TestProgressComesInOrderAndBeforeTheAnswer(t *testing.T) {
	c, p := pair(t, link.Options{})
	const n = 2000
	next := 0
	done := call(t.Context(), c, "m", "{}", func(params []byte) {
		if want := fmt.Sprintf(`{"progressToken":1,"progress":%d,"x":1e400}`, next); string(params) != want {
			t.Errorf("progress %d: got %s", next, params)
		}
		next++
	})
	p.line()
	for i := range n {
		p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d,"x":1e400}}`, i)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":1}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/progress"}`)
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if a := <-done; a.err != nil || next != n {
		t.Fatalf("%d of %d before the answer, %v", next, n, a.err)
	}
	// Progress after the answer is ignored.
	p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
	done = call(t.Context(), c, "m", "", nil)
	p.line()
	p.send(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	if a := <-done; a.err != nil || next != n {
		t.Fatalf("%d of %d, %v", next, n, a.err)
	}
}

func TestNoProgressAfterReturn(t *testing.T) {
	c, p := pair(t, link.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	entered, leave := make(chan struct{}), make(chan struct{})
	inside := false
	done := call(ctx, c, "m", "{}", func([]byte) {
		inside = true // the race detector sees a use after the return
		close(entered)
		<-leave
		inside = false
	})
	p.line()
	p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`)
	<-entered
	cancel()
	p.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"context canceled"}}`)
	select {
	case <-done:
		t.Fatal("returned while progress was running")
	default:
	}
	close(leave)
	if a := <-done; !errors.Is(a.err, context.Canceled) || inside {
		t.Fatalf("%v, inside %v", a.err, inside)
	}
}

func TestCancel(t *testing.T) {
	garbage := make(chan string, 10)
	c, p := pair(t, link.Options{Garbage: func(reason string, _ []byte) { garbage <- reason }})
	tests := []struct {
		name  string
		cause error
		want  string
	}{
		{"by the client", &wire.CancelledError{Params: []byte(`{ "reason":"no\u0020need","requestId":"theirs","_meta":{"n":9007199254740993}}`)},
			`{ "reason":"no\u0020need","requestId":$,"_meta":{"n":9007199254740993}}`},
		{"by the client, malformed", &wire.CancelledError{Params: []byte(`[]`)}, `{"requestId":$,"reason":"cancelled by the client"}`},
		{"wrapped", fmt.Errorf("run: %w", &wire.CancelledError{Params: []byte(`{}`)}), `{"requestId":$}`},
		{"by us", errors.New(`the "run" ended`), `{"requestId":$,"reason":"the \"run\" ended"}`},
	}
	for i, tt := range tests {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := call(ctx, c, "m", "", nil)
		p.line()
		cancel(tt.cause)
		if a := <-done; a.err != tt.cause {
			t.Errorf("%s: got %v", tt.name, a.err)
		}
		id := fmt.Sprint(i + 1)
		p.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + strings.ReplaceAll(tt.want, "$", id) + `}`)
	}
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // a late answer is not garbage
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) // a second answer is
	if got := <-garbage; !strings.Contains(got, "second answer") {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := call(ctx, c, "initialize", "", nil)
	p.line()
	cancel()
	if a := <-done; !errors.Is(a.err, context.Canceled) {
		t.Error(a.err)
	}
	done = call(t.Context(), c, "next", "", nil)
	p.want(`{"jsonrpc":"2.0","id":6,"method":"next"}`) // without a cancellation of initialize before it
	p.send(`{"jsonrpc":"2.0","id":6,"result":{}}`)
	if a := <-done; a.err != nil {
		t.Error(a.err)
	}
}

// TestServerThatDoesNotRead checks that calls end with their context while the server
// has read only the beginning of a message, and what the server gets when it reads on.
func TestServerThatDoesNotRead(t *testing.T) {
	c, p := pair(t, link.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	halfway := call(ctx, c, "halfway", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`, nil)
	first, err := p.in.ReadByte() // reads up to 4 KiB into the buffer of p.in
	if err != nil {
		t.Fatal(err)
	}
	var waiting []<-chan outcome
	for range 50 {
		waiting = append(waiting, call(ctx, c, "waiting", "", nil))
	}
	reason := errors.New("enough")
	cancel(reason)
	for _, done := range append(waiting, halfway) {
		if a := <-done; a.err != reason {
			t.Fatalf("got %v", a.err)
		}
	}
	if err := c.Notify(ctx, "notifications/x", nil); err != reason {
		t.Errorf("notify: %v", err)
	}
	after := call(t.Context(), c, "after", "", nil)
	// The server reads on. It gets the rest of the first message, its cancellation, and
	// none of the calls that only waited.
	var m message
	if err := json.Unmarshal([]byte(string(first)+p.line()), &m); err != nil || m.Method != "halfway" {
		t.Fatalf("%v, %s", err, m.Method)
	}
	p.want(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`, m.ID))
	if err := json.Unmarshal([]byte(p.line()), &m); err != nil || m.Method != "after" {
		t.Fatalf("%v, %s", err, m.Method)
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	if a := <-after; a.err != nil {
		t.Fatal(a.err)
	}
}

func TestConcurrentCallsInterleave(t *testing.T) {
	c, p := pair(t, link.Options{})
	const n = 200
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			want := fmt.Sprintf(`{"i":%d}`, i)
			reply, err := c.Call(t.Context(), wire.Call{Method: "echo", Params: []byte(want)})
			if err != nil || string(reply.Result) != want {
				t.Errorf("call %d: got %s, %v", i, reply.Result, err)
			}
		})
	}
	msgs := make([]message, n)
	for i := range msgs {
		if err := json.Unmarshal([]byte(p.line()), &msgs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range msgs { // not in the order of the calls
		m := msgs[(i*77+13)%n]
		p.send(`{"jsonrpc":"2.0","result":%s,"id":%s}`, m.Params, m.ID)
	}
	wg.Wait()
}

func TestEnd(t *testing.T) {
	readErr := errors.New("cable cut")
	tests := []struct {
		name   string
		end    func(c *Conn, p *peer)
		reason string
		is     error
	}{
		{"end of stream", func(_ *Conn, p *peer) { p.w.Close() }, "it closed its output", io.EOF},
		{"half a line", func(_ *Conn, p *peer) { io.WriteString(p.w, `{"jsonrpc":"2.0","id":1,"res`); p.w.Close() }, "it closed its output", io.EOF},
		{"read error", func(_ *Conn, p *peer) { p.w.CloseWithError(readErr) }, "cable cut", readErr},
		{"our Close", func(c *Conn, _ *peer) { c.Close() }, "connection closed", wire.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, p := pair(t, link.Options{})
			if c.Err() != nil {
				t.Error(c.Err())
			}
			done := call(t.Context(), c, "m", "", nil)
			p.line()
			tt.end(c, p)
			check := func(err error) {
				t.Helper()
				down := linktest.As(err, linktest.Down)
				if down == nil || !strings.Contains(down.Reason, tt.reason) || !errors.Is(err, tt.is) {
					t.Errorf("got %v", err)
				}
			}
			inFlight := (<-done).err
			check(inFlight)
			<-c.Done()
			check(c.Err())
			after := (<-call(t.Context(), c, "m", "", nil)).err
			check(after)
			if linktest.Unsent(inFlight) || linktest.Unsent(c.Err()) || !linktest.Unsent(after) {
				t.Error("only the call after the end is marked as unsent")
			}
			check(c.Notify(t.Context(), "n", nil))
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServerThatClosesItsInput(t *testing.T) {
	c, p := pair(t, link.Options{})
	p.r.Close()
	a := <-call(t.Context(), c, "m", "", nil)
	if down := linktest.As(a.err, linktest.Down); down == nil || !strings.Contains(down.Reason, "does not read") {
		t.Errorf("got %v", a.err)
	}
	if err := c.Notify(t.Context(), "m", nil); linktest.As(err, linktest.Down) == nil {
		t.Errorf("got %v", err)
	}
}

func TestCloseInTheMiddleOfAWrite(t *testing.T) {
	c, p := pair(t, link.Options{})
	done := call(t.Context(), c, "m", "", nil)
	if _, err := p.r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if a := <-done; !errors.Is(a.err, wire.ErrClosed) {
		t.Errorf("got %v", a.err)
	}
}
