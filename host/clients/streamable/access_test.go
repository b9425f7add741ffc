package streamable

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// clock is a clock that tests set.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) set(d time.Duration) { c.ns.Store(int64(d)) }

// TestExpiry checks that an expired token is refused, and that sessions and requests with the token
// end, in both eras. The handler gets no event when the clock is set: the handler looks again when
// the token would expire if the clock ran.
func TestExpiry(t *testing.T) {
	t.Parallel()
	var now clock
	now.set(time.Hour)
	all := tokens("stays", "goes")
	const left = 20 * time.Millisecond
	all[1].Name, all[1].Expires = "goes", now.now().Add(left)
	w := newServer(t, Options{Access: Access{Tokens: all}, WallClock: now.now, UnusedTTL: time.Hour})
	stays, goes := w.client(), w.client()
	stays.token, goes.token = "stays", "goes"
	stays.initialize("2025-11-25")
	goes.initialize("2025-11-25")
	first := w.session()
	second := w.session()
	if second.TokenName() != "goes" {
		first, second = second, first
	}
	if got := goes.call(ping); got != pong {
		t.Fatalf("before it expires: %s", got)
	}
	waits := make(chan struct{})
	go func() { // the answer may be cut off
		defer close(waits)
		res, err := goes.http.Do(goes.request(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}}`, "Authorization", "Bearer goes"))
		if err == nil {
			res.Body.Close()
		}
	}()
	mcptest.Receive(t, "the call", w.backend.Waiting)
	parked := w.client()
	parked.token = "goes"
	state := parked.ask("1")
	third := w.session()

	now.set(time.Hour + left - 1)
	if second.Rights() == bearer.Nothing || goes.call(ping) != pong {
		t.Error("the token expires too early")
	}
	now.set(time.Hour + left)
	if second.Rights() != bearer.Nothing || third.Rights() != bearer.Nothing || first.Rights() == bearer.Nothing {
		t.Error("the rights do not end when the token expires")
	}
	for range 2 { // a call and a parked one
		if cause := mcptest.Receive(t, "the end of a call", w.backend.Cancelled); !errors.Is(cause, errRevoked) {
			t.Errorf("a call ends with %v", cause)
		}
	}
	for range 2 {
		if s := mcptest.Receive(t, "the end of a session", w.backend.Ended); s != second && s != third {
			t.Error("the session of another token ends")
		}
	}
	<-waits
	for _, res := range []*http.Response{
		goes.post(ping), goes.do(t.Context(), http.MethodGet, "", "Authorization", "Bearer goes"),
		parked.do(t.Context(), http.MethodPost, retry("2", state, "[]"), "Authorization", "Bearer goes"),
		w.client().do(t.Context(), http.MethodPost, ping, "Authorization", "Bearer goes"),
	} {
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("a request with an expired token: %s", res.Status)
		}
		read(t, res)
	}
	if got := stays.call(ping); got != pong {
		t.Errorf("the other session: %s", got)
	}
	all = tokens("stays", "goes") // without an end again
	w.http.SetAccess(Access{Tokens: all})
	again := w.client()
	again.token = "goes"
	again.initialize("2025-11-25")
	if got := again.call(ping); got != pong {
		t.Errorf("after a reload: %s", got)
	}
}

// TestExpiryWhileLooking checks that a session ends at once at any moment of the token's expiry,
// also while the handler looks for expired tokens.
func TestExpiryWhileLooking(t *testing.T) {
	t.Parallel()
	for looks := range int64(8) {
		var counting atomic.Bool
		var count atomic.Int64
		all, begin := tokens("goes"), time.Now()
		all[0].Expires = begin.Add(1)
		w := newServer(t, Options{Access: Access{Tokens: all}, UnusedTTL: time.Hour, WallClock: func() time.Time {
			if counting.Load() && count.Add(1) > looks {
				return begin.Add(1)
			}
			return begin
		}})
		c := w.client()
		c.token = "goes"
		c.initialize("2025-11-25")
		s := w.session()
		counting.Store(true)
		if got := mcptest.Receive(t, "the end of the session", w.backend.Ended); got != s {
			t.Error("another session ends")
		}
	}
}

// TestNextExpiry checks when the handler looks again without a tick.
func TestNextExpiry(t *testing.T) {
	t.Parallel()
	var now clock
	now.set(time.Hour)
	all := tokens("a", "b", "c")
	all[0].Expires, all[1].Expires = now.now().Add(2*time.Minute), now.now().Add(time.Minute)
	p := newPolicy(Access{Tokens: all}, now.now)
	for _, step := range []struct {
		at   time.Duration
		left time.Duration // 0: no token is left to expire
	}{{time.Hour, time.Minute}, {time.Hour + time.Minute, time.Minute}, {2 * time.Hour, 0}} {
		now.set(step.at)
		next, ok := p.nextExpiry()
		if ok != (step.left > 0) || ok && next.Sub(now.now()) != step.left {
			t.Errorf("at %v: %v, %t", step.at, next, ok)
		}
	}
}
