package host

import (
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// newRules are in force when the runs go on.
const newRules = `
[[policy.rule]]
name = "no calls"
tools = ["up.t"]
when = 'args.of == "call denied"'
action = "deny"

[[policy.rule]]
name = "no jobs"
tools = ["tools.job"]
when = 'args.of == "tool denied"'
action = "deny"

[[policy.rule]]
name = "asks"
tools = ["up.t", "tools.job"]
when = 'args.of == "asked"'
action = "ask"
`

// begin begins a run of the durable tool, which gets its first answer and makes its second call.
func (p taskProcess) begin(token, of string) (id string) {
	p.t.Helper()
	text := p.read(p.open(token, "tools/call", "job", `"name":"job","arguments":{"of":"`+of+`"}`), `"id":1`)
	id, ok := wire.GetString([]byte(text), "result", "taskId")
	if !ok {
		p.t.Fatal(text)
	}
	p.answer("tools/call", `{"content":[{"type":"text","text":"one "}]}`)
	p.next("tools/call")
	return id
}

// TestDurableUnderNewRules checks that runs which go on in another process are subject to the
// policy, the rights and the pins of that one: from their next call on.
func TestDurableUnderNewRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens := bearerTokens("one-token", "narrowed", "pinned")
	with := func(change func(*config.Config), tokens ...bearer.Token) taskProcess {
		return newDurableProcess(t, dir, func(cfg *config.Config) {
			cfg.Approval = config.Approval{By: config.ApprovalByQueue, Wait: config.ApprovalHold, Timeout: time.Minute, MaxWaiting: 9}
			cfg.HTTP.Tokens = tokens
			change(cfg)
		})
	}
	first := with(func(*config.Config) {}, tokens...)
	ids := map[string]string{}
	for _, of := range []string{"call denied", "tool denied", "asked"} {
		ids[of] = first.begin("one-token", of)
	}
	ids["narrowed"], ids["pinned"] = first.begin("narrowed", "x"), first.begin("pinned", "x")
	if err := first.host.durable.close(t.Context()); err != nil { // as at the end of the process
		t.Fatal(err)
	}
	tokens[1].Rights.Hide = []string{"up.*"}
	second := with(func(cfg *config.Config) { cfg.Policy = policyOf(t, newRules) }, tokens[:2]...)
	second.await(ids["call denied"], `"status":"completed"`, "policy denies up.t")
	second.await(ids["tool denied"], `"status":"completed"`, "policy denies tools.job")
	second.awaitFor("narrowed", ids["narrowed"], `"status":"completed"`, "may not be called")
	waiting := nextWaiting(t, second.host)
	if _, err := second.host.approvals.Decide(t.Context(), waiting, approval.Verdict{Allow: true, By: "me"}, approval.HowQueue, 0); err != nil {
		t.Fatal(err)
	}
	call := second.next("tools/call") // the only one
	if of, _ := wire.GetString(call, "params", "arguments", "of"); of != "asked" {
		t.Errorf("called %s", call)
	}
	id, _ := wire.Get(call, "id")
	second.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"two"}]}}`, id)
	second.await(ids["asked"], `"status":"completed"`, `"text":"one two"`)

	third := with(func(cfg *config.Config) {
		cfg.Pins = config.PinsEnforce
		other := pins.New()
		if err := other.Set("up", pins.Lists{wire.Tools: []byte(`[{"name":"t","title":"another one"}]`)}); err != nil {
			t.Fatal(err)
		}
		if err := other.Write(regular.Place{Name: cfg.PinsPath()}); err != nil {
			t.Fatal(err)
		}
	}, tokens[2])
	third.awaitFor("pinned", ids["pinned"], `"status":"completed"`, "has changed since it was pinned")
}
