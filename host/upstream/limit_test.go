package upstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// TestLimits runs on a clock of its own: the steps of a call are at seconds.
func TestLimits(t *testing.T) {
	const idle, most = 10 * time.Second, 100 * time.Second
	progress := func(u *Upstream, call wire.Call) { call.Progress(nil) }
	asks := func(d time.Duration) func(*Upstream, wire.Call) {
		return func(u *Upstream, _ wire.Call) {
			go func() {
				u.request(context.Background(), wire.Inbound{Method: "elicitation/create", Params: []byte(d.String())})
			}()
		}
	}
	for _, tt := range []struct {
		name   string
		method string
		spec   Spec
		at     map[int]func(u *Upstream, call wire.Call)
		ends   time.Duration
		max    bool
	}{
		{"idle", "m", Spec{Timeout: idle}, nil, 10 * time.Second, false},
		{"progress puts it off", "m", Spec{Timeout: idle},
			map[int]func(*Upstream, wire.Call){7: progress, 16: progress, 25: progress}, 35 * time.Second, false},
		{"a client that does not take its progress", "m", Spec{Timeout: idle},
			map[int]func(*Upstream, wire.Call){5: func(_ *Upstream, call wire.Call) { go call.Progress([]byte("slow")) }}, 75 * time.Second, false},
		{"a question to the client puts it off", "m", Spec{Timeout: idle},
			map[int]func(*Upstream, wire.Call){5: asks(50 * time.Second)}, 60 * time.Second, false},
		{"the maximum", "m", Spec{Timeout: idle, MaxTimeout: 20 * time.Second},
			map[int]func(*Upstream, wire.Call){7: progress, 16: progress}, 20 * time.Second, true},
		{"the maximum, with a question", "m", Spec{Timeout: idle, MaxTimeout: 20 * time.Second},
			map[int]func(*Upstream, wire.Call){5: asks(90 * time.Second)}, 20 * time.Second, true},
		{"the end of a task", "tasks/result", Spec{Timeout: idle, MaxTimeout: most}, nil, most, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &Upstream{spec: tt.spec, opts: Options{OnRequest: func(_ context.Context, m wire.Inbound) wire.Reply {
					d, _ := time.ParseDuration(string(m.Params))
					<-time.After(d)
					return wire.Reply{}
				}}}
				begun := time.Now()
				ctx, call, limit := u.limited(t.Context(), wire.Call{Method: tt.method, Progress: func(params []byte) {
					if string(params) == "slow" {
						<-time.After(60 * time.Second)
					}
				}})
				defer limit.stop()
				for second := 0; ctx.Err() == nil; second++ {
					if f := tt.at[second]; f != nil {
						f(u, call)
					}
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
				}
				var timeout *TimeoutError
				if !errors.As(context.Cause(ctx), &timeout) || timeout.Max != tt.max || timeout.Method != tt.method {
					t.Errorf("ended by %v", context.Cause(ctx))
				}
				if d := time.Since(begun); d != tt.ends {
					t.Errorf("ended after %v, want %v", d, tt.ends)
				}
				<-time.After(time.Hour) // whatever runs still ends in the bubble
			})
		})
	}
}

// TestLimitOfATask: the progress of a task that goes on after its call starts
// no timer again.
func TestLimitOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &Upstream{spec: Spec{Timeout: time.Second}}
		ctx, call, limit := u.limited(t.Context(), wire.Call{Progress: func([]byte) {}})
		limit.stop()
		call.Progress(nil)
		<-time.After(time.Hour)
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) || limit.timer != nil {
			t.Errorf("ended by %v", err)
		}
	})
}
