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
