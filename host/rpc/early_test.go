package rpc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
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
