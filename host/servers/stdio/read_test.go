package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

func TestGarbageIsReportedAndSurvived(t *testing.T) {
	type junk struct{ reason, raw string }
	garbage := make(chan junk, 1)
	c, p := pair(t, link.Options{MaxMessage: 1000, Garbage: func(reason string, raw []byte) { garbage <- junk{reason, string(raw)} }})
	done := call(t.Context(), c, "m", "", nil)
	p.line()
	long := strings.Repeat("x", 2000)
	for _, tt := range []struct{ line, reason string }{
		{"Server listening on stdio", "parse error"},
		{"\xff\xfe\x00", "parse error"},
		{`[{"jsonrpc":"2.0","id":1,"result":{}}]`, "a message is a JSON object"},
		{`{"jsonrpc":"2.0","id":7,"result":{}`, "parse error"},
		{`{"jsonrpc":"2.0","id":"01","result":{}}`, "never made"},
		{`{"jsonrpc":"2.0","id":1.5,"result":{}}`, "never made"},
		{`{"jsonrpc":"2.0","id":0,"result":{}}`, "never made"},
		{`{"jsonrpc":"2.0","id":-1,"result":{}}`, "never made"},
		{`{"jsonrpc":"2.0","id":2,"result":{}}`, "never made"},
		{`{"jsonrpc":"2.0","id":99999999999999999999,"error":{}}`, "never made"},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what\u001b?"}}`, "could not read a message: what\uFFFD?"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":"` + long + `"}}`, "larger than 1000"},
		{`{"jsonrpc":"2.0","params":{"x":"` + long + `"},"id":1}`, "larger than 1000"},
		{`{"a":` + long, "larger than 1000"},
		{`"` + long + `"`, "larger than 1000"},
	} {
		p.send("%s", tt.line)
		got := <-garbage
		if !strings.Contains(got.reason, tt.reason) || got.raw != tt.line[:min(len(tt.line), 256)] {
			t.Errorf("%.60q: reported %q of %q", tt.line, got.reason, got.raw)
		}
	}
	p.send(`{"jsonrpc":"2.0","id":1,"result":{"ok":1}}`)
	if a := <-done; a.err != nil || string(a.reply.Result) != `{"ok":1}` {
		t.Fatalf("the pending call: %v", a)
	}
	p.send(`{"jsonrpc":"2.0","id":1,"result":{"ok":1}}`)
	if got := <-garbage; !strings.Contains(got.reason, "second answer") {
		t.Error(got)
	}
}

func TestUnusableAnswerFailsItsCall(t *testing.T) {
	c, p := pair(t, link.Options{MaxMessage: 1000})
	long := `{"text":"` + strings.Repeat(`\"id\":9},`, 200) + `"}`
	var large *wire.TooLargeError
	var malformed *wire.RPCError
	for _, tt := range []struct {
		answer string
		as     any
	}{
		{`{"jsonrpc":"2.0","id":$,"result":` + long + `}`, &large},
		{` { "id" : $ , "jsonrpc":"2.0","error":` + long + `}`, &large},
		{`{"result":` + long + `,"jsonrpc":"2.0","id":$}`, &large}, // TypeScript SDK
		{`{"jsonrpc":"2.0","result":` + long + `,"id":$}`, &large},
		{`{"result":` + long + ` , "id" : $ , "jsonrpc" : "2.0" } `, &large},
		{`{"id":$,"result":{}}`, &malformed},
		{`{"jsonrpc":"2.0","id":$,"result":{},"error":{}}`, &malformed},
	} {
		done := call(t.Context(), c, "m", "", nil)
		var m message
		if err := json.Unmarshal([]byte(p.line()), &m); err != nil {
			t.Fatal(err)
		}
		p.send("%s", strings.ReplaceAll(tt.answer, "$", string(m.ID)))
		a := <-done
		if e := linktest.As(a.err, linktest.Unusable); e == nil || e.Method != "m" || !errors.As(a.err, tt.as) {
			t.Errorf("%.50s: got %v", tt.answer, a.err)
		}
	}
	// Excerpts of lines around the limit, in one write, are not mixed up.
	first, second := call(t.Context(), c, "m", "", nil), ""
	p.line()
	other := call(t.Context(), c, "m", "", nil)
	p.line()
	for _, n := range []int{999, 1000, 1001, 5000} {
		second += fmt.Sprintf("{%q:1}%s\n", "x", strings.Repeat(" ", n-len(`{"x":1}`)))
	}
	p.send(`%s{"jsonrpc":"2.0","id":8,"result":%s}`+"\n"+`{"result":%s,"jsonrpc":"2.0","id":9}`, second, long, long)
	for i, done := range []<-chan outcome{first, other} {
		if a := <-done; !errors.As(a.err, &large) {
			t.Errorf("call %d: %v", i, a.err)
		}
	}
}

func TestGarbageLogIsLimited(t *testing.T) {
	const most = 10 // records in 10 seconds
	var log mcptest.Buffer
	c, p := pair(t, link.Options{Log: slog.New(slog.NewTextHandler(&log, nil)).With("upstream", "noisy")})
	for i := range 1000 {
		p.send("line %d \x1b[31m %s", i, strings.Repeat("y", 500))
	}
	p.w.Close()
	<-c.Done()
	out := log.String()
	if n := strings.Count(out, "\n"); n != most || !strings.Contains(out, "upstream=noisy") || !strings.Contains(out, "level=WARN") {
		t.Errorf("%d records: %s", n, out)
	}
	if strings.Contains(out, "\x1b") || len(out) > most*600 {
		t.Errorf("not clipped or not printable: %s", out)
	}
}

func TestNotificationsInOrder(t *testing.T) {
	var got []string
	c, p := pair(t, link.Options{Handler: link.Callbacks{
		OnNotification: func(m wire.Inbound) { got = append(got, m.Method+string(m.Params)) },
	}})
	const n = 5000
	for i := range n {
		p.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"i":%d}}`, i)
	}
	p.send(`{"jsonrpc":"2.0","method":"x"}`)
	p.w.Close()
	<-c.Done()
	if len(got) != n+1 || got[n] != "x" {
		t.Fatalf("%d notifications", len(got))
	}
	for i := range n {
		if got[i] != fmt.Sprintf(`notifications/message{"i":%d}`, i) {
			t.Fatalf("at %d: %s", i, got[i])
		}
	}
}

func TestBatchesOnlyWhereTheRevisionHasThem(t *testing.T) {
	for _, version := range []string{"2025-03-26", "2025-06-18"} {
		revision, ok := protocol.Handshake.Lookup(version)
		if !ok {
			t.Fatalf("revision %s is unknown", version)
		}
		garbage := make(chan string, 3)
		c, p := pair(t, link.Options{Garbage: func(reason string, _ []byte) { garbage <- reason }})
		c.Negotiated(revision)
		done := call(t.Context(), c, "m", "", nil)
		p.line()
		p.send(`[5,{"jsonrpc":"2.0","id":1,"result":{}}]`)
		if got := <-garbage; !strings.Contains(got, "a message is a JSON object") {
			t.Error(got)
		}
		if version != "2025-03-26" {
			p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
		if a := <-done; a.err != nil {
			t.Errorf("%s: %v", version, a.err)
		}
		if version == "2025-03-26" {
			p.send(`[{"jsonrpc":"2.0"`)
			if got := <-garbage; !strings.Contains(got, "parse error") {
				t.Error(got)
			}
		}
	}
}

func TestServerRequestsByDefault(t *testing.T) {
	_, p := pair(t, link.Options{})
	p.send(`{"jsonrpc":"2.0","id":"\u0061","method":"ping"}`)
	p.want(`{"jsonrpc":"2.0","id":"\u0061","result":{}}`)
	p.send(`{"jsonrpc":"2.0","id":123456789012345678901,"method":"roots/list"}`)
	p.want(`{"jsonrpc":"2.0","id":123456789012345678901,"error":{"code":-32601,"message":"method not found: roots/list"}}`)
}

func TestServerRequests(t *testing.T) {
	entered := make(chan string)
	ended := make(chan error, rpc.DefaultMaxRequests)
	c, p := pair(t, link.Options{Handler: link.Callbacks{OnRequest: func(ctx context.Context, m wire.Inbound) wire.Reply {
		if m.Method == "quick" {
			return wire.Reply{Result: m.Params}
		}
		entered <- m.Method
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return wire.Reply{Result: []byte("{}")}
	}}})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"quick","params":{"n":1e400}}`)
	p.want(`{"jsonrpc":"2.0","id":1,"result":{"n":1e400}}`)
	// The number 1 and the string "1" are two requests; one is cancelled.
	p.send(`{"jsonrpc":"2.0","id":1,"method":"one"}`)
	<-entered
	p.send(`{"jsonrpc":"2.0","id":"1","method":"two"}`)
	<-entered
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0031","reason":"r"}}`)
	var cancelled *wire.CancelledError
	if err := <-ended; !errors.As(err, &cancelled) || err.Error() != "cancelled by the client: r" {
		t.Error(err)
	}
	for i := range rpc.DefaultMaxRequests - 1 {
		p.send(`{"jsonrpc":"2.0","id":"s%d","method":"slow"}`, i)
		<-entered
	}
	p.send(`{"jsonrpc":"2.0","id":"over","method":"slow"}`)
	p.want(`{"jsonrpc":"2.0","id":"over","error":{"code":-32603,"message":"too many requests in flight (at most 128): wait for answers or cancel some, then send it again"}}`)
	p.send(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`) // answered nevertheless
	p.want(`{"jsonrpc":"2.0","id":"alive","result":{}}`)
	c.Close()
	for range rpc.DefaultMaxRequests {
		if err := <-ended; linktest.As(err, linktest.Down) == nil {
			t.Error(err)
		}
	}
}

// TestServerThatAsksAndDoesNotRead checks that reading stops at a bounded number of
// answers that the server has not read, that none is lost, and that calls still end
// with their context.
func TestServerThatAsksAndDoesNotRead(t *testing.T) {
	c, p := pair(t, link.Options{})
	const n = 4 * 2 * rpc.DefaultMaxRequests
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			p.send(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := call(ctx, c, "m", "", nil)
	cancel()
	if a := <-done; !errors.Is(a.err, context.Canceled) {
		t.Error(a.err)
	}
	for i := 0; i < n; {
		line := p.line()
		if strings.Contains(line, `"method"`) { // the call, if it was sent, and its cancellation
			continue
		}
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i); line != want {
			t.Fatalf("got %s, want %s", line, want)
		}
		i++
	}
	wg.Wait()
}
