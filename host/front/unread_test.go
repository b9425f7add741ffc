package front

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestUnreadAnswersAreBounded checks that a client that does not read its answers is
// read only until a bounded number of them waits, and that it gets them all when it
// reads.
func TestUnreadAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t)
		k.initialize("2025-11-25")
		const most = maxRequests + 128 // answers that may wait
		const n = most + 100
		var sent atomic.Int64
		go func() {
			for i := range n {
				fmt.Fprintf(k.in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
				sent.Add(1)
			}
		}()
		synctest.Wait()
		if got := sent.Load(); got != most+1 { // the last one waits for room for its answer
			t.Errorf("%d requests were read, want %d", got, most+1)
		}
		for i := range n {
			if got, want := k.receive(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		k.closeInput()
	})
}
