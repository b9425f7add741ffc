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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// Kinds of durable runs, and their tools.
const (
	kindPays    = "durable, idempotent by key"
	kindCharges = "durable, not idempotent"
	kindReads   = "durable, reads only"

	toolPlain   = "fleet_plain"
	toolPays    = "fleet_pays"
	toolCharges = "fleet_charges"
	toolReads   = "fleet_reads"
)

type savedTool struct {
	name, code string
	durable    bool
}

// savedTools call the ledger with the keys KEY.0, KEY.1, ...
var savedTools = []savedTool{
	{toolPlain, code("charge"), false},
	{toolPays, code("pay"), true},
	{toolCharges, code("charge"), true},
	{toolReads, code("read"), true},
}

// quickTools call a tool of the ledger that does not wait.
var quickTools = []savedTool{{"fleet_quick", code("quick"), false}, {"fleet_quick_durable", code("quick"), true}}

func code(tool string) string {
	return fmt.Sprintf("for i in range(params.times):\n    got = ledger.%s(key=\"%%s.%%d\" %% (params.key, i), ms=params.ms)\n"+
		"    if got.n < 1:\n        fail(\"not counted\")\n"+
		"return \"done \" + params.key", tool)
}

// runOf returns the parameters of a call of a saved tool.
func runOf(tool, key string, times, ms int) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"key":%q,"times":%d,"ms":%d}}`, tool, key, times, ms)
}

func (c *crowd) durablePays(ctx context.Context, no int, rnd *rand.Rand) {
	c.durableRun(ctx, kindPays, toolPays, fmt.Sprintf("p%d", no), rnd)
}

func (c *crowd) durableCharges(ctx context.Context, no int, rnd *rand.Rand) {
	c.durableRun(ctx, kindCharges, toolCharges, fmt.Sprintf("d%d", no), rnd)
}

func (c *crowd) durableReads(ctx context.Context, no int, rnd *rand.Rand) {
	c.durableRun(ctx, kindReads, toolReads, fmt.Sprintf("r%d", no), rnd)
}

// durableRun calls a durable tool and waits some time for the end, from whichever replica. The
// crowd waits on for unfinished runs.
func (c *crowd) durableRun(ctx context.Context, kind, tool, key string, rnd *rand.Rand) {
	times, ms := 2+rnd.IntN(8), rnd.IntN(400)
	t := c.t.tally
	select {
	case c.waiting <- struct{}{}:
	case <-ctx.Done():
		return
	}
	t.sent(kind)
	client := c.modern()
	done := make(chan struct{})
	c.settling.Go(func() {
		defer func() { close(done); <-c.waiting }()
		defer client.Disconnect()
		began := c.t.disturbed()
		result, task, fault := c.outcome(client, kind, tool, key, times, ms)
		told := time.Now().UTC().Format("15:04:05.000")
		least, most := 0, 1
		switch text := string(result); {
		case strings.Contains(text, "done "+key):
			t.answered(kind)
			least = 1
		case kind == kindCharges && strings.Contains(text, "it is not known whether"):
			t.excused(kind, "in doubt, "+c.t.disturbedSince(began))
		case strings.Contains(text, "was not run"):
			t.excused(kind, "refused, "+c.t.disturbedSince(began))
			most = 0
		case strings.Contains(text, "which has ended: it is lost"), strings.Contains(text, "did not end: the process that ran it has ended"):
			// The log of the run was not begun while the store was away: then no call may ever be
			// made.
			t.excused(kind, "it had not begun: the store was away, and its replica ended")
			most = 0
		case fault != "":
			// The client does not know of a run, and cannot ask; a run that has begun goes on.
			t.excused(kind, "the answer, not the run: "+fault)
			if kind != kindCharges {
				c.allOrNothing(kind, key, times)
			}
		default:
			t.lost(kind, "%s (task %s): %s", key, clip(task), end(text))
		}
		if kind == kindReads && most > 0 {
			most = 1000 // reads are repeated
		}
		for n := range times {
			t.expectAs(kind, fmt.Sprintf("%s.%d", key, n), least, most, fmt.Sprintf("%s: %s", told, end(string(result))))
		}
	})
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(3 * time.Second):
	}
}

// end returns the end of a text.
func end(s string) string {
	if len(s) > 300 {
		return "..." + s[len(s)-300:]
	}
	return s
}

var ids = regexp.MustCompile(`[0-9a-f]{32}|"id":[0-9]+`)

// said returns an answer without the variable parts.
func said(r reply) string { return clip(ids.ReplaceAllString(r.String(), "...")) }

// outcome calls a tool and returns the result from the call's answer or from a task. fault is set
// if the answer of the call was lost.
func (c *crowd) outcome(client *mcptest.Client, kind, tool, key string, times, ms int) (result []byte, task, fault string) {
	got := ask(client, 1, "tools/call", runOf(tool, key, times, ms))
	if got.ended() {
		return nil, "", "SIGTERM, said"
	}
	if got.excused != "" {
		return nil, "", got.excused
	}
	if got.err != nil {
		return []byte(got.err.Error()), "", ""
	}
	task, is := wire.GetString(got.result, "taskId")
	if !is {
		return got.raw, "", ""
	}
	if c.t.plant == "run" && c.t.tally.plant("run") {
		task += "x"
	}
	last := got
	for n := 2; c.settle.Err() == nil; n++ {
		pause(c.settle, 300*time.Millisecond)
		last = ask(client, n, "tasks/get", fmt.Sprintf(`{"taskId":%q}`, task))
		status, _ := wire.GetString(last.result, "status")
		switch {
		case status == "working":
		case status == "completed", status == "failed", status == "cancelled":
			return last.raw, task, ""
		case last.excused != "":
		case bytes.Contains(last.raw, []byte("there is no such task")), bytes.Contains(last.raw, []byte("which has ended: it is lost")):
			return last.raw, task, "" // a client believes this result
		default:
			c.t.tally.note("tasks/get: " + said(last))
		}
	}
	return []byte("no end: " + last.String()), task, ""
}

// takeover is the longest time until a run goes on elsewhere, if the store is available.
const takeover = time.Minute

// allOrNothing waits until a run without a waiting client has made all calls. The run may also
// never have begun.
func (c *crowd) allOrNothing(kind, key string, times int) {
	for began := time.Now(); ; {
		n := 0
		for i := range times {
			if c.t.fleet.ledger.count(fmt.Sprintf("%s.%d", key, i)) > 0 {
				n++
			}
		}
		switch {
		case n == times:
			c.t.tally.note("runs whose client knew nothing of them went on to the end")
			return
		case c.settle.Err() != nil && n > 0:
			c.t.tally.lost(kind, "%s was left after %d of %d calls", key, n, times)
			return
		case c.settle.Err() != nil:
			return
		}
		pause(c.settle, 300*time.Millisecond)
		if n == 0 && time.Since(began) > takeover {
			return // the run has not begun
		}
	}
}

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
