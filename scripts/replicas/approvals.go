//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// Kinds of calls that need a decision.
const (
	kindAsked  = "calls that ask the client"
	kindQueued = "calls that wait in the queue"
)

// approvalRules are lines of a configuration: calls of danger are asked about.
const approvalRules = `
[policy]
default = "allow"

[[policy.rule]]
name   = "dangerous"
tools  = ["ledger.danger"]
action = "ask"

[approval]
by = "client, else queue"
wait = "hold"
timeout = "40s"
max_waiting = 100
`

// canAsk is the envelope of clients that can be asked.
var canAsk = mcptest.Envelope{Capabilities: `{"elicitation":{"form":{}}}`, ClientInfo: `{"name":"fleet","version":"1"}`}

// asked makes a call about which a replica asks the client, and sends the client's answer to any
// other replica.
func (c *crowd) asked(_ context.Context, no int, rnd *rand.Rand) {
	t := c.t.tally
	key := fmt.Sprintf("a%d", no)
	client := c.modern()
	defer client.Disconnect()
	t.sent(kindAsked)
	call := charge("ledger__danger", key, slow(rnd))
	got := await(client, client.Start("1", "tools/call", canAsk.Params(call)))
	state, parked := wire.GetString(got.result, "requestState")
	if parked {
		answer := answered(call, state, got.result)
		if rnd.IntN(5) == 0 { // an impatient client sends the answer twice, to two replicas
			other := c.modern()
			twice := other.Start("1", "tools/call", canAsk.Params(answer))
			got = c.send(client, answer)
			second := await(other, twice)
			other.Disconnect()
			if !got.ok() {
				got, second = second, got
			}
			t.note("answers of clients that were sent twice")
			if got.ok() && second.ok() {
				t.note("of these, both were answered") // the ledger knows the number of calls
			}
			if used := []byte("requestState is not valid"); bytes.Contains(got.raw, used) {
				t.excused(kindAsked, "the answer was sent twice, and one of them was lost")
				t.expect(kindAsked, key, 0, 1)
				return
			}
		} else {
			got = c.send(client, answer)
		}
	}
	if !parked && got.ok() {
		t.lost(kindAsked, "%s was made without a question", key)
	}
	c.judge(kindAsked, key, got)
}

// send sends the answer to a question, and again while the replica where the call waits cannot be
// reached.
func (c *crowd) send(client *mcptest.Client, answer string) (got reply) {
	for n, began := 2, time.Now(); time.Since(began) < 2*patience; n++ { // an unknown replica has ended after a while
		got = await(client, client.Start(strconv.Itoa(n), "tools/call", canAsk.Params(answer)))
		if n > 2 && bytes.Contains(got.raw, []byte("requestState is not valid")) {
			return reply{err: errors.New(got.String()), excused: "the answer was used, and the result was lost"}
		}
		if !bytes.Contains(got.raw, []byte("try again later")) || got.silent() && time.Since(began) > patience/2 {
			break
		}
		time.Sleep(300 * time.Millisecond)
	}
	return got
}

// silent reports whether the replica of a waiting call is silent: for ten minutes, nothing else can
// be known about a killed replica.
func (r reply) silent() bool {
	return bytes.Contains(r.raw, []byte("the call waits for answers in replica")) && bytes.Contains(r.raw, []byte("which has not been heard of for"))
}

// answered returns the parameters with which a call is repeated when all its questions are answered
// with yes.
func answered(call, state string, result []byte) string {
	requests, _ := wire.Get(result, "inputRequests")
	all, _ := wire.Members(requests)
	responses := []byte(`{}`)
	for _, r := range all {
		responses, _ = wire.Set(responses, []byte(`{"action":"accept","content":{"decision":"allow once"}}`), r.Name)
	}
	out, _ := wire.Set([]byte(call), responses, "inputResponses")
	out, _ = wire.Set(out, wire.Quote(state), "requestState")
	return string(out)
}

// queued makes a call that waits until the approver has allowed the call, on whichever machine.
func (c *crowd) queued(_ context.Context, no int, rnd *rand.Rand) {
	key := fmt.Sprintf("q%d", no)
	client := c.modern()
	defer client.Disconnect()
	c.t.tally.sent(kindQueued)
	got := ask(client, 1, "tools/call", charge("ledger__danger", key, slow(rnd)))
	if bytes.Contains(got.raw, []byte("nobody has decided")) {
		c.t.tally.excused(kindQueued, "nobody has decided in time")
		return
	}
	c.judge(kindQueued, key, got)
}

// approver allows all waiting calls, with the command, on any of the machines.
func (c *crowd) approver(ctx context.Context, _ int, rnd *rand.Rand) {
	r := c.t.fleet.replicas[rnd.IntN(size)]
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := c.t.command(ctx, r, "approvals", "list", "--json")
	if err != nil {
		c.t.tally.note("approvals list: " + said(reply{err: err}))
		return
	}
	var list struct {
		Approvals []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"approvals"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		if err := json.Unmarshal(out, &list.Approvals); err != nil {
			c.t.tally.fail("approvals list --json: %v: %s", err, out)
		}
	}
	var all sync.WaitGroup
	for _, a := range list.Approvals {
		if a.State == "allowed" || a.State == "denied" {
			continue
		}
		all.Go(func() {
			if _, err := c.t.command(ctx, c.t.fleet.replicas[rand.IntN(size)], "approvals", "allow", a.ID); err != nil {
				c.t.tally.note("approvals allow: an entry was gone or the store away")
			}
		})
	}
	all.Wait()
	pause(ctx, time.Second)
}

// command runs the binary on the machine of a replica, with the machine's clock.
func (t *trial) command(ctx context.Context, r *replica, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.program(), append(args, "--config", r.config)...)
	cmd.Env = append(cmd.Environ(), r.env()...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(problems.String()), "\n")
		err = fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return out, err
}
