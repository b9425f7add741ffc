package rpc

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestCandidates checks which calls a request of a peer may belong to as time goes on:
// those that were in flight when it came, until they are answered, and also if they are
// cancelled, or for some seconds if they were cancelled before. Each such end wakes the one who waits for it.
func TestCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, main, h := connectTest(t, Options{Peer: Server})
		cancels := map[string]context.CancelFunc{}
		call := func(owner string) {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			cancels[owner] = cancel
			go func() { _, _ = c.Call(ctx, Call{Call: wire.Call{Method: "m", Owner: owner}}) }()
			synctest.Wait()
			main.take()
		}
		answer := func(id int) { c.Receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id), main) }
		for _, owner := range []string{"a", "b", "c", "d", "e"} { // ids 1 to 5
			call(owner)
		}
		cancels["a"]()
		cancels["e"]()
		synctest.Wait()
		main.take()
		begin := time.Now()
		c.Receive([]byte(request(1, "roots/list")), main)
		r := <-h.requests
		candidates := r.Candidates()
		call("later")                 // 6, is none
		owners := candidates.Owners() // e, too
		equal(t, "at first", fmt.Sprint(len(owners), owners[2:]), "5 [b c d]")

		var seen []string
		done := make(chan string)
		await := func(ctx context.Context, n int) {
			go func() {
				left := candidates.Await(ctx, func(owners []any) bool {
					seen = append(seen, fmt.Sprint(len(owners)))
					return len(owners) <= n
				})
				done <- fmt.Sprint(left, " ", time.Since(begin))
			}()
			synctest.Wait()
		}
		await(t.Context(), 2)
		answer(6) // of no candidate
		synctest.Wait()
		answer(5) // late: nothing more comes for a call that was cancelled before
		synctest.Wait()
		time.Sleep(time.Second)
		answer(3)
		synctest.Wait()
		equal(t, "when the cancelled call does not count any more", <-done, "[b d] "+lingerTime.String())
		equal(t, "on the way", fmt.Sprint(seen), "[5 5 4 3 2]")

		ctx, cancel := context.WithTimeout(t.Context(), 2*lingerTime)
		defer cancel()
		await(ctx, 1)
		cancels["b"]()
		synctest.Wait()
		main.take()
		time.Sleep(time.Second)
		answer(2) // late, but the question may be left over from the call
		equal(t, "when a call that was in flight is cancelled", <-done, "[b d] "+(3*lingerTime).String())

		answer(4)
		await(t.Context(), 1)
		equal(t, "when only that one is left", <-done, "[b] 15s")
		await(t.Context(), 0)
		c.End(wire.ErrClosed)
		equal(t, "when the connection ends", <-done, "[] 15s")
		r.Reply(result("{}"))
	})
}
