//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// mistakes are the plantable mistakes, each once: a call sent twice, a dropped answer, an ended
// session, and a forgotten run.
var mistakes = []string{"twice", "lose", "session", "run"}

// crowd has all clients.
type crowd struct {
	t        *trial
	balancer *balancer
	stop     context.CancelFunc
	working  sync.WaitGroup // clients, until stop
	settling sync.WaitGroup // goroutines waiting for the ends of runs
	waiting  chan struct{}  // a token for each awaited run
	settle   context.Context
	over     context.CancelFunc
}

func newCrowd(t *trial) *crowd {
	return &crowd{t: t, balancer: newBalancer(t), waiting: make(chan struct{}, 30)}
}

// lives are the clients by kind: their number, and the repeated action of each.
var lives = []struct {
	clients int
	live    func(c *crowd, ctx context.Context, no int, rnd *rand.Rand)
}{
	{4, (*crowd).modernCalls}, {4, (*crowd).legacySession}, {2, (*crowd).composites},
	{3, (*crowd).durablePays}, {2, (*crowd).durableCharges}, {2, (*crowd).durableReads},
	{2, (*crowd).asked}, {2, (*crowd).queued}, {1, (*crowd).approver},
}

// start starts all clients.
func (c *crowd) start(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	c.settle, c.over = context.WithCancel(context.Background())
	no := 0
	for _, l := range lives {
		for range l.clients {
			no++
			no := no
			rnd := rand.New(rand.NewPCG(c.t.seed, uint64(no)))
			c.working.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					l.live(c, ctx, no*1_000_000+n, rnd)
					pause(ctx, time.Duration(rnd.IntN(60))*time.Millisecond)
				}
			})
		}
	}
}

// settleTime is how long runs may take to end after the load.
const settleTime = 3 * time.Minute

// end ends all clients, and waits for the runs begun by them.
func (c *crowd) end() {
	c.stop()
	c.working.Wait()
	late := time.AfterFunc(settleTime, c.over)
	c.settling.Wait()
	late.Stop()
	c.over()
}

// check compares the ledger with the expected counts.
func (c *crowd) check() {
	t := c.t.tally
	for _, k := range t.keys {
		n := c.t.fleet.ledger.count(k.key)
		switch {
		case n > k.most:
			t.of(k.kind, func(c *counts) { c.twice++ })
			t.fail("%s: %s was called %d times; the client was told: %s", k.kind, k.key, n, k.said)
		case n < k.least:
			t.lost(k.kind, "%s was answered, and the ledger has %d calls", k.key, n)
		}
	}
}

// modern returns a client of the stateless era, whose requests go to any replica.
func (c *crowd) modern() *mcptest.Client {
	return mcptest.NewHTTP("http://fleet/mcp", mcptest.ClientOptions{Forget: true, Transport: c.balancer})
}

// sticky returns a client whose requests all go to a single replica.
func (c *crowd) sticky(replica int) *mcptest.Client {
	return mcptest.NewHTTP("http://fleet/mcp", mcptest.ClientOptions{
		Forget: true, Transport: c.balancer, Header: map[string]string{stickyHeader: strconv.Itoa(replica)},
	})
}

// envelope is the envelope of modern clients.
var envelope = mcptest.Envelope{Capabilities: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, ClientInfo: `{"name":"fleet","version":"1"}`}

// reply is how a request ended.
type reply struct {
	result  []byte // nil: an error
	failed  bool   // isError
	raw     []byte
	err     error  // set without an answer
	excused string // the fault that has ended the replica of a request without an answer
}

func (r reply) ok() bool { return r.result != nil && !r.failed }

// ask sends a request of the stateless era and waits for the answer.
func ask(client *mcptest.Client, id int, method, params string) reply {
	return await(client, client.Start(strconv.Itoa(id), method, envelope.Params(params)))
}

// await waits for an answer.
func await(client *mcptest.Client, answer <-chan mcptest.Answer) reply {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
		return reply{err: fmt.Errorf("no answer within %v", patience)}
	case a := <-answer:
		var status *mcptest.StatusError
		var lost *lostError
		switch {
		case errors.As(a.Err, &status):
			if m, err := wire.Parse(status.Body); err == nil && m.IsResponse() {
				return reply{raw: status.Body}
			}
			return reply{err: a.Err}
		case errors.As(a.Err, &lost):
			return reply{err: a.Err, excused: lost.fault}
		case a.Err != nil:
			return reply{err: a.Err}
		}
		failed, _ := wire.Get(a.Msg.Result, "isError")
		return reply{result: a.Msg.Result, failed: string(failed) == "true", raw: a.Raw}
	}
}

// ended reports whether the answer comes from a replica that was told to end. A script only reports
// its cancellation, which has no other cause here.
func (r reply) ended() bool {
	return r.failed && (bytes.Contains(r.result, []byte("ended by signal")) || bytes.Contains(r.result, []byte("the request was cancelled")))
}

// String describes an unexpected answer.
func (r reply) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return string(r.raw)
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
