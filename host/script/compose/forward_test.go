package compose

import (
	"context"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// slowReader is a client that asks for logs and does not read them yet.
type slowReader struct {
	listener
	written chan struct{} // receives a token for each unread message
	read    chan struct{} // closed when the client reads
}

func (s *slowReader) Session() route.Session { return s }

func (s *slowReader) Notify(method string, params []byte) {
	s.written <- struct{}{}
	<-s.read
	s.listener.Notify(method, params)
}

// TestSlowLogReader checks that a script with a client that does not read log messages does not
// keep other scripts from running.
func TestSlowLogReader(t *testing.T) {
	one, err := sandboxtest.Guest(t).Share(sandbox.Options{MaxConcurrent: 1})
	if err != nil {
		t.Fatal(err)
	}
	client := &slowReader{listener: listener{least: "info"}, written: make(chan struct{}, 1), read: make(chan struct{})}
	c := composer(one, &upstreams{}, func(o *Options) { o.Listeners = client })
	logging := make(chan string)
	go func() {
		reply := c.CallSaved(t.Context(), saved("log.info('hello')\nreturn 1"), route.Call{Params: params(`{}`), Origin: client})
		logging <- get(t, reply, "structuredContent", "result")
	}()
	<-client.written
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	reply := c.Eval(ctx, "return 2", nil, route.Call{})
	if got := get(t, reply, "structuredContent", "result"); got != "2" {
		t.Errorf("while a client does not read, another script ends with %s", reply.Result)
	}
	close(client.read)
	if got := <-logging; got != "1" || len(client.told) != 1 {
		t.Errorf("the script that logs returned %s, the client was told %q", got, client.told)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}
