package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// This file has the clients of the stateless era. All of them have the same credentials, so that
// the proxy sees a single principal: messages for a request of one client must not reach another.

// modernKind begins the kind of each of them.
const modernKind = "modern"

// modern returns their lives by kind.
func (s *soak) modern() map[string]life {
	return map[string]life{
		modernKind: s.behave, modernKind + " too": s.behave, modernKind + " listening": s.listens, modernKind + " abandoning": s.abandons,
		modernKind + " stalling": s.stalls, modernKind + " vanishing": s.vanishes, modernKind + " dropping": s.drops,
		modernKind + " cancelling": s.cancels,
	}
}

func isModern(kind string) bool { return strings.HasPrefix(kind, modernKind) }

// asksModern is asks for a client of the stateless era: the question comes as a result, and the
// client repeats the call with an answer, or abandons the call.
func (c *session) asksModern(o origin, abandon bool) {
	arguments := fmt.Sprintf(`{"method":"roots/list","params":{"x":%q}}`, c.mark)
	params := mcptest.ToolParams(o.name+"__ask", arguments, "")
	for range maxRounds {
		got := c.judge(o, c.start("ask "+o.name, "tools/call", params, ""), false)
		next, asked := c.again(o.name+"__ask", arguments, got)
		switch {
		case !asked && o.exact() && got.ok() && !strings.Contains(string(got.result), c.mark):
			c.s.tally.fail("%s: asked through %s, and the answer was not its: %s", c.name(), o.name, clip(string(got.raw)))
			return
		case !asked:
			return
		case abandon:
			c.s.tally.fault("client: abandons a question")
			return
		}
		params = next
	}
	c.s.tally.fail("%s: asked again and again through %s", c.name(), o.name)
}

// maxRounds is how often a client answers questions of a call.
const maxRounds = 10

// again returns the params with which a client of the stateless era repeats a call: with the
// answers to the questions in the result. ok is false for a result without questions.
func (c *session) again(tool, arguments string, got outcome) (params string, ok bool) {
	state, parked := wire.GetString(got.result, "requestState")
	if !parked || !c.modern {
		return "", false
	}
	asked, _ := wire.Get(got.result, "inputRequests")
	requests, _ := wire.Members(asked)
	responses := []byte(`{}`)
	for _, r := range requests {
		var err error
		if responses, err = wire.Set(responses, fmt.Appendf(nil, `{"roots":[],"x":%q}`, c.mark), r.Name); err != nil {
			c.s.tally.fail("%s: a question with a bad name: %s", c.name(), clip(string(got.raw)))
			return "", false
		}
	}
	return fmt.Sprintf(`{"name":%q,"arguments":%s,"inputResponses":%s,"requestState":%q}`, tool, arguments, responses, state), true
}

// abandons is a client that leaves while its calls are parked.
func (s *soak) abandons(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	for range 1 + rnd.IntN(10) {
		c.asksModern(find([]string{"calmweb", "newweb", "calm"}[rnd.IntN(3)]), true)
	}
	c.vanish()
	pause(ctx, time.Second)
}

// listens is a client that subscribes to lists and a resource, a few times, and ends the
// subscriptions by closing the stream, or by vanishing.
func (s *soak) listens(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	for range 1 + rnd.IntN(4) {
		s.tally.fault("client: ends a subscription")
		acks := c.acks.Load()
		r := c.start("subscriptions/listen", "subscriptions/listen",
			`{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["raw://text"]}}`, "")
		c.forgets(r)
		if !until(func() bool { return c.acks.Load() > acks }) {
			s.tally.fail("%s: a subscription is not acknowledged", c.name())
		}
		updates := c.updates.Load()
		touched := c.judge(find("calm"), c.call("calm__touch", `{"uri":"raw://text"}`, false), false)
		if touched.ok() && !until(func() bool { return c.updates.Load() > updates }) {
			s.tally.fail("%s: an update does not arrive", c.name())
		}
		pause(ctx, time.Duration(rnd.IntN(1000))*time.Millisecond)
		if rnd.IntN(4) == 0 {
			c.vanish()
			return
		}
		c.Drop(r.id)
	}
	c.close()
}

// until waits until f returns true, and returns false after too long a wait.
func until(f func() bool) bool {
	for end := time.Now().Add(maxWait); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
