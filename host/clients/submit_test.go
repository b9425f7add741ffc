package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// submitter is a clienttest.Backend that takes calls of these tools with Submit:
//
//	reply  replies before Submit returns
//	start  starts a goroutine before Submit returns
//	test   leaves the reply to the test
type submitter struct {
	*clienttest.Backend
	submitted chan *submittedCall
}

// submittedCall is a call that the test answers.
type submittedCall struct {
	to     route.Responder
	cancel chan error
}

func (b submitter) Submit(call route.Call, to route.Responder) (func(error), bool) {
	l := &submittedCall{to, make(chan error, 10)}
	switch name, _ := wire.GetString(call.Params, "name"); name {
	case "reply":
		to.Reply(wire.Reply{Result: []byte(`{"replied":true}`)})
	case "start":
		to.Start(func(ctx context.Context) wire.Reply { return wire.Reply{Result: []byte(`{"started":true}`)} })
	case "test":
		b.submitted <- l
	default:
		return nil, false
	}
	return func(cause error) { l.cancel <- cause }, true
}

func newSubmitter() submitter { return submitter{clienttest.New(), make(chan *submittedCall, 10_000)} }

// newSubmitTalk is newTalk with a submitter.
func newSubmitTalk(t *testing.T) (*talk, submitter) {
	b := newSubmitter()
	k := newTalkWith(t, b.Backend, options(b))
	k.initialize("2025-11-25")
	return k, b
}

func tool(id int, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, name)
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	k, b := newSubmitTalk(t)
	for i, tt := range []struct{ tool, want string }{
		{"reply", `{"replied":true}`}, {"start", `{"started":true}`}, {"echo", `{"params":{"name":"echo"}}`},
	} {
		k.send(tool(i, tt.tool))
		if got, want := k.receive(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, i, tt.want); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	k.send(tool(7, "test"))
	l := mcptest.Receive(t, "a call", b.submitted)
	if l.to.Cancelled() {
		t.Error("cancelled, but no caller has cancelled the call")
	}
	k.send(tool(7, "reply"))
	if got := k.receive(); !strings.Contains(got, "id 7 is in use") {
		t.Error(got)
	}
	l.to.Reply(wire.Reply{Error: []byte(`{"code":-1,"message":"m"}`)})
	if got := k.receive(); got != `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m"}}` {
		t.Error(got)
	}
	k.closeInput()
	if len(l.cancel) > 0 {
		t.Error("the call was cancelled after its reply")
	}
}

// TestBatchSubmitted checks that requests of a batch are submitted too.
func TestBatchSubmitted(t *testing.T) {
	t.Parallel()
	b := newSubmitter()
	k := newTalkWith(t, b.Backend, options(b))
	k.initialize("2025-03-26")
	k.send(`[` + tool(1, "test") + `,` + tool(2, "reply") + `]`)
	mcptest.Receive(t, "a call", b.submitted).to.Reply(wire.Reply{Result: []byte(`{}`)})
	if got := k.receive(); got != `[{"jsonrpc":"2.0","id":2,"result":{"replied":true}},{"jsonrpc":"2.0","id":1,"result":{}}]` &&
		got != `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{"replied":true}}]` {
		t.Errorf("got %s", got)
	}
	k.closeInput()
}

// TestSubmittedCancelled checks that the backend is told once of a cancellation, and
// that its reply is then not sent.
func TestSubmittedCancelled(t *testing.T) {
	t.Parallel()
	k, b := newSubmitTalk(t)
	ends := []func(l *submittedCall){
		func(l *submittedCall) { l.to.Reply(wire.Reply{Result: []byte(`{"never":"seen"}`)}) },
		func(l *submittedCall) {
			gone := make(chan error)
			l.to.Start(func(ctx context.Context) wire.Reply {
				gone <- context.Cause(ctx)
				return wire.Reply{Result: []byte(`{"never":"seen"}`)}
			})
			var cause *wire.CancelledError
			if err := mcptest.Receive(t, "the end of the call", gone); !errors.As(err, &cause) {
				t.Errorf("its context ended with %v", err)
			}
		},
	}
	for i, end := range ends {
		k.send(tool(i, "test"))
		l := mcptest.Receive(t, "a call", b.submitted)
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"enough"}}`, i))
		var cause *wire.CancelledError
		if err := mcptest.Receive(t, "the end of the call", l.cancel); !errors.As(err, &cause) || !strings.Contains(err.Error(), "enough") {
			t.Errorf("cancelled with %v", err)
		}
		if !l.to.Cancelled() {
			t.Error("the responder does not know that the call was cancelled")
		}
		end(l)
		if len(l.cancel) > 0 {
			t.Error("cancelled twice")
		}
	}
	// Started work is cancelled too.
	k.send(tool(9, "test"))
	l := mcptest.Receive(t, "a call", b.submitted)
	ended := make(chan struct{})
	working := make(chan struct{})
	l.to.Start(func(ctx context.Context) wire.Reply {
		close(working)
		<-ctx.Done()
		close(ended)
		return wire.Reply{Result: []byte(`{"never":"seen"}`)}
	})
	mcptest.Receive(t, "the work", working)
	k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	mcptest.Receive(t, "the end of the work", ended)
	k.closeInput()
}

// TestEndOfInputCancelsSubmitted checks that the end of input cancels submitted calls,
// and that they are not answered.
func TestEndOfInputCancelsSubmitted(t *testing.T) {
	t.Parallel()
	k, b := newSubmitTalk(t)
	k.send(tool(1, "test"))
	l := mcptest.Receive(t, "a call", b.submitted)
	go func() {
		if err := mcptest.Receive(t, "the end of the call", l.cancel); !errors.Is(err, wire.ErrClosed) {
			t.Errorf("cancelled with %v", err)
		}
		l.to.Reply(wire.Reply{Result: []byte(`{"never":"seen"}`)})
	}()
	k.closeInput()
}

// writeTo makes a stream that writes to w. written waits until everything is written.
func writeTo(w io.Writer) (stream *rpc.Writer, written func()) {
	stream = rpc.NewWriter(&output{w: w})
	go stream.Run()
	return stream, func() {
		stream.Drain()
		<-stream.Done()
	}
}

// TestEndOfSessionCancelsSubmitted checks that the end of the session cancels submitted
// calls, and that they are still answered.
func TestEndOfSessionCancelsSubmitted(t *testing.T) {
	t.Parallel()
	b := newSubmitter()
	opts := options(b)
	var out strings.Builder
	w, written := writeTo(&out)
	s := NewSession(t.Context(), w, opts)
	why := errors.New("why")
	s.Receive([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`), w)
	mcptest.Receive(t, "the session", b.Began)
	s.Receive([]byte(tool(1, "test")), w)
	before := mcptest.Receive(t, "a call", b.submitted)
	s.End(why)
	s.Receive([]byte(tool(2, "test")), w)
	after := mcptest.Receive(t, "a call", b.submitted)
	for _, l := range []*submittedCall{before, after} {
		go func() {
			if err := mcptest.Receive(t, "the end of the call", l.cancel); err != why {
				t.Errorf("cancelled with %v", err)
			}
			l.to.Reply(wire.Reply{Result: []byte(`{}`)})
		}()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	written()
	for _, id := range []string{`"id":1`, `"id":2`} {
		if !strings.Contains(out.String(), id) {
			t.Errorf("%s has no answer: %s", id, out.String())
		}
	}
}

// TestReplyDoesNotWait checks that Reply does not wait for a client that does not
// read, and that the client gets all replies when it reads.
func TestReplyDoesNotWait(t *testing.T) {
	t.Parallel()
	k, b := newSubmitTalk(t)
	const n = 1000
	for i := range n {
		k.send(tool(i, "test"))
	}
	for range n {
		mcptest.Receive(t, "a call", b.submitted).to.Reply(wire.Reply{Result: []byte(`{}`)})
	}
	seen := map[string]bool{}
	for range n {
		seen[k.receive()] = true
	}
	if len(seen) != n {
		t.Errorf("%d answers", len(seen))
	}
	k.closeInput()
}

// TestAnswersBeforeTheEnd checks that all replies are written before ServeStdio
// returns.
func TestAnswersBeforeTheEnd(t *testing.T) {
	t.Parallel()
	b := newSubmitter()
	opts := options(b)
	var in strings.Builder
	in.WriteString(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25"}}` + "\n")
	for i := range 200 {
		in.WriteString(tool(i, "reply") + "\n")
	}
	var out strings.Builder
	if err := ServeStdio(t.Context(), io.NopCloser(strings.NewReader(in.String())), &out, opts); err != nil {
		t.Error(err)
	}
	if got := strings.Count(out.String(), `{"replied":true}`); got != 200 {
		t.Errorf("%d answers", got)
	}
}

// BenchmarkSubmit measures calls that need no goroutine and have a reply at once.
func BenchmarkSubmit(b *testing.B) {
	b.Run("handshake", func(b *testing.B) { benchmarkSubmit(b, tool(1, "reply")) })
	b.Run("stateless", func(b *testing.B) {
		benchmarkSubmit(b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"reply","_meta":`+clienttest.Envelope+`}}`)
	})
}

func benchmarkSubmit(b *testing.B, call string) {
	backend := newSubmitter()
	opts := options(backend)
	w, written := writeTo(io.Discard)
	s := NewSession(b.Context(), w, opts)
	s.principal = stateless.New(b.Context(), opts.PrincipalOptions())
	s.Receive([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`), w)
	mcptest.Receive(b, "the session", backend.Began)
	b.ReportAllocs()
	for b.Loop() {
		s.Receive([]byte(call), w)
	}
	if err := s.Close(); err != nil {
		b.Error(err)
	}
	written()
}
