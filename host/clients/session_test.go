package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// talk is a stdio session over pipes. The test is the client.
type talk struct {
	t       *testing.T
	backend *clienttest.Backend
	in      *io.PipeWriter
	out     *wire.Reader
	outPipe *io.PipeReader
	served  chan error
}

func newTalk(t *testing.T) *talk {
	b := clienttest.New()
	return newTalkWith(t, b, options(b))
}

// newTalkWith is newTalk with options. b is their backend, or the one that their
// backend wraps.
func newTalkWith(t *testing.T, b *clienttest.Backend, opts Options) *talk {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	k := &talk{t: t, backend: b, in: inW, out: wire.NewReader(outR, 0), outPipe: outR, served: make(chan error, 1)}
	go func() {
		err := ServeStdio(t.Context(), inR, outW, opts)
		outW.Close()
		k.served <- err
	}()
	return k
}

func (k *talk) send(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, line+"\n"); err != nil {
		k.t.Fatalf("send: %v", err)
	}
}

func (k *talk) receive() string {
	k.t.Helper()
	late := time.AfterFunc(time.Minute, func() { k.outPipe.CloseWithError(errors.New("nothing after a minute")) })
	msg, err := k.out.Read()
	late.Stop()
	if err != nil {
		k.t.Fatalf("receive: %v", err)
	}
	return string(msg)
}

// closeInput ends the input, and checks that only the given lines follow.
func (k *talk) closeInput(want ...string) {
	k.t.Helper()
	k.in.Close()
	for _, w := range want {
		if got := k.receive(); got != w {
			k.t.Errorf("got  %s\nwant %s", got, w)
		}
	}
	if msg, err := k.out.Read(); !errors.Is(err, io.EOF) {
		k.t.Errorf("after the end: %s, %v", msg, err)
	}
	if err := mcptest.Receive(k.t, "the end of the session", k.served); err != nil {
		k.t.Errorf("Serve: %v", err)
	}
}

func (k *talk) initialize(revision string) {
	k.t.Helper()
	k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q}}`, revision))
	if got := k.receive(); !strings.Contains(got, `"protocolVersion":"`+revision+`"`) {
		k.t.Fatalf("initialize: %s", got)
	}
	k.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestEOFCancelsCallsAndFinishesListings(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.initialize("2025-11-25")
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	k.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}`)
	k.closeInput(`{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"count"}]}}`)
	if err := mcptest.Receive(t, "the end of the call", k.backend.Cancelled); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("cancelled with %v", err)
	}
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	inR, inW := io.Pipe()
	defer inW.Close()
	served := make(chan error)
	go func() { served <- ServeStdio(ctx, inR, io.Discard, options(clienttest.New())) }()
	why := errors.New("told to stop")
	cancel(why)
	if err := mcptest.Receive(t, "the end of the session", served); !errors.Is(err, why) {
		t.Errorf("Serve: %v", err)
	}
}

func TestClientThatStopsReading(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.initialize("2025-11-25")
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	k.outPipe.CloseWithError(io.ErrClosedPipe)
	k.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if err := mcptest.Receive(t, "the end of the session", k.served); !errors.Is(err, wire.ErrClosed) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Serve: %v", err)
	}
	if err := mcptest.Receive(t, "the end of the call", k.backend.Cancelled); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("the call in flight ended with %v", err)
	}
}

// TestProgressOrder checks many calls at once that report progress: the progress of
// each call arrives in order and before its result, and none is lost.
func TestProgressOrder(t *testing.T) {
	t.Parallel()
	const calls, times = 50, 100
	k := newTalk(t)
	k.initialize("2025-11-25")
	go func() {
		for i := range calls {
			fmt.Fprintf(k.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"count","arguments":{"times":%d},"_meta":{"progressToken":%d}}}`+"\n", i, times, i)
		}
	}()
	seen := make([]int, calls)
	for done := 0; done < calls; {
		raw, err := k.out.Read()
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := wire.Get(raw, "id"); ok {
			i, _ := strconv.Atoi(string(id))
			if done++; seen[i] != times {
				t.Errorf("call %d answered after %d notifications of %d", i, seen[i], times)
			}
			continue
		}
		token, _ := wire.Get(raw, "params", "progressToken")
		i, _ := strconv.Atoi(string(token))
		seen[i]++
		if n, _ := wire.Get(raw, "params", "progress"); string(n) != strconv.Itoa(seen[i]) {
			t.Fatalf("call %d: progress %s, want %d", i, n, seen[i])
		}
	}
	k.closeInput()
}

// TestCancelStorm checks that calls that are cancelled right after they were made are
// not answered.
func TestCancelStorm(t *testing.T) {
	t.Parallel()
	const calls = 500
	k := newTalk(t)
	k.initialize("2025-11-25")
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range calls {
			fmt.Fprintf(k.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`+"\n", i)
			fmt.Fprintf(k.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", i)
		}
		fmt.Fprintln(k.in, `{"jsonrpc":"2.0","id":"end","method":"ping"}`)
	})
	if got := k.receive(); got != `{"jsonrpc":"2.0","id":"end","result":{}}` {
		t.Errorf("got %s", got)
	}
	writer.Wait()
	for range calls {
		var cancelled *wire.CancelledError
		if err := mcptest.Receive(t, "the end of the call", k.backend.Cancelled); !errors.As(err, &cancelled) {
			t.Fatalf("cancelled with %v", err)
		}
	}
	k.closeInput()
}

// TestIDReusedAfterCancel checks that a cancelled request does not answer a later
// request with the same id.
func TestIDReusedAfterCancel(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.initialize("2025-11-25")
	for range 100 {
		k.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"wait"}}`)
		k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
	}
	k.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo"}}`)
	if got := k.receive(); got != `{"jsonrpc":"2.0","id":"x","result":{"params":{"name":"echo"}}}` {
		t.Errorf("got %s", got)
	}
	k.closeInput()
}

func TestTooManyInFlight(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.initialize("2025-11-25")
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range maxRequests + 1 {
			fmt.Fprintf(k.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`+"\n", i)
		}
	})
	if got := k.receive(); !strings.Contains(got, fmt.Sprintf(`"id":%d,"error":{"code":-32603,"message":"too many requests in flight (at most %d): wait for answers or cancel some, then send it again"`, maxRequests, maxRequests)) {
		t.Errorf("got %s", got)
	}
	writer.Wait()
	go func() {
		for range maxRequests {
			mcptest.Receive(t, "the end of the call", k.backend.Cancelled)
		}
	}()
	k.closeInput()
}

func FuzzReceive(f *testing.F) {
	for _, file := range []string{"initialize", "malformed", "tools", "batch", "ask", "notifications"} {
		archive, err := txtar.ParseFile("testdata/" + file + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			var said []byte
			for line := range strings.Lines(string(a.Data)) {
				if rest, ok := strings.CutPrefix(line, "> "); ok {
					said = append(said, rest...)
				}
			}
			f.Add(said)
		}
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		var heard bytes.Buffer
		b := clienttest.New()
		close(b.Release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := ServeStdio(ctx, bytes.NewReader(said), &heard, options(b)); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(heard.Bytes()) {
			if _, err := wire.Parse(bytes.TrimSpace(line)); err != nil && line[0] != '[' {
				t.Fatalf("wrote %q: %v", line, err)
			}
		}
	})
}

func BenchmarkCall(b *testing.B) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- ServeStdio(b.Context(), inR, outW, options(clienttest.New()))
		outW.Close()
	}()
	out := wire.NewReader(outR, 0)
	say := func(line string) {
		io.WriteString(inW, line+"\n")
		if _, err := out.Read(); err != nil {
			b.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	b.ReportAllocs()
	for b.Loop() {
		say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"progressToken":1}}}`)
	}
	inW.Close()
	mcptest.Receive(b, "the end of the session", served)
}

// TestLargeClientIsRefused checks that a client cannot say more about itself than is kept of
// it, in both eras, and that it can try again.
func TestLargeClientIsRefused(t *testing.T) {
	t.Parallel()
	b := clienttest.New()
	opts := options(b)
	opts.MaxMessage = 1 << 20
	k := newTalkWith(t, b, opts)
	large := `{"x":"` + strings.Repeat("x", 64<<10) + `"}`
	for _, request := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + large + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":` + large + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + mcptest.Envelope{Capabilities: large}.Params("{}") + `}`,
	} {
		k.send(request)
		if got := k.receive(); !strings.Contains(got, `"code":-32602`) || !strings.Contains(got, "what the client says about itself is too large") {
			t.Errorf("got %.300s", got)
		}
	}
	k.initialize("2025-11-25")
	k.closeInput()
}
