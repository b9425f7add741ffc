package upstream

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

	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// outcome is what a submitted call came to.
type outcome struct {
	reply wire.Reply
	next  wire.Continuation
}

// outcomes are what calls came to, each once.
type outcomes chan outcome

func (o outcomes) complete(reply wire.Reply, next wire.Continuation) { o <- outcome{reply, next} }

// submit submits a call that the connection must take.
func submit(t *testing.T, c *Conn, params string, limit rpc.Limit) (rpc.Pending, outcomes) {
	t.Helper()
	done := make(outcomes, 2)
	pending, err := c.Submit(wire.Call{Method: "tools/call", Params: []byte(params)}, limit, done.complete)
	if err != nil {
		t.Fatal(err)
	}
	return pending, done
}

// start reads the first byte, so that the writer is in the midst of a message.
func (p *peer) start() {
	p.t.Helper()
	first := make([]byte, 1)
	if _, err := p.r.Read(first); err != nil {
		p.t.Fatal(err)
	}
	p.in = bufio.NewReader(io.MultiReader(bytes.NewReader(first), p.r))
}

func TestSubmitKeepsBytes(t *testing.T) {
	c, p := pair(t, ConnOptions{})
	for i, tt := range []struct{ params, sent, answer string }{
		{`{ "a" : 1e400}`, `{ "a" : 1e400}`, `"result":{"n":123456789012345678901234567890}`},
		{`{"_meta":{"t":1,"progressToken":"p"}}`, `{"_meta":{"t":1}}`, `"error":{"code":-32602,"message":"m","odd":1}`},
	} {
		_, done := submit(t, c, tt.params, rpc.Limit{})
		p.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, i+1, tt.sent))
		p.send(`{"jsonrpc":"2.0","id":%d,%s}`, i+1, tt.answer)
		got := <-done
		member, value, _ := strings.Cut(tt.answer, ":")
		if raw := string(got.reply.Result) + string(got.reply.Error); got.next != nil || raw != value || (got.reply.Error != nil) != (member == `"error"`) {
			t.Errorf("%s: %s", tt.answer, raw)
		}
	}
}

// TestForsake: a call is taken back whether the server has it or not, is told of
// once, and a late answer is nobody's.
func TestForsake(t *testing.T) {
	c, p := pair(t, ConnOptions{})
	why := errors.New("why")
	first, sent := submit(t, c, `{"n":1}`, rpc.Limit{})
	p.start() // the writer is in the first one, and holds the second
	second, held := submit(t, c, `{"n":2}`, rpc.Limit{})
	second.Cancel(why)
	if _, err := (<-held).next(t.Context()); err != why {
		t.Errorf("held: %v", err)
	}
	first.Cancel(&wire.CancelledError{Params: []byte(`{"requestId":"c","reason":"enough"}`)})
	if _, err := (<-sent).next(t.Context()); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("sent: %v", err)
	}
	p.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":1}}`)
	p.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	over, third := submit(t, c, `{"n":3}`, rpc.Limit{})
	p.want(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"n":3}}`)
	p.send(`{"jsonrpc":"2.0","id":3,"result":{"n":3}}`)
	if got := <-third; string(got.reply.Result) != `{"n":3}` {
		t.Errorf("third: %+v", got)
	}
	over.Cancel(why) // it is over
	if len(sent)+len(held)+len(third) > 0 {
		t.Error("told twice")
	}
}

// TestSubmitThatWouldWait: nothing is submitted where the server does not read, and
// what was submitted then ends with the connection; what was surely not written says
// so.
func TestSubmitThatWouldWait(t *testing.T) {
	c, p := pair(t, ConnOptions{Name: "x"})
	_, first := submit(t, c, `{}`, rpc.Limit{})
	p.start() // the writer is in the first one
	const room = 64
	all := make(outcomes, 2*room)
	held := 0
	for {
		if _, err := c.Submit(wire.Call{Method: "tools/call"}, rpc.Limit{}, all.complete); err != nil {
			break
		}
		held++
	}
	if held != room {
		t.Errorf("%d are held", held)
	}
	p.w.CloseWithError(io.EOF)
	for i := range held + 1 {
		var got outcome
		if i == 0 {
			got = <-first
		} else {
			got = <-all
		}
		_, err := got.next(t.Context())
		wantDown(t, err, "it closed its output")
		if surelyUnsent(err) != (i > 0) {
			t.Errorf("%d: surely unsent is %v", i, surelyUnsent(err))
		}
	}
	if _, err := c.Submit(wire.Call{Method: "tools/call"}, rpc.Limit{}, all.complete); err == nil || len(all) > 0 {
		t.Error("submitted after the end")
	}
}

func TestBadAnswerToSubmitted(t *testing.T) {
	c, p := pair(t, ConnOptions{Name: "x"})
	_, done := submit(t, c, `{}`, rpc.Limit{})
	p.line()
	p.send(`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`)
	var bad *AnswerError
	if _, err := (<-done).next(t.Context()); !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
}

// TestLimitsOfSubmitted runs on a clock of its own.
func TestLimitsOfSubmitted(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec Spec
		asks [2]time.Duration // the server asks the client from the first to the second
		ends time.Duration
		max  bool
	}{
		{"idle", Spec{Timeout: 10 * time.Second}, [2]time.Duration{}, 10 * time.Second, false},
		{"the maximum", Spec{Timeout: 10 * time.Second, MaxTimeout: 7 * time.Second}, [2]time.Duration{}, 7 * time.Second, true},
		{"a question puts it off", Spec{Timeout: 10 * time.Second}, [2]time.Duration{5 * time.Second, 25 * time.Second}, 30 * time.Second, false},
		{"but not the maximum", Spec{Timeout: 10 * time.Second, MaxTimeout: 15 * time.Second}, [2]time.Duration{5 * time.Second, time.Hour}, 15 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := pair(t, ConnOptions{OnRequest: func(ctx context.Context, _ wire.Inbound) wire.Reply {
					select {
					case <-time.After(tt.asks[1] - tt.asks[0]):
					case <-ctx.Done():
					}
					return wire.Reply{Result: []byte("{}")}
				}})
				go func() { _, _ = io.Copy(io.Discard, p.in) }()
				u := &Upstream{spec: tt.spec}
				begun := time.Now()
				limit := u.limitOf("tools/call")
				_, done := submit(t, c, `{}`, limit)
				if tt.asks[1] > 0 {
					defer time.AfterFunc(tt.asks[0], func() { p.send(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`) }).Stop()
				}
				<-time.After(3 * time.Second)
				pending, quick := submit(t, c, `{}`, limit)
				p.send(`{"jsonrpc":"2.0","id":%d,"result":{}}`, pending.ID())
				if got := <-quick; got.next != nil {
					t.Error("the quick one failed")
				}
				_, err := (<-done).next(t.Context())
				var timeout *TimeoutError
				if !errors.As(err, &timeout) || timeout.Max != tt.max || timeout.Method != "tools/call" {
					t.Errorf("ended by %v", err)
				}
				if d := time.Since(begun); d != tt.ends {
					t.Errorf("ended after %v, want %v", d, tt.ends)
				}
				_, last := submit(t, c, `{}`, limit) // the timer serves again, and Close stops it
				c.Close()
				_, err = (<-last).next(t.Context())
				var down *DownError
				if !errors.As(err, &down) {
					t.Errorf("the last one ended by %v", err)
				}
			})
		})
	}
}

func TestUpstreamSubmit(t *testing.T) {
	f := launch(t, phoenix(t, "ok"))
	done := make(outcomes, 2)
	if _, ok := f.Submit(toolCall("echo"), done.complete); ok { // it may be up already
		<-done
	}
	<-f.Started()
	if _, ok := f.Submit(toolCall("echo"), done.complete); !ok || string((<-done).reply.Result) != `{"name":"echo"}` {
		t.Error("not submitted, or another answer")
	}
	hanging := make(outcomes, 2)
	cancel, ok := f.Submit(toolCall("hang"), hanging.complete)
	if !ok {
		t.Fatal("not submitted")
	}
	<-f.notes
	if _, ok := f.Submit(toolCall("crash"), done.complete); !ok {
		t.Fatal("not submitted")
	}
	for _, d := range []outcomes{done, hanging} {
		_, err := (<-d).next(t.Context())
		wantDown(t, err, "its process ended: exit status 9")
	}
	cancel(errors.New("too late"))
	if got := f.call(t, "who"); !strings.HasPrefix(got, `{"start":2,`) {
		t.Error(got)
	}
	if len(hanging)+len(done) > 0 {
		t.Error("told twice")
	}
}

// endedLink is a link whose end nobody has noticed.
type endedLink struct {
	link.Link
	ended func() error
}

func (l endedLink) Submit(_ wire.Call, _ rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	complete(wire.Reply{}, func(context.Context) (wire.Reply, error) { return wire.Reply{}, l.ended() })
	return rpc.Pending{}, nil
}

// TestSubmitOnAnEndedLink: what was surely not written goes to the next link.
func TestSubmitOnAnEndedLink(t *testing.T) {
	for _, unsent := range []bool{true, false} {
		f := launch(t, spec("ok"))
		<-f.Started()
		f.mu.Lock()
		next := f.link
		f.link = endedLink{next, func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.link = next
			return &DownError{Upstream: "x", Reason: "gone", unsent: unsent}
		}}
		f.mu.Unlock()
		done := make(outcomes, 1)
		if _, ok := f.Submit(toolCall("echo"), done.complete); !ok {
			t.Fatal("not submitted")
		}
		reply, err := (<-done).next(t.Context())
		if unsent && (err != nil || string(reply.Result) != `{"name":"echo"}`) {
			t.Errorf("%s %v", reply.Result, err)
		}
		if !unsent {
			wantDown(t, err, "gone")
		}
	}
}
