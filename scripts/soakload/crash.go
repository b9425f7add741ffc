package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// steady is how long a server has to run so that the proxy resets the backoff, and a little more.
const steady = 11 * time.Second

// ends are the faults that end a server or a connection, by transport.
var ends = map[string][]string{
	"stdio": {mcptest.CrashBefore, mcptest.CrashDuring, mcptest.CrashAfter, mcptest.CloseStdout, mcptest.StopReading, mcptest.IgnoreShutdown, killed},
	"http":  {mcptest.CrashBefore, mcptest.CrashDuring, mcptest.CrashAfter, forgotten},
	"sse":   {mcptest.CrashBefore, mcptest.CrashDuring, mcptest.CrashAfter, forgotten},
}

// Ends with a cause outside of the server.
const (
	killed    = "SIGKILL"
	forgotten = "restart" // of an HTTP server: all sessions are forgotten
)

// crash is the life of a client that ends a server a few times in a row while calls are pending.
// crash measures how long the calls wait and how soon the server is back.
func (s *soak) crash(ctx context.Context, o origin, rnd *rand.Rand) {
	c := s.open("crash of "+o.name, rnd)
	if c == nil {
		return
	}
	defer c.close()
	for range 1 + rnd.IntN(3) {
		pause(ctx, time.Duration(rnd.IntN(1500))*time.Millisecond)
		kind := ends[o.transport][rnd.IntN(len(ends[o.transport]))]
		if _, _, ok := c.ready(ctx, o); !ok {
			return
		}
		c.crashOnce(o, kind)
	}
	pause(ctx, steady+time.Duration(rnd.IntN(2000))*time.Millisecond)
}

// ready waits until the server answers, and returns the number of calls until then, and the answer
// to the last failed call.
func (c *session) ready(ctx context.Context, o origin) (calls int, last string, ok bool) {
	for end := time.Now().Add(maxWait); ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
		calls++
		got := c.echo(o, 0)
		if got.ok() {
			return calls, last, true
		}
		last = clip(string(got.raw))
		if time.Now().After(end) {
			c.s.tally.fail("%s is not back within %v: %s", o.name, maxWait, last)
			break
		}
	}
	return calls, last, false
}

// crashOnce ends the server while three calls are pending.
func (c *session) crashOnce(o origin, kind string) {
	var waiting []request
	for range 3 {
		r := c.call(o.name+"__wait", fmt.Sprintf(`{"x":%q}`, c.mark), true)
		waiting = append(waiting, r)
		if !c.started(r) && o.switches.Answers != "json" { // with "json" no stream has progress
			for _, r := range waiting {
				c.cancel(r)
				c.wait(r)
			}
			return // another client has ended the server, so the measurement would be wrong
		}
	}
	pid := 0
	if kind == killed {
		m, err := c.s.host.ask(statusLine)
		if err != nil {
			c.s.tally.fail("%v", err)
			return
		}
		for _, u := range m.Upstreams {
			if u.Name == o.name {
				pid = u.Pid
			}
		}
		if pid == 0 { // the server has just ended by itself
			kind = mcptest.CrashBefore
		}
	}
	c.s.tally.fault("server: " + kind)
	began := time.Now()
	switch kind {
	case killed:
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	case forgotten:
		c.s.farm.servers[o.name].ForgetSessions()
	default:
		waiting = append(waiting, c.call(o.name+"__fault", fmt.Sprintf(`{"kind":%q,"x":%q}`, kind, c.mark), false))
	}
	for _, r := range waiting {
		got := c.answered(r)
		if got.ok() && strings.Contains(r.label, "__wait") {
			c.s.tally.fail("%s: %s was answered: %s", c.name(), r.label, clip(string(got.raw)))
		}
	}
	answered := time.Since(began)
	calls, last, ok := c.ready(context.Background(), o)
	if !ok {
		return
	}
	name := o.transport
	if kind == mcptest.StopReading || kind == mcptest.IgnoreShutdown {
		name = "deaf" // noticed only when calls time out
	}
	c.s.tally.crashed(name, crash{o.name + " " + kind, answered, time.Since(began), calls, last})
}
