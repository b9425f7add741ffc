package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// manual is a Handler that passes requests and notifications to the test.
type manual struct {
	requests chan *Request
	notes    chan string
}

func (h manual) Request(r *Request)           { h.requests <- r }
func (h manual) Notification(m wire.Inbound)  { h.notes <- m.Method }
func newManual() manual                       { return manual{make(chan *Request, 10), make(chan string, 10)} }
func result(raw string) wire.Reply            { return wire.Reply{Result: []byte(raw)} }
func newMain() *fakeStream                    { s := newFakeStream(8); s.main = true; return s }
func (s *fakeStream) take() (frames []string) { s.flush(100); return s.drain() }
func request(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
}
func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// drain removes and returns the frames that were written.
func (s *fakeStream) drain() (frames []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, data := range s.sent {
		frames = append(frames, string(data))
	}
	s.sent = nil
	return frames
}

// connectTest returns a connection over a fakeStream.
func connectTest(t *testing.T, opts Options) (*Conn, *fakeStream, manual) {
	h, main := newManual(), newMain()
	opts.Main, opts.Handler, opts.SerialIDs = main, h, true
	c := New(context.Background(), opts)
	t.Cleanup(func() { c.Close(wire.ErrClosed) })
	return c, main, h
}

// TestMalformed checks that malformed messages of a client are answered as JSON-RPC
// requires, and that those of a server are reported, and answered only if they have
// the id of a request.
func TestMalformed(t *testing.T) {
	for _, tt := range []struct {
		raw            string
		client, server string // the beginning of the answer
		garbage        string // of the server
	}{
		{`listening on stdio`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`, ``, "parse error"},
		{`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: empty batch`, ``, "empty batch"},
		{`[1`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`, ``, "parse error"},
		{`{"id":7,"method":"m"}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`, "jsonrpc must be"},
		{`{"jsonrpc":"2.0","id":true,"method":"m"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`, ``, "id must be"},
		{`{"jsonrpc":"2.0","method":"m","params":{"name":1,"name":2}}`, ``, ``, "invalid params"},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, ``, ``, "neither a method"},
		{`{"jsonrpc":"2.0","id":5,"result":1}`, ``, ``, "never made"},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`, ``, ""},
	} {
		for _, peer := range []Peer{Client, Server} {
			garbage := ""
			c, _, _ := connectTest(t, Options{Peer: peer, Garbage: func(reason string, _ []byte) { garbage += reason }})
			c.SetBatches(true)
			on := newFakeStream(1)
			waits := c.Receive([]byte(tt.raw), on)
			want, wantGarbage := tt.client, ""
			if peer == Server {
				want, wantGarbage = tt.server, tt.garbage
			}
			if !strings.HasPrefix(string(on.last), want) || waits != (want != "") || on.finishes > 1 || want == "" && on.last != nil {
				t.Errorf("%q of a %v: answered %s", tt.raw, peer, on.last)
			}
			if peer == Server && !strings.Contains(garbage, wantGarbage) || wantGarbage == "" && garbage != "" {
				t.Errorf("%q of a %v: reported %q", tt.raw, peer, garbage)
			}
		}
	}
}

// TestBatch checks that a batch is answered with one array when its last request is
// answered, for either kind of peer, and only in a revision that has batches.
func TestBatch(t *testing.T) {
	for _, peer := range []Peer{Client, Server} {
		c, _, h := connectTest(t, Options{Peer: peer})
		on := newFakeStream(1)
		raw := "[" + request(1, "ping") + `,{"jsonrpc":"2.0","method":"n"},` + request(2, "slow") + "," + request(3, "gone") + "," + request(2, "again") + "]"
		c.SetBatches(true)
		if !c.Receive([]byte(raw), on) {
			t.Error("nothing to answer")
		}
		equal(t, "notification", <-h.notes, "n")
		slow, gone := <-h.requests, <-h.requests
		c.Receive([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`), on)
		if gone.Reply(result("{}")) || on.finishes > 0 {
			t.Error("answered early, or though it was cancelled")
		}
		if !slow.Reply(result(`{"ok":1}`)) || slow.Reply(result("{}")) {
			t.Error("answered twice, or not at all")
		}
		equal(t, "batch", string(on.last), `[{"jsonrpc":"2.0","id":1,"result":{}},`+
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: id 2 is in use by a request in flight"}},`+
			`{"jsonrpc":"2.0","id":2,"result":{"ok":1}}]`)
		c.SetBatches(false)
		c.Receive([]byte(raw), newFakeStream(1))
		if len(h.requests) > 0 {
			t.Error("taken in a revision without batches")
		}
	}
}

// TestCallStream checks that the stream of a call accepts only the answer to its own
// request, with the request's id or as an error without an id, that the answer is not
// accepted on another stream unless the call allows that, and that what comes on the
// stream belongs to that call alone.
func TestCallStream(t *testing.T) {
	ok, anonymous := `"result":{}`, `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`
	for _, tt := range []struct {
		name     string
		anywhere bool
		raw      string
		on       string // "main", "own", "other"
		answered bool
	}{
		{"its id", false, `{"jsonrpc":"2.0","id":1,` + ok + `}`, "own", true},
		{"another id", false, `{"jsonrpc":"2.0","id":2,` + ok + `}`, "own", false},
		{"an error without an id", false, anonymous, "own", true},
		{"an error with the id null", false, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, "own", true},
		{"an error of another id", false, `{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"m"}}`, "own", false},
		{"on the stream of another", false, `{"jsonrpc":"2.0","id":1,` + ok + `}`, "other", false},
		{"on the main stream", false, `{"jsonrpc":"2.0","id":1,` + ok + `}`, "main", false},
		{"on the main stream, where it may", true, `{"jsonrpc":"2.0","id":1,` + ok + `}`, "main", true},
		{"an error without an id on the main stream", true, anonymous, "main", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, main, _ := connectTest(t, Options{Peer: Server})
			streams := map[string]Stream{"main": main}
			answered := 0
			for i, name := range []string{"own", "other"} {
				s := &fakeCallStream{fakeStream: newFakeStream(1), owner: name}
				streams[name] = s
				call := Call{Call: wire.Call{Method: "m", Owner: name}, Stream: s, AnyStream: tt.anywhere}
				if _, err := c.Submit(call, func(_ wire.Reply, next wire.Continuation) {
					if i == 0 && next == nil {
						answered++
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			if got := fmt.Sprint(c.ownersOn(streams["own"])(), c.ownersOn(main)()); got != "[own] [own other]" {
				t.Errorf("owners %s", got)
			}
			c.Receive([]byte(tt.raw), streams[tt.on])
			if (answered == 1) != tt.answered {
				t.Errorf("answered is %v", answered)
			}
			if own := streams["own"].(*fakeCallStream); own.elsewhere != (tt.answered && tt.on != "own") {
				t.Errorf("settled elsewhere: %v", own.elsewhere)
			}
		})
	}
}

// TestMalformedAnswerElsewhere checks that an answer that cannot be used ends a call only
// if the call accepts answers on that stream.
func TestMalformedAnswerElsewhere(t *testing.T) {
	for _, anyStream := range []bool{false, true} {
		c, main, _ := connectTest(t, Options{Peer: Server})
		failed := false
		call := Call{Call: wire.Call{Method: "m"}, Stream: &fakeCallStream{fakeStream: newFakeStream(1)}, AnyStream: anyStream}
		if _, err := c.Submit(call, func(wire.Reply, wire.Continuation) { failed = true }); err != nil {
			t.Fatal(err)
		}
		c.Receive([]byte(`{"jsonrpc":"1.0","id":1,"result":{}}`), main)
		if failed != anyStream {
			t.Errorf("answers accepted on any stream: %v; the call failed: %v", anyStream, failed)
		}
	}
}

// TestBatchWithMalformedAnswer checks that a batch is answered if one of its messages is
// both a request and an error for the call of the stream.
func TestBatchWithMalformedAnswer(t *testing.T) {
	c, _, _ := connectTest(t, Options{Peer: Server})
	c.SetBatches(true)
	on := &fakeCallStream{fakeStream: newFakeStream(1)}
	if _, err := c.Submit(Call{Call: wire.Call{Method: "m"}, Stream: on}, func(wire.Reply, wire.Continuation) {}); err != nil {
		t.Fatal(err)
	}
	c.Receive([]byte(`[{"jsonrpc":"2.0","id":1,"method":"m","error":{"code":1,"message":"m"}}]`), on)
	if on.finishes != 1 || len(c.answers) != 0 {
		t.Errorf("answered %d times, and %d answers are awaited", on.finishes, len(c.answers))
	}
}

// TestFullAndFinished checks that Call waits for room and Submit does not, and that
// messages for a finished stream are sent on the main one.
func TestFullAndFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, main, _ := connectTest(t, Options{Peer: Client})
		full := newFakeStream(0)
		told := func(wire.Reply, wire.Continuation) { t.Error("told of a call that was not submitted") }
		if _, err := c.Submit(Call{Call: wire.Call{Method: "m"}, Stream: full}, told); !errors.Is(err, ErrFull) {
			t.Errorf("got %v", err)
		}
		bad := wire.Call{Method: "m", Params: []byte(`{"_meta":5}`), Progress: func([]byte) {}}
		if _, err := c.Submit(Call{Call: bad}, told); err == nil {
			t.Error("a token was put into what is no object")
		}
		replies := make(chan wire.Reply, 2)
		call := func(ctx context.Context) {
			reply, err := c.Call(ctx, Call{Call: wire.Call{Method: "m"}, Stream: full})
			if err != nil {
				reply = wire.Reply{Error: []byte(err.Error())}
			}
			replies <- reply
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		go call(ctx)
		synctest.Wait()
		cancel(errors.New("enough"))
		equal(t, "cancelled", string((<-replies).Error), "enough")
		go call(t.Context())
		synctest.Wait()
		full.Finish(Frame{})
		synctest.Wait()
		equal(t, "sent", fmt.Sprint(main.take()), `[{"jsonrpc":"2.0","id":4,"method":"m"}]`)
		c.Receive([]byte(`{"jsonrpc":"2.0","id":4,"result":{"x":1}}`), main)
		equal(t, "reply", string((<-replies).Result), `{"x":1}`)
		if err := c.Notify(t.Context(), full, "n", nil); err != nil {
			t.Error(err)
		}
		equal(t, "sent", fmt.Sprint(main.take()), `[{"jsonrpc":"2.0","method":"n"}]`)
	})
}

// TestClose checks that a connection ends with its context, that Close may be
// repeated and waits for work, and that CloseWithin does not wait forever.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		h := newManual()
		c := New(ctx, Options{Main: newMain(), Handler: h, SerialIDs: true})
		on := newFakeStream(1)
		c.Receive([]byte(request(1, "slow")), on)
		release := make(chan struct{})
		(<-h.requests).Start(func(context.Context, *Request) wire.Reply {
			<-release
			return result("{}")
		})
		why := errors.New("why")
		cancel(why)
		<-c.Done()
		if c.Err() != why || context.Cause(c.Context()) != why {
			t.Errorf("ended by %v", c.Err())
		}
		if c.Drain(time.Second) || c.CloseWithin(time.Second, io.EOF) {
			t.Error("nothing was left behind")
		}
		late := newFakeStream(1)
		c.Receive([]byte(request(2, "late")), late)
		if !strings.Contains(string(late.last), "the session has ended") {
			t.Errorf("after Close: %s", late.last)
		}
		close(release)
		c.Close(io.EOF)
		c.Close(io.EOF)
		equal(t, "last answer", string(on.last), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		if _, err := c.Call(t.Context(), Call{Call: wire.Call{Method: "m"}}); !errors.Is(err, why) {
			t.Errorf("a call after the end: %v", err)
		}
	})
}
