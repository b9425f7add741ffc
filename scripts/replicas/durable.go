//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
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
