package mcptest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

// testContext returns a context that limits how long tests wait for a peer.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// transports connect a client directly to a server.
var transports = []struct {
	name string
	dial func(t testing.TB, sw ServerOptions, opts ClientOptions) (*Client, *Log)
}{
	{"stdio", dialProcess},
	{"http", dialHTTP},
	{"http with JSON", func(t testing.TB, sw ServerOptions, opts ClientOptions) (*Client, *Log) {
		sw.Answers = "auto"
		return dialHTTP(t, sw, opts)
	}},
	{"http with connections that break", func(t testing.TB, sw ServerOptions, opts ClientOptions) (*Client, *Log) {
		sw.CutAfter = 100
		return dialHTTP(t, sw, opts)
	}},
	{"sse", func(t testing.TB, sw ServerOptions, opts ClientOptions) (*Client, *Log) {
		s := NewServer(sw)
		c, err := NewSSE(listen(t, s, s.SSE()), opts)
		if err != nil {
			t.Fatal(err)
		}
		return c, s.Received
	}},
}

func dialHTTP(t testing.TB, sw ServerOptions, opts ClientOptions) (*Client, *Log) {
	s := NewServer(sw)
	return NewHTTP(listen(t, s, s.HTTP()), opts), s.Received
}

func listen(t testing.TB, s *Server, handler http.Handler) (url string) {
	l := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.Close()
		l.Close()
	})
	return l.URL
}

func dialProcess(t testing.TB, sw ServerOptions, opts ClientOptions) (*Client, *Log) {
	o, err := NewObserver()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	sw.Observer = o.Addr()
	cmd := exec.Command(os.Args[0])
	cmd.Env = os.Environ()
	for k, v := range sw.Environ() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the exit status depends on the test
	return NewStdio(out, in, opts), &o.Log
}

// wanted has texts that observations must contain, by item, in addition to being
// equal over all transports.
var wanted = map[string][]struct {
	text  string
	times int
}{
	"initialize: capabilities, revision, _meta": {{"(absent)", 0}, {`"instructions":true`, 1}},
	"definitions, pages, _meta of lists":        {{"(absent)", 0}, {`"number of tools":15`, 1}, {`"number of resources":4`, 1}},
	"ids 1, \"1\" and huge ones":                {{`"id":1,`, 1}, {`"id":"1",`, 1}},
	"progress, 2,000 before the result":         {{`"before the result":2000,"after the result":0,"in order":true`, 4}},
	"progress of several calls at once":         {{`"before the result":200,"after the result":0,"in order":true`, 8}},
	"cancel by notification":                    {{`"answered":0`, 3}},
	"cancel storm":                              {{`"not cancelled":0,"answered":0`, 1}},
	"burst of 5,000 notifications":              {{`"in order":true`, 1}},
	"requests of the server to the client":      {{`"progress":[{"progressToken":"a token","progress":1,`, 3}, {`"progressToken":7,"progress":3`, 1}, {"User rejected", 1}},
	"list_changed":                              {{"new in ", 4}},
	"large messages":                            {{"intact\":true", 2}},
}

// TestItemsDirectly checks that each item works without a proxy and has the same
// observation over all transports.
func TestItemsDirectly(t *testing.T) {
	first := map[string][]byte{}
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ctx := testContext(t)
			c, log := tr.dial(t, ServerOptions{}, ClientOptions{OnRequest: AnswerRequest})
			defer func() {
				if err := c.Close(ctx); err != nil {
					t.Error(err)
				}
			}()
			welcome, err := c.Initialize(ctx, ClientParams)
			if err != nil {
				t.Fatal(err)
			}
			p := &Pair{Client: c, InitializeResponse: welcome, Server: log}
			for _, item := range Items {
				start := time.Now()
				seen, err := item.Run(ctx, p)
				if err != nil {
					t.Errorf("%s: %v", item.Name, err)
					continue
				}
				for _, want := range wanted[item.Name] {
					if n := strings.Count(string(seen), want.text); n != want.times {
						t.Errorf("%s: %d times %s in %.3000s", item.Name, n, want.text, seen)
					}
				}
				if first[item.Name] == nil {
					first[item.Name] = seen
				}
				if diff := Diff(first[item.Name], seen); diff != "" {
					t.Errorf("%s: %s", item.Name, diff)
				}
				t.Logf("%s: %v, %.60s", item.Name, time.Since(start), seen)
			}
		})
	}
}
