package servers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestHandshakeWaitsForParams checks that the process is started, and that its handshake then waits until
// the params of initialize are known.
func TestHandshakeWaitsForParams(t *testing.T) {
	t.Parallel()
	const params = `{"protocolVersion":"2025-03-26","capabilities":{"x":1e400},"clientInfo":{"name":"theirs","version":"1","title":"é"},"_meta":{"n":9007199254740993}}`
	b := newProcessMonitor(t)
	asked, known := make(chan struct{}), make(chan struct{})
	results, started := make(chan string, 1), make(chan *Upstream, 1)
	s := spec("ok", b.env())
	f := launchWith(t, s, Options{
		InitializeParams: func(ctx context.Context) ([]byte, error) {
			close(asked)
			<-known
			return []byte(params), ctx.Err()
		},
		OnHandshake: func(result []byte) {
			select {
			case <-(<-started).handshakeDone:
				t.Error("Handshake returns before OnHandshake has the result")
			default:
			}
			results <- string(result)
		},
	}, fastTimings)
	started <- f.Upstream
	b.next() // the process has started
	<-asked
	if _, ok := f.Server(); ok {
		t.Error("there is a result of initialize before it was sent")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Handshake(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(known)
	const result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1.2"}}`
	if raw, err := f.Handshake(t.Context()); err != nil || string(raw) != result {
		t.Errorf("%s, %v", raw, err)
	}
	if got := <-results; got != result {
		t.Error(got)
	}
	if raw, ok := f.Server(); !ok || string(raw) != result {
		t.Errorf("server %s", raw)
	}
	if got := f.call(t, "who"); got != `{"start":0,"params":`+params+`}` {
		t.Errorf("the server got %s", got)
	}
	if f.Name() != "x" {
		t.Error(f.Name())
	}
}

// TestServerEndsBeforeParams checks that waiting for the params of initialize ends when
// the process has exited.
func TestServerEndsBeforeParams(t *testing.T) {
	t.Parallel()
	asked := make(chan error, 10)
	f := launchWith(t, spec("exit"), Options{InitializeParams: func(ctx context.Context) ([]byte, error) {
		<-ctx.Done()
		asked <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}}, fastTimings)
	_, err := f.Handshake(t.Context())
	wantDown(t, err, "exit status 3")
	wantDown(t, <-asked, "exit status 3")
	if s := f.Status(); s.State != Failed || !strings.Contains(s.Err, "cannot open the database") {
		t.Errorf("status %+v", s)
	}
}

func TestCloseBeforeParams(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	f := launchWith(t, here("ok"), Options{InitializeParams: func(ctx context.Context) ([]byte, error) {
		close(asked)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}, fastTimings)
	<-asked
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := f.Handshake(t.Context())
	wantDown(t, err, "closed")
	if log := f.log.String(); strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

func TestInitializeParamsFail(t *testing.T) {
	t.Parallel()
	f := launchWith(t, here("ok"), Options{InitializeParams: func(context.Context) ([]byte, error) {
		return nil, errors.New("no client came")
	}}, fastTimings)
	_, err := f.Call(t.Context(), wire.Call{Method: "m"})
	wantDown(t, err, "no client came")
}

func TestRequestsOfTheServer(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	f := launchWith(t, here("ok"), Options{OnRequest: func(_ context.Context, m wire.Inbound) wire.Reply {
		for _, owner := range m.Owners() {
			asked <- m.Method + string(m.Params) + owner.(string)
		}
		return wire.Reply{Result: []byte(`{"roots":[]}`)}
	}}, fastTimings)
	call := toolCall("ask roots")
	call.Owner = "me"
	reply, err := f.Call(t.Context(), call)
	if err != nil || string(reply.Result) != `{"roots":[]}` {
		t.Errorf("%s, %v", reply.Result, err)
	}
	if got := <-asked; got != `roots/list{"x":1e400}me` {
		t.Error(got)
	}
	if got := f.call(t, "ask"); got != "{}" || len(asked) != 0 { // ping is not passed to OnRequest
		t.Error(got)
	}
}

func TestUnknownTransport(t *testing.T) {
	t.Parallel()
	s := spec("ok")
	s.Transport = "pigeon"
	f := launch(t, s)
	wantDown(t, f.Ready(t.Context()), `unknown transport "pigeon" (use stdio, http or sse)`)
	if got := (Spec{URL: "http://x"}).transport() + (Spec{Command: "x"}).transport(); got != "httpstdio" {
		t.Error(got)
	}
}
