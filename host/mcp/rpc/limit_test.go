package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// slowHandler answers each request of the peer after some time.
type slowHandler time.Duration

func (d slowHandler) Request(r *Request) {
	r.Start(func(ctx context.Context, _ *Request) wire.Reply {
		select {
		case <-time.After(time.Duration(d)):
		case <-ctx.Done():
		}
		return wire.Reply{Result: []byte("{}")}
	})
}

func (slowHandler) Notification(wire.Inbound) {}

// TestLimits checks when calls time out, on the clock of a synctest bubble. Times of
// steps are in seconds.
func TestLimits(t *testing.T) {
	const idle = 10 * time.Second
	progress := func(c *Conn, main Stream) {
		c.Receive([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`), main)
	}
	asks := func(c *Conn, main Stream) {
		c.Receive([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`), main)
	}
	for _, tt := range []struct {
		name  string
		limit Limit
		slow  time.Duration // of progress callbacks and answers to the peer
		at    map[int]func(*Conn, Stream)
		ends  time.Duration
	}{
		{"none", Limit{}, 0, nil, time.Hour},
		{"idle", Limit{Idle: idle}, 0, nil, idle},
		{"progress puts it off", Limit{Idle: idle}, 0, map[int]func(*Conn, Stream){7: progress, 16: progress, 25: progress}, 35 * time.Second},
		{"a client that does not take its progress", Limit{Idle: idle}, 60 * time.Second, map[int]func(*Conn, Stream){5: progress}, 75 * time.Second},
		{"a question of the peer puts it off", Limit{Idle: idle}, 50 * time.Second, map[int]func(*Conn, Stream){5: asks}, 60 * time.Second},
		{"the maximum", Limit{Idle: idle, Max: 20 * time.Second}, 0, map[int]func(*Conn, Stream){7: progress, 16: progress}, 20 * time.Second},
		{"the maximum, with a question", Limit{Idle: idle, Max: 20 * time.Second}, 90 * time.Second, map[int]func(*Conn, Stream){5: asks}, 20 * time.Second},
		{"the maximum alone", Limit{Max: 100 * time.Second}, 0, nil, 100 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				main := newFakeStream(8)
				main.main = true
				c := New(t.Context(), Options{Peer: Server, Main: main, Handler: slowHandler(tt.slow), SerialIDs: true})
				var took time.Duration
				ended, began := make(chan error, 1), time.Now()
				call := Call{Limit: tt.limit, Call: wire.Call{Method: "m", Progress: func([]byte) { <-time.After(tt.slow) }}}
				if _, err := c.Submit(call, func(_ wire.Reply, next wire.Continuation) {
					took = time.Since(began)
					_, err := next(context.Background())
					ended <- err
				}); err != nil {
					t.Fatal(err)
				}
				main.flush(1)
				// Another call that starts later and ends sooner shares the timer.
				for second := 0; second < 40; second++ {
					if f := tt.at[second]; f != nil {
						go f(c, main)
					}
					if second == 1 {
						call := Call{Limit: Limit{Max: time.Second}, Call: wire.Call{Method: "short"}}
						if _, err := c.Call(t.Context(), call); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
							t.Errorf("the short one ended after %v with %v", time.Since(began), err)
						}
						continue
					}
					<-time.After(time.Second)
				}
				stop := time.AfterFunc(time.Hour-40*time.Second, func() { c.End(wire.ErrClosed) })
				err := <-ended
				if took != tt.ends {
					t.Errorf("ended after %v, want %v", took, tt.ends)
				}
				if want := tt.ends < time.Hour; errors.Is(err, context.DeadlineExceeded) != want {
					t.Errorf("ended by %v", err)
				}
				stop.Stop()
				c.Close(wire.ErrClosed)
			})
		})
	}
}

// TestOwnersLinger checks that the owner of a cancelled call remains an owner of
// messages for a while, and that the number of such owners is bounded.
func TestOwnersLinger(t *testing.T) {
	now := time.Now()
	all := []lingering{
		{id: 1, owner: "a", until: now.Add(-1)}, {id: 2, owner: "b", until: now}, {id: 3, owner: "c", until: now.Add(1), answered: true}, {id: 4, owner: "d", until: now.Add(2)},
	}
	if got := expire(append([]lingering(nil), all...), now); len(got) != 2 || got[0].owner != "c" {
		t.Errorf("left: %v", got)
	}
	if got := expire(append([]lingering(nil), all...), now.Add(time.Hour)); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	s := newState(true)
	for i := range int64(maxLingering + 1) {
		s.linger(lingering{id: i, owner: fmt.Sprint(i), until: now.Add(lingerTime)}, now)
	}
	if got := ownersOf(s.candidates(now)); len(got) != maxLingering || got[0] != "1" {
		t.Errorf("%d kept, first %v", len(got), got[0])
	}
	s = newState(true)
	linger := func(id int64, group string) {
		s.linger(lingering{id: id, owner: fmt.Sprint(group, id), group: group, until: now.Add(lingerTime)}, now)
	}
	linger(0, "quiet ")
	for i := range int64(3 * maxLingering) {
		linger(i, "flood ")
	}
	linger(1, "quiet ")
	got := ownersOf(s.candidates(now))
	if len(got) != maxLingering || got[0] != "quiet 0" || got[len(got)-1] != "quiet 1" {
		t.Errorf("a flood displaces the calls of others: %d kept, first %v, last %v", len(got), got[0], got[len(got)-1])
	}
}

// TestTasksAreBounded checks that only the newest tasks keep their progress tokens.
func TestTasksAreBounded(t *testing.T) {
	s := newState(true)
	for i := range int64(3 * maxTasks) {
		s.keepTask(&call{id: i}, fmt.Sprint(i))
	}
	if len(s.tasks) != maxTasks || len(s.ongoing) != maxTasks || s.ongoing[2*maxTasks-1] != nil || s.ongoing[2*maxTasks] == nil {
		t.Errorf("%d tasks, %d by id", len(s.tasks), len(s.ongoing))
	}
	for i := range 3 * maxTasks {
		s.endTask(fmt.Sprint(i))
	}
	if len(s.tasks) != 0 || len(s.ongoing) != 0 {
		t.Errorf("%d tasks, %d by id after all have ended", len(s.tasks), len(s.ongoing))
	}
}
