package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestFlowPlans checks that a plan which shows a secret labels the session, and that its calls to
// sinks are only made with a person's approval.
func TestFlowPlans(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(cfg *config.Config) { cfg.Plan.Expires = time.Hour })
	c := dial(t, h.Host)
	made := c.call("plan_tool", fmt.Sprintf(`{"code":%s}`, wire.Quote(flowLeak)))
	id, ok := wire.GetString([]byte(made), "structuredContent", "id")
	if !ok || len(h.calls("chat.post")) != 0 {
		t.Fatalf("%s", made)
	}
	if got := c.call("save_tool", `{"name":"after","description":"d","inputSchema":{"type":"object"},"code":"return 1"}`); !strings.Contains(got, `"private"`) {
		t.Errorf("the session has no label after it was shown a plan: %s", got)
	}
	if got := c.call("apply_plan", fmt.Sprintf(`{"plan":%q}`, id)); !strings.Contains(got, "plans are not compared") || len(h.calls("chat.post")) != 0 {
		t.Errorf("applied: %s\n%q", got, h.calls("chat.post"))
	}
}

// TestFlowStateless checks both eras' ways to ask: a client of 2026-07-28 is asked by the result,
// and what it is given counts for all its requests.
func TestFlowStateless(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(cfg *config.Config) {
		cfg.Flow.Action = flow.Ask
		cfg.Approval = config.Approval{By: config.ApprovalByClient, Wait: config.ApprovalHold, Timeout: time.Minute, MaxWaiting: 9}
		cfg.InputTimeout = time.Minute
	})
	c := dialBare(t, h.Host)
	call := func(more string) string {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"eval_starlark","arguments":{"code":%s}%s,"_meta":%s}}`, wire.Quote(flowLeak), more, clienttest.Envelope))
		return c.hear()
	}
	for decision, sent := range map[string]bool{"deny": false, "allow once": true} {
		got := call("")
		state, ok := wire.GetString([]byte(got), "result", "requestState")
		if !ok {
			t.Fatalf("not asked: %s", got)
		}
		before := len(h.calls("chat.post"))
		got = call(fmt.Sprintf(`,"requestState":%q,"inputResponses":{"question1":{"action":"accept","content":{"decision":%q}}}`, state, decision))
		if made := len(h.calls("chat.post")) > before; made != sent || strings.Contains(got, `"type":"permission"`) == sent {
			t.Errorf("%s: %s", decision, got)
		}
		if !sent && strings.Contains(got, flowSecret) {
			t.Errorf("%s: %s", decision, got)
		}
	}
}

// TestFlowMixing is the session that no script shows: private, untrusted and a public sink need a
// person.
func TestFlowMixing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(cfg *config.Config) {
		cfg.Flow.Untrusted = []string{"notes.get"}
		cfg.Policy = flowPolicyWhen(t, policy.Deny, "session.private && session.untrusted")
	})
	for name, tools := range map[string][]string{"private": {"mail__list"}, "untrusted": {"notes__get"}, "both": {"mail__list", "notes__get"}} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, h.Host)
			for _, tool := range tools {
				c.call(tool, `{}`)
			}
			got := c.call("chat__post", `{}`)
			if denied := strings.Contains(got, "no mixing"); denied != (name == "both") {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestFlowDryRuns checks that dry runs, whose answers are mocks of the agent, are not followed.
func TestFlowDryRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := dial(t, h.Host)
	got := c.call("test_tool", fmt.Sprintf(`{"code":%s,"mocks":[{"tool":"mail.list","returns":{"mails":[{"id":1,"body":"b"}]}},{"tool":"chat.post","returns":1}]}`, wire.Quote(flowLeak)))
	if strings.Contains(got, `"type":"permission"`) || len(h.calls("chat.post")) != 0 {
		t.Errorf("%s", got)
	}
}

// TestFlowOddLabels checks that what a server says about labels counts as a label if it is not
// understood, and that this is logged once.
func TestFlowOddLabels(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := dial(t, h.Host)
	for range 2 {
		if got := c.eval("chat.post({'text': notes.shared({})})"); !strings.Contains(got, `"reason":"flow"`) {
			t.Errorf("got %s", got)
		}
	}
	if sent := h.calls("chat.post"); len(sent) != 0 {
		t.Errorf("sent %q", sent)
	}
	if n := strings.Count(h.log.String(), "is not understood"); n != 1 {
		t.Errorf("%d warnings: %s", n, h.log)
	}
}
