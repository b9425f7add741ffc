package rpc

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestAnswerBeforeRequest checks that a call ends with an answer that comes while the
// call still waits for room on its stream. A client can guess the id.
func TestAnswerBeforeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, main, _ := connectTest(t, Options{Peer: Client})
		replies := make(chan wire.Reply, 1)
		go func() {
			reply, err := c.Call(t.Context(), Call{Call: wire.Call{Method: "m"}, Stream: newFakeStream(0)})
			if err != nil {
				t.Errorf("got %v", err)
			}
			replies <- reply
		}()
		synctest.Wait()
		c.Receive([]byte(`{"jsonrpc":"2.0","id":1,"result":{"x":1}}`), main)
		synctest.Wait()
		select {
		case reply := <-replies:
			equal(t, "reply", string(reply.Result), `{"x":1}`)
		default:
			t.Error("the call goes on")
		}
	})
}

// TestProgressBeforeRequest checks that Call does not return while its progress callback
// runs, if the call cannot be sent. A client can guess the token.
func TestProgressBeforeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, main, _ := connectTest(t, Options{Peer: Client})
		full := newFakeStream(0)
		release := make(chan struct{})
		running, returned := false, false
		call := wire.Call{Method: "m", Progress: func([]byte) {
			running = true
			<-release
			running = false
		}}
		go func() {
			if _, err := c.Call(t.Context(), Call{Call: call, Stream: full}); err == nil {
				t.Error("the call got an answer")
			}
			returned = true
		}()
		synctest.Wait()
		go c.Receive([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`), main)
		synctest.Wait()
		full.fail()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !running || returned {
			t.Errorf("callback runs: %v; Call has returned: %v", running, returned)
		}
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !returned {
			t.Error("Call has not returned")
		}
	})
}

// TestOddAnswers answers a request with its id in other forms, and with what is no JSON.
func TestOddAnswers(t *testing.T) {
	const result, failed, none = "result", "failed", "none"
	for _, tt := range []struct{ raw, want string }{
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, result},
		{`{"jsonrpc":"2.0","id":"1","result":{}}`, result},
		{`{"jsonrpc":"2.0","id":1.0,"result":{}}`, result},
		{`{"jsonrpc":"2.0","id":1e0,"result":{}}`, result},
		{`{"jsonrpc":"2.0","id":10E-1,"result":{}}`, result},
		{`{"jsonrpc":"2.0","id":"1.0","result":{}}`, none},
		{`{"jsonrpc":"2.0","id":"01","result":{}}`, none},
		{`{"jsonrpc":"2.0","id":" 1","result":{}}`, none},
		{`{"jsonrpc":"2.0","id":"+1","result":{}}`, none},
		{`{"jsonrpc":"2.0","id":-1,"result":{}}`, none},
		{`{"jsonrpc":"2.0","id":1.5,"result":{}}`, none},
		{`{"jsonrpc":"2.0","id":1e400,"result":{}}`, none},
		{`{"jsonrpc":"2.0","id":1.` + strings.Repeat("0", 100) + `,"result":{}}`, none},
		{`{"jsonrpc":"2.0","id":"","result":{}}`, none},
		{`{"jsonrpc":"2.0","id":1,"result":{"n":NaN}}`, failed},
		{`{"jsonrpc":"2.0","id":"1","result":{"n":NaN}}`, failed},
		{`{"jsonrpc":"2.0","result":{"n":Infinity},"id":1}`, failed},
		{`{"jsonrpc":"2.0","result":{"n":Infinity},"id":1.0}`, failed},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"a\tb\"}}", failed},
		{`{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("x", 1000) + `\x"}}`, failed},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":'no'}}`, failed},
		{`{"jsonrpc":"2.0","id":1,"result":{"cut`, failed},
		{`{"jsonrpc":"2.0","id":2,"result":{"n":NaN}}`, none},
		{`{"jsonrpc":"2.0","method":"m","id":1,"params":{"n":NaN}}`, none},
		{`{"jsonrpc":"2.0","id":1,"params":{"n":NaN},"method":"m"}`, none},
	} {
		c, main, _ := connectTest(t, Options{Peer: Server})
		got := none
		if _, err := c.Submit(Call{Call: wire.Call{Method: "m"}}, func(r wire.Reply, _ wire.Continuation) {
			if got = failed; r.Result != nil {
				got = result
			}
		}); err != nil {
			t.Fatal(err)
		}
		c.Receive([]byte(tt.raw), main)
		if got != tt.want {
			t.Errorf("%.80s: %s, want %s", tt.raw, got, tt.want)
		}
	}
}
