package clients

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// TestUnreadAnswersAreBounded checks that a client that does not read its answers is
// read only until a bounded number of them waits, and that it gets them all when it
// reads.
func TestUnreadAnswersAreBounded(t *testing.T) {
	t.Parallel()
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

// TestUnreadBytesAreBounded checks that large answers that a client does not read, and large
// requests in flight, take a bounded number of bytes, that each of those beyond is refused
// with an error that says so, and that small requests always get through.
func TestUnreadBytesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := clienttest.New()
		opts := options(b)
		opts.Budget = budget.New(32 << 20) // 4 MiB for what is not read
		k := newTalkWith(t, b, opts)
		k.initialize("2025-11-25")
		const n, size = 200, 50 << 10
		text := strings.Repeat("x", size)
		go func() {
			for i := range n {
				fmt.Fprintf(k.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","x":"%s"}}`+"\n", i, text)
			}
			fmt.Fprintf(k.in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", n)
		}()
		synctest.Wait() // all are in
		if f := opts.Budget.Figures(); f.Peak > 9<<20 {
			t.Errorf("%d bytes", f.Peak)
		}
		whole, refused, pinged := 0, 0, false
		for range n + 1 {
			switch got := k.receive(); {
			case strings.Contains(got, text):
				whole++
			case strings.Contains(got, "no memory: the messages that this client has not read would be") && strings.Contains(got, "(raise execution.max_total_memory)"):
				refused++
			case strings.HasSuffix(got, `"result":{}}`):
				pinged = true
			default:
				t.Fatalf("got %.300s", got)
			}
		}
		if whole < 40 || refused < 40 || !pinged {
			t.Errorf("%d answers, %d refused, ping: %v", whole, refused, pinged)
		}
		k.closeInput()
		if f := opts.Budget.Figures(); f.Used != 0 {
			t.Errorf("at the end: %+v", f)
		}
	})
}
