package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// life is the behaviour of a client until the client leaves.
type life func(ctx context.Context, kind string, rnd *rand.Rand)

// rude returns the lives of misbehaving clients by kind.
func (s *soak) rude() map[string]life {
	return map[string]life{
		"stalling": s.stalls, "vanishing": s.vanishes, "dropping": s.drops, "flooding": s.floods, "reusing": s.reuses,
		"cancelling": s.cancels, "fleeting": s.comesAndGoes, "half-open": s.halfOpens,
	}
}

// stalls is a client that stops reading for a while, so that messages pile up.
func (s *soak) stalls(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	s.tally.fault("client: stops reading")
	c.Pause()
	requests := []request{
		c.call("calmweb__burst", `{"count":3000}`, false),
		c.call("calm__count", `{"times":2000}`, true),
	}
	for range 5 {
		requests = append(requests, c.call("calm__echo", fmt.Sprintf(`{"x":%q}`, c.mark+strings.Repeat("x", 200_000)), true))
	}
	pause(ctx, time.Duration(500+rnd.IntN(2000))*time.Millisecond)
	if rnd.IntN(3) == 0 {
		c.vanish()
		return
	}
	c.Resume()
	for _, r := range requests {
		c.judge(find("calm"), r, strings.HasPrefix(r.label, "calm__echo"))
	}
	c.close()
}

// vanishes is a client that disconnects while calls are pending.
func (s *soak) vanishes(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	s.tally.fault("client: vanishes")
	for range 1 + rnd.IntN(10) {
		o := origins[rnd.IntN(len(origins))]
		if o.own && rnd.IntN(4) > 0 {
			continue
		}
		c.call(o.name+"__wait", fmt.Sprintf(`{"x":%q}`, c.mark), rnd.IntN(2) == 0)
	}
	pause(ctx, time.Duration(rnd.IntN(100))*time.Millisecond)
	c.vanish()
}

// drops is a client that closes the connections of its requests and continues.
func (s *soak) drops(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	for range 10 {
		s.tally.fault("client: drops a request")
		r := c.call(all[rnd.IntN(3)]+"__wait", fmt.Sprintf(`{"x":%q}`, c.mark), true)
		pause(ctx, time.Duration(rnd.IntN(20))*time.Millisecond)
		c.forgets(r)
		c.Drop(r.id)
	}
	c.echo(find("calm"), 10)
	c.close()
}

// floods is a client that sends many messages at once, some of them invalid.
func (s *soak) floods(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	s.tally.fault("client: floods")
	var requests []request
	for range 150 {
		requests = append(requests, c.call("calm__echo", fmt.Sprintf(`{"x":%q}`, c.mark), rnd.IntN(2) == 0))
	}
	for range 50 {
		_ = c.Notify("notifications/progress", `{"progressToken":"~","progress":1}`)
		_ = c.Send([]byte(`{"jsonrpc":"2.0","id":`)) // refused
	}
	for _, r := range requests {
		c.judge(find("calm"), r, true)
	}
	c.close()
	pause(ctx, time.Second)
}

// reuses is a client that sends several requests with the same id. Each is answered, with a result
// or an error.
func (s *soak) reuses(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	for range 10 {
		s.tally.fault("client: reuses an id")
		id, times := c.id(), 2+rnd.IntN(3)
		for range times {
			c.expect(id, "echo under one id", "")
			c.Client.Start(id, "tools/call", mcptest.ToolParams("calm__echo", fmt.Sprintf(`{"x":%q}`, c.mark), ""))
		}
		c.settled(id, times)
	}
	c.close()
}

// settled waits until times requests with the same id are answered. An error has no id while
// another request with the id is in flight.
func (c *session) settled(id string, times int) {
	key := wire.IDKey([]byte(id))
	for end := time.Now().Add(maxWait); ; time.Sleep(2 * time.Millisecond) {
		c.mu.Lock()
		a := c.asked[key]
		answers, nulls := a.answers, c.nulls
		if answers+nulls == times {
			c.nulls, a.cancelled = 0, true
		}
		c.mu.Unlock()
		if answers+nulls == times && answers > 0 {
			return
		}
		if answers+nulls > times || answers+nulls == times || time.Now().After(end) {
			c.s.tally.fail("%s: %d requests under one id: %d answers, %d errors without an id", c.name(), times, answers, nulls)
			return
		}
	}
}

// cancels is a client that cancels all its requests, and unknown requests.
func (s *soak) cancels(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	s.tally.fault("client: cancels everything")
	tools := []string{"calm__wait", "calmweb__wait", "calm__echo", "wild__wait", "wildsse__wait", compositeTool}
	var requests []request
	for range 40 {
		requests = append(requests, c.call(tools[rnd.IntN(len(tools))], fmt.Sprintf(`{"mark":%q}`, c.mark), rnd.IntN(2) == 0))
	}
	pause(ctx, time.Duration(rnd.IntN(20))*time.Millisecond)
	for _, r := range requests {
		c.cancel(r)
		_ = c.Notify("notifications/cancelled", `{"requestId":"never there"}`)
	}
	for _, r := range requests {
		c.wait(r)
	}
	c.echo(find("calm"), 10)
	c.close()
}

// comesAndGoes is a client that opens sessions and ends them at once, by DELETE or by
// disconnecting.
func (s *soak) comesAndGoes(ctx context.Context, kind string, rnd *rand.Rand) {
	var all sync.WaitGroup
	for range 10 {
		clean := rnd.IntN(2) == 0
		seed := rnd.Uint64()
		all.Go(func() {
			c := s.open(kind, rand.New(rand.NewPCG(seed, 0)))
			switch {
			case c == nil:
			case clean:
				s.tally.fault("client: session deleted at once")
				c.close()
			default:
				s.tally.fault("client: session left at once")
				c.vanish()
			}
		})
	}
	all.Wait()
	pause(ctx, time.Second)
}

// halfOpens is a client that leaves connections open in all stages of a request, and closes them
// later.
func (s *soak) halfOpens(ctx context.Context, kind string, rnd *rand.Rand) {
	address, err := url.Parse(s.host.url)
	if err != nil {
		s.tally.fail("%v", err)
		return
	}
	head := "POST " + address.Path + " HTTP/1.1\r\nHost: " + address.Host + "\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + mcptest.ClientParams + `}`
	whole := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	stages := []string{"", "PO", head, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body[:20]), whole}
	var conns []net.Conn
	for range 10 {
		conn, err := net.Dial("tcp", address.Host)
		if err != nil {
			s.tally.fail("%s: %v", kind, err)
			break
		}
		s.tally.fault("client: half open")
		_, _ = io.WriteString(conn, stages[rnd.IntN(len(stages))])
		conns = append(conns, conn)
	}
	conns = append(conns, s.deafListener(address, whole)...)
	pause(ctx, time.Duration(rnd.IntN(3000))*time.Millisecond)
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// deafListener opens a session and does not read the GET stream.
func (s *soak) deafListener(address *url.URL, initialize string) (conns []net.Conn) {
	conn, err := net.Dial("tcp", address.Host)
	if err != nil {
		s.tally.fail("half open: %v", err)
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(maxWait))
	_, _ = io.WriteString(conn, initialize)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.tally.fail("half open: answer to initialize: %v", err)
		return []net.Conn{conn}
	}
	resp.Body.Close()
	id := resp.Header.Get("Mcp-Session-Id")
	listener, err := net.Dial("tcp", address.Host)
	if err != nil {
		return []net.Conn{conn}
	}
	_, _ = fmt.Fprintf(listener, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", address.Path, address.Host, id)
	return []net.Conn{conn, listener}
}

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
