//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// Kinds of requests.
const (
	kindModern    = "proxied calls, modern"
	kindLegacy    = "proxied calls, legacy"
	kindSession   = "sessions, legacy"
	kindComposite = "composite tools"
)

// charge returns the parameters of a call of the ledger.
func charge(tool, key string, ms int) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"key":%q,"ms":%d}}`, tool, key, ms)
}

// slow returns how long a call takes: mostly very short, sometimes so long that faults hit the
// call.
func slow(rnd *rand.Rand) int {
	if rnd.IntN(10) == 0 {
		return rnd.IntN(1500)
	}
	return 0
}

// modernCalls makes some calls, each through another replica.
func (c *crowd) modernCalls(ctx context.Context, no int, rnd *rand.Rand) {
	client := c.modern()
	defer client.Disconnect()
	for n := range 20 {
		if ctx.Err() != nil {
			return
		}
		key := fmt.Sprintf("m%d.%d", no, n)
		params := charge("ledger__charge", key, slow(rnd))
		c.t.tally.sent(kindModern)
		if c.t.plant == "twice" && c.t.tally.plant("twice") {
			ask(client, 1_000_000, "tools/call", params)
		}
		got := ask(client, n+1, "tools/call", params)
		if c.t.plant == "lose" && c.t.tally.plant("lose") {
			got = reply{err: fmt.Errorf("planted")}
		}
		c.judge(kindModern, key, got)
	}
}

// judge counts the answer to a call that charges a key. A call is made at most once, even if the
// answer is lost.
func (c *crowd) judge(kind, key string, got reply) {
	t := c.t.tally
	least, most := 0, 1
	switch {
	case got.ok() && bytes.Contains(got.result, []byte(key)):
		t.answered(kind)
		least = 1
	case got.failed && bytes.Contains(got.result, []byte("the store of the fleet")):
		t.excused(kind, "refused, since the store is away")
		most = 0
	case got.excused != "":
		t.excused(kind, got.excused)
	case got.ended():
		t.excused(kind, "SIGTERM, said")
	case bytes.Contains(got.raw, []byte("was lost: what was asked for may have been done")),
		bytes.Contains(got.raw, []byte("the replica that worked on this request was lost")):
		t.excused(kind, "the replica that it was passed on to, said")
	case got.failed && bytes.Contains(got.result, []byte("this process was taken for dead")):
		t.excused(kind, "its replica was silent, and the others took it out of the queue, said")
		most = 0
	case got.silent():
		t.excused(kind, "the replica where it waits is silent, said")
	case bytes.Contains(got.raw, []byte("the call waited for answers in a process that is ending")):
		t.excused(kind, "SIGTERM, said")
	case bytes.Contains(got.raw, []byte("the call waited for answers in replica")):
		t.excused(kind, "the replica where it waited, said")
	default:
		t.lost(kind, "%s: %v", key, got)
	}
	t.expect(kind, key, least, most)
}

// composites calls a saved tool that charges three keys.
func (c *crowd) composites(_ context.Context, no int, rnd *rand.Rand) {
	client := c.modern()
	defer client.Disconnect()
	key := fmt.Sprintf("c%d", no)
	t := c.t.tally
	t.sent(kindComposite)
	got := await(client, client.Start("1", "tools/call", mcptest.Envelope{}.Params(runOf(toolPlain, key, 3, slow(rnd)))))
	least := 0
	switch {
	case got.ok() && bytes.Contains(got.result, []byte("done "+key)):
		t.answered(kindComposite)
		least = 1
	case got.excused != "":
		t.excused(kindComposite, got.excused)
	case got.ended():
		t.excused(kindComposite, "SIGTERM, said")
	default:
		t.lost(kindComposite, "%s: %v", key, got)
	}
	for n := range 3 {
		t.expect(kindComposite, fmt.Sprintf("%s.%d", key, n), least, 1)
	}
}

// legacySession is a session with some calls, each through another replica. The session survives
// the deaths of replicas.
func (c *crowd) legacySession(ctx context.Context, no int, rnd *rand.Rand) {
	t := c.t.tally
	client := c.modern()
	troubled := t.troubled()
	begin, cancel := context.WithTimeout(context.Background(), patience)
	_, err := client.Initialize(begin, mcptest.ClientParams)
	cancel()
	if err != nil {
		defer client.Disconnect()
		var lost *lostError
		t.sent(kindSession)
		switch {
		case errors.As(err, &lost) && lost.fault != "":
			t.excused(kindSession, "it did not begin: "+lost.fault)
		case notFound(err) && (troubled || t.troubled()):
			t.excused(kindSession, "begun while the store was away")
		default:
			t.lost(kindSession, "session %d does not begin: %v", no, err)
		}
		return
	}
	t.sent(kindSession)
	for n := range 20 {
		if ctx.Err() != nil {
			break
		}
		if c.t.plant == "session" && t.plant("session") {
			end, cancel := context.WithTimeout(context.Background(), patience)
			_ = client.Close(end)
			cancel()
		}
		key := fmt.Sprintf("l%d.%d", no, n)
		t.sent(kindLegacy)
		got := c.legacyCall(client, n, key, rnd)
		if !bytes.Contains(got.raw, []byte("session not found")) && !notFound(got.err) {
			c.judge(kindLegacy, key, got)
			continue
		}
		client.Disconnect()
		if troubled {
			t.excused(kindLegacy, "in a session that was begun while the store was away")
			t.excused(kindSession, "begun while the store was away")
		} else {
			t.of(kindSession, func(c *counts) { c.sessions++ })
			t.fail("session %d was lost: %v", no, got)
		}
		t.expect(kindLegacy, key, 0, 0)
		return
	}
	end, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var lost *lostError
	switch err := client.Close(end); {
	case errors.As(err, &lost) && lost.fault != "":
		t.excused(kindSession, "the answer to its end: "+lost.fault)
	case notFound(err) && troubled:
		t.excused(kindSession, "begun while the store was away")
	case err != nil:
		t.lost(kindSession, "session %d does not end: %v", no, err)
	default:
		t.answered(kindSession)
	}
}

// notFound reports whether a replica does not know a session.
func notFound(err error) bool {
	var status *mcptest.StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}

// legacyCall makes a call in a session.
func (c *crowd) legacyCall(client *mcptest.Client, n int, key string, rnd *rand.Rand) reply {
	return await(client, client.Start(strconv.Itoa(n+1), "tools/call", charge("ledger__charge", key, slow(rnd))))
}

// prepare waits until all replicas reach the ledger, and saves the tools.
func (c *crowd) prepare(ctx context.Context) error {
	for _, r := range c.t.fleet.replicas {
		if err := c.prepareReplica(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) prepareReplica(ctx context.Context, r *replica) error {
	client := c.sticky(r.no)
	defer client.Disconnect()
	return c.prepareOne(ctx, client, r)
}

func (c *crowd) prepareOne(ctx context.Context, client *mcptest.Client, r *replica) error {
	var got reply
	for n := 1; ; n++ {
		if got = ask(client, n, "tools/call", charge("ledger__read", "ready", 0)); got.ok() {
			break
		}
		if n > 600 || ctx.Err() != nil {
			return fmt.Errorf("%s does not reach the ledger: %v", r.name, got)
		}
		pause(ctx, 100*time.Millisecond)
	}
	for n, tool := range savedTools {
		params := fmt.Sprintf(`{"name":"save_tool","arguments":{"name":%q,"description":"x","durable":%t,"code":%s,"inputSchema":{"type":"object"}}}`,
			tool.name, tool.durable, wire.Quote(tool.code))
		for try := 0; ; try++ {
			if got = ask(client, 1000+100*try+n, "tools/call", params); got.ok() {
				break
			}
			if try > 100 || ctx.Err() != nil {
				return fmt.Errorf("%s does not save %s: %v", r.name, tool.name, got)
			}
			pause(ctx, 300*time.Millisecond) // the store may not have answered yet
		}
	}
	return nil
}
