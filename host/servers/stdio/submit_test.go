package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// submit submits a call that the connection must accept.
func submit(t *testing.T, c *Conn, params string, limit rpc.Limit) (rpc.Pending, linktest.Outcomes) {
	t.Helper()
	done := make(linktest.Outcomes, 2)
	pending, err := c.Submit(wire.Call{Method: "tools/call", Params: []byte(params)}, limit, done.Complete)
	if err != nil {
		t.Fatal(err)
	}
	return pending, done
}

// start reads the first byte of a message, so that the writer is blocked in the
// middle of it.
func (p *peer) start() {
	p.t.Helper()
	first := make([]byte, 1)
	if _, err := p.r.Read(first); err != nil {
		p.t.Fatal(err)
	}
	p.in = bufio.NewReader(io.MultiReader(bytes.NewReader(first), p.r))
}

func TestSubmitKeepsBytes(t *testing.T) {
	c, p := pair(t, link.Options{})
	for i, tt := range []struct{ params, sent, answer string }{
		{`{ "a" : 1e400}`, `{ "a" : 1e400}`, `"result":{"n":123456789012345678901234567890}`},
		{`{"_meta":{"t":1,"progressToken":"p"}}`, `{"_meta":{"t":1}}`, `"error":{"code":-32602,"message":"m","odd":1}`},
	} {
		_, done := submit(t, c, tt.params, rpc.Limit{})
		p.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, i+1, tt.sent))
		p.send(`{"jsonrpc":"2.0","id":%d,%s}`, i+1, tt.answer)
		got := <-done
		member, value, _ := strings.Cut(tt.answer, ":")
		if raw := string(got.Reply.Result) + string(got.Reply.Error); got.Next != nil || raw != value || (got.Reply.Error != nil) != (member == `"error"`) {
			t.Errorf("%s: %s", tt.answer, raw)
		}
	}
}

// TestCancelSubmitted checks that a call can be cancelled before and after it was
// written, that it has one outcome, and that a late answer is dropped.
func TestCancelSubmitted(t *testing.T) {
	c, p := pair(t, link.Options{})
	why := errors.New("why")
	first, sent := submit(t, c, `{"n":1}`, rpc.Limit{})
	p.start() // the writer is busy with the first call, so that the second stays queued
	second, held := submit(t, c, `{"n":2}`, rpc.Limit{})
	second.Cancel(why)
	if _, err := (<-held).Next(t.Context()); err != why {
		t.Errorf("held: %v", err)
	}
	first.Cancel(&wire.CancelledError{Params: []byte(`{"requestId":"c","reason":"enough"}`)})
	if _, err := (<-sent).Next(t.Context()); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("sent: %v", err)
	}
	p.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":1}}`)
	p.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	over, third := submit(t, c, `{"n":3}`, rpc.Limit{})
	p.want(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"n":3}}`)
	p.send(`{"jsonrpc":"2.0","id":3,"result":{"n":3}}`)
	if got := <-third; string(got.Reply.Result) != `{"n":3}` {
		t.Errorf("third: %+v", got)
	}
	over.Cancel(why) // has no effect, because the call has ended
	if len(sent)+len(held)+len(third) > 0 {
		t.Error("a call has two outcomes")
	}
}

// TestSubmitThatWouldWait checks that Submit refuses a call when the queue is full
// because the server does not read, and that the queued calls end with the
// connection, marked as unsent.
func TestSubmitThatWouldWait(t *testing.T) {
	c, p := pair(t, link.Options{})
	_, first := submit(t, c, `{}`, rpc.Limit{})
	p.start() // the writer is busy with the first call
	const room = 64
	all := make(linktest.Outcomes, 2*room)
	held := 0
	for {
		if _, err := c.Submit(wire.Call{Method: "tools/call"}, rpc.Limit{}, all.Complete); err != nil {
			break
		}
		held++
	}
	if held != room {
		t.Errorf("%d are held", held)
	}
	p.w.CloseWithError(io.EOF)
	for i := range held + 1 {
		var got linktest.Outcome
		if i == 0 {
			got = <-first
		} else {
			got = <-all
		}
		_, err := got.Next(t.Context())
		if down := linktest.As(err, linktest.Down); down == nil || !strings.Contains(down.Reason, "it closed its output") {
			t.Errorf("%d: got %v", i, err)
		}
		if linktest.Unsent(err) != (i > 0) {
			t.Errorf("%d: marked as unsent: %v", i, linktest.Unsent(err))
		}
	}
	if _, err := c.Submit(wire.Call{Method: "tools/call"}, rpc.Limit{}, all.Complete); err == nil || len(all) > 0 {
		t.Error("submitted after the end")
	}
}

func TestBadAnswerToSubmitted(t *testing.T) {
	c, p := pair(t, link.Options{})
	_, done := submit(t, c, `{}`, rpc.Limit{})
	p.line()
	p.send(`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`)
	if _, err := (<-done).Next(t.Context()); linktest.As(err, linktest.Unusable) == nil {
		t.Errorf("%v", err)
	}
}

// TestLimitsOfSubmitted checks when calls time out, on the clock of a synctest
// bubble.
func TestLimitsOfSubmitted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit rpc.Limit
		asks  [2]time.Duration // when a request of the server begins and ends
		ends  time.Duration
		max   bool
	}{
		{"idle", rpc.Limit{Idle: 10 * time.Second}, [2]time.Duration{}, 10 * time.Second, false},
		{"the maximum", rpc.Limit{Idle: 10 * time.Second, Max: 7 * time.Second}, [2]time.Duration{}, 7 * time.Second, true},
		{"idle, extended by a request of the server", rpc.Limit{Idle: 10 * time.Second}, [2]time.Duration{5 * time.Second, 25 * time.Second}, 30 * time.Second, false},
		{"the maximum, not extended", rpc.Limit{Idle: 10 * time.Second, Max: 15 * time.Second}, [2]time.Duration{5 * time.Second, time.Hour}, 15 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := pair(t, link.Options{Handler: link.Callbacks{OnRequest: func(ctx context.Context, _ wire.Inbound) wire.Reply {
					select {
					case <-time.After(tt.asks[1] - tt.asks[0]):
					case <-ctx.Done():
					}
					return wire.Reply{Result: []byte("{}")}
				}}})
				go func() { _, _ = io.Copy(io.Discard, p.in) }()
				begun := time.Now()
				_, done := submit(t, c, `{}`, tt.limit)
				if tt.asks[1] > 0 {
					defer time.AfterFunc(tt.asks[0], func() { p.send(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`) }).Stop()
				}
				<-time.After(3 * time.Second)
				pending, quick := submit(t, c, `{}`, tt.limit)
				p.send(`{"jsonrpc":"2.0","id":%d,"result":{}}`, pending.ID())
				if got := <-quick; got.Next != nil {
					t.Error("the quick one failed")
				}
				_, err := (<-done).Next(t.Context())
				timeout := linktest.As(err, linktest.Timeout)
				if timeout == nil || timeout.Max != tt.max || timeout.Method != "tools/call" {
					t.Errorf("ended by %v", err)
				}
				if d := time.Since(begun); d != tt.ends {
					t.Errorf("ended after %v, want %v", d, tt.ends)
				}
				_, last := submit(t, c, `{}`, tt.limit) // sets the timer again, and Close stops it
				c.Close()
				if _, err = (<-last).Next(t.Context()); linktest.As(err, linktest.Down) == nil {
					t.Errorf("the last one ended by %v", err)
				}
			})
		})
	}
}
